// SPDX-License-Identifier: Apache-2.0
//
// What the threads of a block know of each other: vector clocks, since the last meeting of all of them.
// (Lamport, "Time, clocks, and the ordering of events in a distributed system", CACM 21(7), 1978; Mattern,
// "Virtual time and global states of distributed systems", 1988.)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace kiln {

/// Not thread-safe.
class RaceClocks {
  public:
    /// All threads start anew: whatever was done before comes before what is done now.
    void start(unsigned threads);

    /// A thread's own time; grows with each thing that orders it before others.
    std::uint32_t now(unsigned thread) const { return own_[thread]; }
    /// Whether what `other` did at `time` comes before what `thread` does now.
    bool comes_before(unsigned other, std::uint32_t time, unsigned thread) const {
        return other == thread || (known_[thread] != nullptr && (*known_[thread])[other] >= time);
    }

    void meet(std::span<const unsigned> threads);
    void release(unsigned thread, std::uint64_t object);
    void acquire(unsigned thread, std::uint64_t object);

  private:
    using Times = std::vector<std::uint32_t>;  // of others, by thread
    using Known = std::shared_ptr<const Times>;

    static bool adds(const Known& known, const Known& more);
    static void join(Times& times, const Known& known);

    std::vector<std::uint32_t> own_;
    std::vector<Known> known_;  // per thread; shared by those that met; null: nothing
    std::unordered_map<std::uint64_t, Known> objects_;
};

}  // namespace kiln
