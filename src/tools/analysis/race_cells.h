// SPDX-License-Identifier: Apache-2.0
//
// Races among threads that order themselves otherwise than by meetings of the whole block: each word of shared
// memory remembers who has accessed it, at the threads' own times. After FastTrack (Flanagan, Freund, PLDI
// 2009): a thread's latest access stands for its earlier ones, and a write that comes after all of them for all
// of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/race_clocks.h"

namespace kiln {

enum class RaceAccess : std::uint8_t { read, write, atomic };

/// Two of one kind that do not conflict: reads, and atomic operations.
constexpr bool conflict(RaceAccess a, RaceAccess b) { return a != b || a == RaceAccess::write; }

/// The access that another one races with.
struct RaceOther {
    unsigned thread = 0;
    std::uint32_t instruction = 0;
    unsigned mask = 0;  ///< bytes of a word that both touch
};

/// Not thread-safe.
class RaceCells {
  public:
    RaceCells(std::size_t words, unsigned warp_size) : words_(words), warp_size_(warp_size) {}

    /// Forgets all.
    void start() { ++epoch_; }

    /// An access to the bytes of `mask`, 4 bits, of a word. What it races with is reported once.
    std::optional<RaceOther> access(std::size_t word, unsigned mask, unsigned thread, RaceAccess access,
                                    std::uint32_t instruction, const RaceClocks& clocks);

  private:
    // Lanes of a warp that did the same at the same time of each.
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
