// SPDX-License-Identifier: Apache-2.0
//
// Finds races in shared memory, and reads of shared memory that was never written, in one block. As long as
// threads synchronise only by barriers of the whole block, two conflicting accesses between two barriers race,
// whatever their order: the writes of an interval are recorded per byte, and reads are compared with them. From
// the first other synchronisation on (__syncwarp, a release, an acquire), each access of that interval is
// checked by race_cells.h; so is each of an interval in which asynchronous copies or loads of TMA are under way. Such a copy is a store twice,
// when it begins and when it arrives, and what any thread accesses in between conflicts with it, whatever barriers there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "analysis/access_regions.h"
#include "analysis/access_requests.h"
#include "analysis/boxes_under_way.h"
#include "analysis/race_cells.h"
#include "analysis/race_clocks.h"

namespace kiln {

/// A race or a read of unwritten memory.
struct RaceFinding {
    bool uninitialised = false;  ///< else a race
    unsigned thread = 0;
    std::uint32_t instruction = 0;
    RaceOther other;           ///< of a race
    std::uint64_t offset = 0;  ///< offset among all shared bytes
    unsigned bytes = 0;        ///< bytes that both access, or that were never written
};

/// Not thread-safe.
class RaceDetector {
  public:
    RaceDetector(const Regions& regions, unsigned threads, unsigned warp_size,
                 std::function<void(const RaceFinding&)> report);

    void begin_block();

    /// Whether each access must be reported as it happens.
    bool one_by_one() const { return one_by_one_; }
    /// From now until the block's next barrier. `pending`: the accesses since the last one.
    void begin_one_by_one(std::span<RequestList* const> pending, std::span<const AccessCode> codes);
    void access(unsigned thread, std::uint64_t address, std::uint32_t instruction, const AccessCode& code);
    RaceClocks& clocks() { return clocks_; }

    /// A barrier of the whole block. `pending`: the accesses since the last one, unless they were reported one
    /// by one.
    void meet_all(std::span<RequestList* const> pending, std::span<const AccessCode> codes);

  private:
    std::uint64_t offset_of(const RequestList& list, std::size_t request, unsigned lane,
                            const AccessCode& code) const;
    void note_write(unsigned thread, std::uint64_t offset, unsigned bytes, RaceAccess access,
                    std::uint32_t instruction);
    bool check_list(const RequestList& list, std::span<const AccessCode> codes);
    bool nothing_to_check(const RequestList& list, std::size_t request, const AccessCode& code) const;
    void check_read(unsigned thread, std::uint64_t offset, unsigned bytes, RaceAccess access,
                    std::uint32_t instruction);
    RaceOther writer_other_than(unsigned thread, std::uint64_t at) const;
    bool has_copies(std::span<RequestList* const> pending, std::span<const AccessCode> codes) const;
    std::optional<RaceOther> copy_under_way(std::size_t word, unsigned mask, unsigned thread, AccessKind kind,
                                            std::uint32_t instruction);
    void initialise(std::uint64_t offset, unsigned bytes);
    void next_interval();

    const Regions& regions_;
    const unsigned threads_, warp_size_;
    const std::function<void(const RaceFinding&)> report_;

    std::uint32_t interval_ = 1;
    // Per byte: the last write (interval, flags and thread; see the .cpp), and its instruction.
    std::vector<std::uint32_t> writers_, written_by_;
    std::unordered_map<std::uint64_t, RaceOther>
        second_;  // by byte, if several threads wrote by atomic operations
    // Per word: which bytes have been written in this block, and the interval of the last write, or kPartly
    // while some bytes are unwritten.
    std::vector<std::uint8_t> written_;
    std::vector<std::uint32_t> last_write_;

    // Asynchronous copies that have not arrived, by word: they move whole ones.
    std::unordered_map<std::size_t, RaceOther> under_way_;
    BoxesUnderWay boxes_;

    bool one_by_one_ = false;
    RaceClocks clocks_;
    std::unique_ptr<RaceCells> cells_;  // made when first needed
};

}  // namespace kiln
