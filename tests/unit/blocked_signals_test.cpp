// SPDX-License-Identifier: Apache-2.0
//
// Which signals the library's threads take.
#include "base/blocked_signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

namespace kiln {
namespace {

bool is_blocked(int signal) {
    sigset_t mask;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    return ::sigismember(&mask, signal) == 1;
}

TEST(BlockedSignals, AreTheApplicationsAndAllButFaults) {
    std::thread([] {  // whose mask is its own
        sigset_t of_application;
        ::sigemptyset(&of_application);
        ::sigaddset(&of_application, SIGABRT);
        ::sigaddset(&of_application, SIGUSR2);
        ::pthread_sigmask(SIG_SETMASK, &of_application, nullptr);
        {
            const BlockedSignals blocked;
            for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGALRM}) EXPECT_TRUE(is_blocked(signal));
            for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGTRAP}) EXPECT_FALSE(is_blocked(fault));
            EXPECT_TRUE(is_blocked(SIGABRT)) << "the application may take it by signalfd()";
        }
        for (const int signal : {SIGTERM, SIGUSR1, SIGALRM}) EXPECT_FALSE(is_blocked(signal));
        for (const int signal : {SIGABRT, SIGUSR2}) EXPECT_TRUE(is_blocked(signal));
    })
        .join();
}

}  // namespace
}  // namespace kiln
