// SPDX-License-Identifier: Apache-2.0
//
// Delays of forks, and forks by who delays them.
#include "base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "falls_asleep.h"

namespace kiln {
namespace {

int status_of(pid_t child) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
}

TEST(ForkDelay, HoldsUpAForkToLaunch) {
    std::optional<ForkDelay> delay(std::in_place);
    std::atomic<pid_t> thread = 0;
    std::atomic<bool> is_over = false;
    std::jthread forks([&] {
        thread = ::gettid();
        const pid_t child = fork_to_launch();
        if (child == 0) {
            const ForkDelay of_child;  // waits for nothing
            ::_exit(is_over ? 0 : 1);
        }
        EXPECT_EQ(status_of(child), 0);
    });
    while (thread == 0) std::this_thread::yield();
    EXPECT_TRUE(test::falls_asleep(thread));
    is_over = true;
    delay.reset();
}

TEST(ForkDelay, IsNotThatOfAChild) {
    std::optional<ForkDelay> delay(std::in_place);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);  // a lock that is released without being held may stay locked for ever
        delay.reset();
        const pid_t to_launch = fork_to_launch();
        if (to_launch == 0) ::_exit(0);
        const ForkDelay next;
        ::_exit(status_of(to_launch));
    }
    delay.reset();
    EXPECT_EQ(status_of(child), 0);
}

}  // namespace
}  // namespace kiln
