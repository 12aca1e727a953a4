// SPDX-License-Identifier: Apache-2.0
//
// Races in shared memory, and reads of what nobody wrote, in one block. While all that orders threads are
// meetings of the whole block, two accesses between two of these race if they conflict, whatever their order:
// the writes of an interval are noted per byte, and the reads compared with them. From the first other ordering
// on (a warp's meeting, a release, an acquire) each access of that interval goes through race_cells.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "analysis/access_regions.h"
#include "analysis/access_requests.h"
#include "analysis/race_cells.h"
#include "analysis/race_clocks.h"

namespace kiln {

/// Something that is wrong.
struct RaceFinding {
    bool uninitialised = false;  ///< else a race
    unsigned thread = 0;
    std::uint32_t instruction = 0;
    RaceOther other;           ///< of a race
    std::uint64_t offset = 0;  ///< among all shared bytes
    unsigned bytes = 0;        ///< that both touch, or that nobody wrote
};

/// Not thread-safe.
class RaceDetector {
  public:
    RaceDetector(const Regions& regions, unsigned threads, unsigned warp_size,
                 std::function<void(const RaceFinding&)> report);

    void begin_block();

    /// Whether accesses must be told one by one, as they come.
    bool one_by_one() const { return one_by_one_; }
    /// From now until the block's next meeting. `pending`: what has been accessed since the last one.
    void begin_one_by_one(std::span<RequestList* const> pending, std::span<const AccessCode> codes);
    void access(unsigned thread, std::uint64_t address, std::uint32_t instruction, const AccessCode& code);
    RaceClocks& clocks() { return clocks_; }

    /// All threads of the block meet. `pending`: what has been accessed since they last did, unless it was told
    /// one by one.
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
    void initialise(std::uint64_t offset, unsigned bytes);
    void next_interval();

    const Regions& regions_;
    const unsigned threads_, warp_size_;
    const std::function<void(const RaceFinding&)> report_;

    std::uint32_t interval_ = 1;
    // Per byte: who wrote it last (interval, flags and thread; see the .cpp), and with what.
    std::vector<std::uint32_t> writers_, written_by_;
    std::unordered_map<std::uint64_t, RaceOther>
        second_;  // by byte, where several wrote by atomic operations
    // Per word: which bytes have been written in this block; and the interval of the last write, or kPartly
    // while there are bytes that nobody wrote.
    std::vector<std::uint8_t> written_;
    std::vector<std::uint32_t> last_write_;

    bool one_by_one_ = false;
    RaceClocks clocks_;
    std::unique_ptr<RaceCells> cells_;  // made when first needed
};

}  // namespace kiln
