// SPDX-License-Identifier: Apache-2.0
//
// The order among the threads of a block, as vector clocks since the last barrier of the whole block.
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
    /// Resets all clocks: everything earlier is ordered before everything later.
    void start(unsigned threads);

    /// A thread's own time; advances with each release.
    std::uint32_t now(unsigned thread) const { return own_[thread]; }
    /// Whether an access of `other` at `time` is ordered before one of `thread` now.
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
    std::vector<Known> known_;  // per thread; shared by threads that synchronised; null: nothing known
    std::unordered_map<std::uint64_t, Known> objects_;
};

}  // namespace kiln
