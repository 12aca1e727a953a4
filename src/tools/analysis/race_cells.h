// SPDX-License-Identifier: Apache-2.0
//
// Races among threads that synchronise by other means than barriers of the whole block. Each word of shared
// memory records which threads accessed it, and at which of the thread's times. After FastTrack (Flanagan,
// Freund, PLDI 2009): a thread's latest access represents its earlier ones, and a write that is ordered after
// all accesses represents all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/race_clocks.h"

namespace kiln {

enum class RaceAccess : std::uint8_t { read, write, atomic };

/// Accesses of the same kind that do not conflict: reads, and atomic operations.
constexpr bool conflict(RaceAccess a, RaceAccess b) { return a != b || a == RaceAccess::write; }

/// The earlier access of a race.
struct RaceOther {
    unsigned thread = 0;
    std::uint32_t instruction = 0;
    unsigned mask = 0;  ///< bytes of the word that both access
};

/// Not thread-safe.
class RaceCells {
  public:
    RaceCells(std::size_t words, unsigned warp_size) : words_(words), warp_size_(warp_size) {}

    /// Forgets all.
    void start() { ++epoch_; }

    /// An access to the bytes of `mask`, 4 bits, of a word. Reports each race once.
    std::optional<RaceOther> access(std::size_t word, unsigned mask, unsigned thread, RaceAccess access,
                                    std::uint32_t instruction, const RaceClocks& clocks);

  private:
    // Lanes of a warp with the same access at the same thread time.
    struct Cell {
        std::uint64_t lanes = 0;
        std::uint32_t time = 0;
        std::uint32_t instruction = 0;
        std::uint16_t warp = 0;
        std::uint8_t mask = 0;
        RaceAccess access = RaceAccess::read;
    };
    struct Word {
        std::uint64_t epoch = 0;
        bool written = false;
        std::vector<Cell> cells;
    };

    std::vector<Word> words_;
    const unsigned warp_size_;
    std::uint64_t epoch_ = 1;
};

}  // namespace kiln
