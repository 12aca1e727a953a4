// SPDX-License-Identifier: Apache-2.0
//
// A small number for each thread, so that what all threads write often (reference counts, counters) can have a
// cache line for each of them.
#pragma once

#include <cstddef>

namespace kiln {

constexpr std::size_t kThreadSlots = 64;

namespace thread_slots {
constexpr std::size_t kNoThreadSlot = kThreadSlots + 1;
inline constinit thread_local std::size_t thread_slot = kNoThreadSlot;
std::size_t take_thread_slot();
}  // namespace thread_slots

/// From 0 to kThreadSlots - 1: this thread's alone until it ends; who has the number next sees all that it did
/// with it. kThreadSlots: they are all taken, and any number of threads has this one. About a nanosecond.
inline std::size_t thread_slot() {
    const std::size_t slot = thread_slots::thread_slot;
    return slot != thread_slots::kNoThreadSlot ? slot : thread_slots::take_thread_slot();
}

}  // namespace kiln
