// SPDX-License-Identifier: Apache-2.0
#include "analysis/race_cells.h"

#include <bit>
#include <vector>

namespace kiln {

std::optional<RaceOther> RaceCells::access(std::size_t word_index, unsigned mask, unsigned thread,
                                           RaceAccess access, std::uint32_t instruction,
                                           const RaceClocks& clocks) {
    Word& word = words_[word_index];
    if (word.epoch != epoch_) {
        word.epoch = epoch_;
        word.written = false;
        word.cells.clear();
    }
    const std::uint32_t time = clocks.now(thread);
    const auto warp = static_cast<std::uint16_t>(thread / warp_size_);
    const std::uint64_t bit = std::uint64_t{1} << thread % warp_size_;

    std::optional<RaceOther> other;
    if (access != RaceAccess::read || word.written) {
        std::erase_if(word.cells, [&](const Cell& cell) {
            const bool conflicts = (cell.mask & mask) != 0 && conflict(cell.access, access);
            bool before = true, races = false;
            for (std::uint64_t lanes = cell.lanes; lanes != 0; lanes &= lanes - 1) {
                const unsigned who = cell.warp * warp_size_ + static_cast<unsigned>(std::countr_zero(lanes));
                if (clocks.comes_before(who, cell.time, thread)) continue;
                before = false;
                races = conflicts;
                if (races && !other) other = RaceOther{who, cell.instruction, cell.mask & mask};
                if (races) break;
            }
            // Later accesses are compared with this write, and a race is reported once. An atomic operation conflicts with
            // less than a load or a store before it, which stay.
            const bool represents = access == RaceAccess::write || cell.access == RaceAccess::atomic;
            return access != RaceAccess::read && (cell.mask & ~mask) == 0 &&
                   ((before && represents) || races);
        });
    }
    word.written = word.written || access != RaceAccess::read;

    // The thread's earlier accesses are dropped: whatever is ordered after this access is ordered after
    // those.
    Cell* same = nullptr;
    bool others_empty = false;
    for (Cell& cell : word.cells) {
        if (cell.warp != warp || cell.access != access || (cell.mask & ~mask) != 0) continue;
        if (cell.time == time && cell.mask == mask && cell.instruction == instruction) {
            same = &cell;
        } else {
            cell.lanes &= ~bit;
            others_empty |= cell.lanes == 0;
        }
    }
    if (same != nullptr) {
        same->lanes |= bit;
    } else {
        word.cells.push_back({bit, time, instruction, warp, static_cast<std::uint8_t>(mask), access});
    }
    if (others_empty) std::erase_if(word.cells, [](const Cell& cell) { return cell.lanes == 0; });
    return other;
}

}  // namespace kiln
