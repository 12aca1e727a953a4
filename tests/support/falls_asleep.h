// SPDX-License-Identifier: Apache-2.0
//
// falls_asleep(): for tests of what happens while a thread waits, where nothing else says that it does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace kiln::test {

/// Returns when the system has found this thread of the process (its gettid()) asleep for twenty milliseconds on end: a
/// thread that only has no processor counts as running. False: not within a minute.
inline bool falls_asleep(pid_t thread) {
    constexpr int kInARow = 20;
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (int asleep = 0; std::chrono::steady_clock::now() < until;) {
        std::string stat;
        std::getline(std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat"), stat);
        const auto name_end = stat.rfind(')');  // "ID (NAME) STATE ..."
        const bool is_asleep = name_end != std::string::npos && stat.substr(name_end + 1, 2) == " S";
        asleep = is_asleep ? asleep + 1 : 0;
        if (asleep == kInARow) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

}  // namespace kiln::test
