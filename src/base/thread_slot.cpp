// SPDX-License-Identifier: Apache-2.0
//
// Numbers by a word of bits, so that a child of fork() finds no lock that may be held. There those of its
// parent's other threads stay taken.
#include "base/thread_slot.h"

#include <atomic>
#include <bit>
#include <cstdint>

namespace kiln::thread_slots {
namespace {

static_assert(kThreadSlots == 64, "a bit of the word for each");
std::atomic<std::uint64_t> taken{0};  // of the process, as threads are

struct GiveBack {
    std::size_t slot;

    explicit GiveBack(std::size_t of_this_thread) : slot(of_this_thread) {}
    GiveBack(const GiveBack&) = delete;
    GiveBack& operator=(const GiveBack&) = delete;
    ~GiveBack() {
        thread_slot = kThreadSlots;  // for destructors of the thread that come later
        taken.fetch_and(~(std::uint64_t{1} << slot), std::memory_order_release);
    }
};

}  // namespace

std::size_t take_thread_slot() {
    std::uint64_t now = taken.load(std::memory_order_relaxed);
    std::size_t slot;
    do {
        slot = static_cast<std::size_t>(std::countr_one(now));
        if (slot == kThreadSlots) return thread_slot = kThreadSlots;
    } while (!taken.compare_exchange_weak(now, now | std::uint64_t{1} << slot, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    static thread_local const GiveBack give_back(slot);
    return thread_slot = slot;
}

}  // namespace kiln::thread_slots
