// SPDX-License-Identifier: Apache-2.0
#include "tune/settings_lock.h"

#include <kiln/error.h>

#include <chrono>
#include <utility>

namespace kiln {
namespace {

constexpr std::chrono::seconds kLockPatience{10};

}  // namespace

FileLock locked_settings(const std::filesystem::path& file, const std::string& what) {
    if (auto lock = FileLock::acquire_for(file, kLockPatience)) return std::move(*lock);
    throw UsageError(FileLock::place_for(file).string() +
                     " has been held for ten seconds by another process that writes " + what +
                     "; end that process, or write to another file with --output.");
}

}  // namespace kiln
