// SPDX-License-Identifier: Apache-2.0
//
// Delays and exclusions of forks, and forks by who has one; and what is made once without a lock.
#include "base/fork.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

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

TEST(ForkDelay, EndsInAChildOfItsThreadToo) {
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

/// What the child of a fork() by another thread finds, where that waited for this thread's Hold; nullopt: the Hold took
/// longer than forks wait.
template <class Hold>
std::optional<int> status_of_a_fork_during() {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Hold> hold(std::in_place);
    std::atomic<pid_t> thread = 0;
    std::atomic<bool> is_over = false;
    int status = -1;
    std::jthread forks([&] {
        thread = ::gettid();
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(60);
            const Hold of_child;  // waits for nothing
            ::_exit(is_over ? 0 : 1);
        }
        status = status_of(child);
    });
    while (thread == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_over = true;
    hold.reset();
    const auto held = std::chrono::steady_clock::now() - begin;
    forks.join();
    if (held > std::chrono::milliseconds(150)) return std::nullopt;
    return status;
}

template <class Hold>
void expect_to_hold_up_forks() {
    int tried = 0;
    for (int i = 0; i < 200 && tried < 5; ++i)
        if (const auto status = status_of_a_fork_during<Hold>()) {
            EXPECT_EQ(*status, 0);
            ++tried;
        }
    if (tried == 0) GTEST_SKIP() << "this machine is too busy";
}

TEST(ForkDelay, HoldsUpEveryFork) { expect_to_hold_up_forks<ForkDelay>(); }

TEST(ForkExclusion, HoldsUpEveryFork) { expect_to_hold_up_forks<ForkExclusion>(); }

TEST(ForkExclusion, OfTheThreadThatForksIsNotWaitedForForEver) {
    std::optional<ForkExclusion> exclusion(std::in_place);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        std::atomic<bool> is_over = false, was_over = false;
        std::jthread other([&] {
            const ForkExclusion
                next;  // of another thread: waits for the parent's, which is this child's as well
            was_over = is_over.load();
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        is_over = true;
        exclusion.reset();
        other.join();
        ::_exit(was_over ? 0 : 1);
    }
    EXPECT_EQ(status_of(child), 0);
}

TEST(MadeOnce, IsTheSameForAllThreads) {
    std::atomic<const std::string*> known{nullptr};
    std::latch all(8);
    std::array<const std::string*, 8> found{};
    std::vector<std::jthread> threads;
    for (const std::string*& mine : found)
        threads.emplace_back([&] {
            all.arrive_and_wait();
            mine = &made_once(known, [] { return std::make_unique<const std::string>("made"); });
        });
    threads.clear();
    EXPECT_THAT(found, testing::Each(known.load()));
    EXPECT_EQ(*known.load(), "made");
    delete known.load();
}

}  // namespace
}  // namespace kiln
