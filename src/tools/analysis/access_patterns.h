// SPDX-License-Identifier: Apache-2.0
//
// The cost of a warp's access depends on its lanes' addresses relative to each other, and on the first lane's
// offset within 128 bytes. A kernel has few such patterns, so each is evaluated once.
#pragma once

#include <kiln/tools/banks.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kiln {

/// The largest size of a warp or wave.
constexpr unsigned kMostLanes = 64;

/// Of shared memory.
struct SharedCost {
    int wavefronts = 0;
    int ideal = 0;
    int degree = 0;
};

/// Of global memory.
struct SectorCost {
    int sectors = 0;
    int ideal = 0;
};

/// The addresses of the lanes of one access, relative to that of its first lane.
struct AccessPattern {
    std::uint64_t lanes = 0;  ///< active lanes; never 0
    int lane_count = 0;
    /// The largest power of two, up to 128, that divides all of them.
    std::uint32_t alignment = 0;
};

/// A warp's access to global memory requests whole sectors.
constexpr std::uint64_t kSectorBytes = 32;

/// Not thread-safe.
class AccessPatterns {
  public:
    AccessPatterns(const BankModel& banks, unsigned warp_size);

    struct Found {
        std::uint32_t pattern = 0;
        std::int32_t first = 0;  ///< the first lane's of the relative addresses
    };
    /// relative: warp_size numbers; those of inactive lanes are ignored.
    Found find(const std::int32_t* relative, std::uint64_t lanes);
    const AccessPattern& operator[](std::uint32_t pattern) const { return patterns_[pattern]; }
    /// warp_size numbers, 0 for inactive lanes.
    const std::int32_t* offsets(std::uint32_t pattern) const {
        return offsets_.data() + std::size_t{pattern} * warp_size_;
    }

    /// base: the first lane's address. width: 1, 2, 4, 8 or 16.
    SharedCost shared(std::uint32_t pattern, std::uint64_t base, int width, SharedAccess access);
    SectorCost sectors(std::uint32_t pattern, std::uint64_t base, int width);

    /// The number of known patterns. forget() invalidates all earlier results of find().
    std::size_t size() const { return patterns_.size(); }
    void forget();

  private:
    struct Known {
        std::uint64_t key = 0;  // 0: free
        std::uint16_t first = 0, second = 0, third = 0;
    };

    Known& known(std::uint32_t pattern, std::uint64_t base, int width, unsigned operation, bool& is_new);
    void grow();

    const BankModel banks_;
    const unsigned warp_size_;
    const std::uint64_t span_;  // costs repeat after so many bytes
    std::vector<AccessPattern> patterns_;
    std::vector<std::int32_t> offsets_;
    std::vector<std::uint32_t> table_;  // of patterns, by hash; 0: free, else 1 + pattern
    std::vector<std::uint64_t> hashes_;
    std::uint32_t last_ = 0;  // found
    std::vector<Known> costs_;
    std::size_t costs_used_ = 0;
    std::vector<std::optional<std::uint32_t>> addresses_;
};

}  // namespace kiln
