// SPDX-License-Identifier: Apache-2.0
//
// Threads of the library within an application: the application's signal handlers do not run on them.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace kiln {

/// Throws std::system_error when there can be no more threads.
template <class Function>
std::thread start_thread(Function&& function) {
    sigset_t all;
    ::sigfillset(&all);
    struct Restore {
        sigset_t before;
        ~Restore() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    } restore;
    ::pthread_sigmask(SIG_SETMASK, &all, &restore.before);
    return std::thread(std::forward<Function>(function));
}

}  // namespace kiln
