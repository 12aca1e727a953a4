// SPDX-License-Identifier: Apache-2.0
//
// Numbers of threads: one owner each at a time, given back, and one shared number for those who come too late.
#include "base/thread_slot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>

namespace kiln {
namespace {

// What `threads` threads that all live at once are given.
std::vector<std::size_t> slots_of_threads(std::size_t threads) {
    std::vector<std::size_t> slots(threads);
    std::barrier together(static_cast<std::ptrdiff_t>(threads));
    std::vector<std::jthread> running;
    for (std::size_t& slot : slots) {
        running.emplace_back([&] {
            slot = thread_slot();
            EXPECT_EQ(thread_slot(), slot);
            together.arrive_and_wait();
        });
    }
    running.clear();
    return slots;
}

TEST(ThreadSlot, ThreadsThatLiveAtOnceHaveDifferentOnes) {
    const std::size_t mine = thread_slot();
    ASSERT_LT(mine, kThreadSlots);
    for (int round = 0; round < 20; ++round) {  // so they are given back
        std::vector<std::size_t> slots = slots_of_threads(kThreadSlots / 2);
        slots.push_back(mine);
        std::ranges::sort(slots);
        EXPECT_EQ(std::ranges::adjacent_find(slots), slots.end());
        EXPECT_LT(slots.back(), kThreadSlots);
    }
    EXPECT_EQ(thread_slot(), mine);
}

TEST(ThreadSlot, WhereAllAreTakenTheRestShareOne) {
    ASSERT_LT(thread_slot(), kThreadSlots);
    std::vector<std::size_t> slots = slots_of_threads(kThreadSlots + 5);
    EXPECT_EQ(std::ranges::count(slots, kThreadSlots), 6);
    EXPECT_LT(slots_of_threads(1).front(), kThreadSlots);
}

}  // namespace
}  // namespace kiln
