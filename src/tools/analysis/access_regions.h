// SPDX-License-Identifier: Apache-2.0
//
// The address space of a recorded launch, as regions: shared variables, the gaps around them, global memory,
// the kernel's own data, and addresses that may not be accessed. Every address is in exactly one region.
#pragma once

#include <kiln/observe.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kiln {

enum class RegionKind : std::uint8_t {
    own,      ///< the kernel's: constants, variables of the module
    shared,   ///< a shared variable
    gap,      ///< around a shared variable; nothing may be accessed here
    global,   ///< a tensor; all of global memory where tensors are not known
    outside,  ///< none of these, where tensors are known: nothing may be accessed here
};

/// The index of a region that belongs to no shared variable.
constexpr int kNoVariable = -1;

struct Region {
    std::uint64_t first = 0, last = 0;  ///< addresses, both included
    RegionKind kind = RegionKind::own;
    int variable = kNoVariable;  ///< in Regions::variables; of a gap: the nearest
    bool read_only = false;      ///< of a tensor: an input; of the kernel's own: a constant

    bool holds(std::uint64_t address) const { return address - first <= last - first; }
    bool holds(std::uint64_t address, std::uint64_t bytes) const {
        return holds(address) && bytes - 1 <= last - address;
    }
};

/// Static or dynamic shared memory.
struct SharedRange {
    std::string name;  ///< "tile"; "dynamic shared memory"
    std::uint64_t address = 0, size_bytes = 0;
    bool dynamic = false;
    std::uint64_t storage_offset = 0;  ///< SharedVariable::offset
    std::uint64_t offset = 0;  ///< among all shared bytes, a multiple of 16; for tables with one row per byte
};

/// Immutable.
class Regions {
  public:
    Regions() = default;
    explicit Regions(const ObservedLaunch& launch);

    const Region& find(std::uint64_t address) const;
    const std::vector<SharedRange>& variables() const { return variables_; }
    /// The tensor or constant nearest to these bytes; nullptr when all are far away, or none is known.
    const MemoryRange* nearest(std::uint64_t address, std::uint64_t bytes) const;
    /// Whether any of the bytes is read-only. They begin in `region`; where it is a tensor, that of the first byte counts, since
    /// an access that goes beyond a tensor is out of bounds.
    bool has_read_only(const Region& region, std::uint64_t address, std::uint64_t bytes) const;
    /// The first constant that has any of the bytes; nullptr: none has.
    const MemoryRange* constant(std::uint64_t address, std::uint64_t bytes) const;
    /// An upper bound of the offsets of all variables.
    std::uint64_t shared_bytes() const { return shared_bytes_; }
    /// The address that alignment is relative to, for an access in the region that begins at `first`: the
    /// start of the variable, which a GPU aligns to 128 bytes or more, or the multiple of them at which or behind which the
    /// buffer begins; 0 when buffers are not known.
    std::uint64_t origin(std::uint64_t first, int variable) const {
        constexpr std::uint64_t kAligned = 128;
        return variable != kNoVariable ? first : buffers_known_ ? first / kAligned * kAligned : 0;
    }
    /// The offset of an address of that variable among all shared bytes.
    std::uint64_t offset(std::uint64_t address, int variable) const {
        const SharedRange& range = variables_[static_cast<std::size_t>(variable)];
        return address - range.address + range.offset;
    }

  private:
    std::vector<Region> regions_;  // ascending, without gaps
    std::vector<SharedRange> variables_;
    std::vector<MemoryRange> tensors_, constants_;
    std::uint64_t shared_bytes_ = 0;
    bool buffers_known_ = false;
};

}  // namespace kiln
