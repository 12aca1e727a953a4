// SPDX-License-Identifier: Apache-2.0
#include "tune/settings_lock.h"

#include <kiln/error.h>

#include <chrono>
#include <thread>
#include <utility>

namespace kiln {
namespace {

constexpr std::chrono::milliseconds kLockNap{20};
constexpr std::chrono::seconds kLockPatience{10};

}  // namespace

FileLock locked_settings(const std::filesystem::path& file, const std::string& what) {
    const std::filesystem::path place = file.string() + ".lock";
    const auto until = std::chrono::steady_clock::now() + kLockPatience;
    while (true) {
        if (auto lock = FileLock::try_acquire_for(file)) return std::move(*lock);
        if (std::chrono::steady_clock::now() > until)
            throw UsageError(place.string() +
                             " has been held for ten seconds by another process that writes " + what +
                             "; end that process, or write to another file with --output.");
        std::this_thread::sleep_for(kLockNap);
    }
}

}  // namespace kiln
