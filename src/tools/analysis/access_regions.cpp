// SPDX-License-Identifier: Apache-2.0
//
// Sorts the variables and tensors, and assigns the space between two of them to the nearer one.
#include "analysis/access_regions.h"

#include <algorithm>
#include <limits>

namespace kiln {
namespace {

constexpr std::uint64_t kTop = std::numeric_limits<std::uint64_t>::max();
// An access that is farther than this from a tensor is not reported as an access near it.
constexpr std::uint64_t kFarAway = std::uint64_t{1} << 27;

// A variable or a tensor. The rest of the address space is divided among them.
struct MemoryObject {
    std::uint64_t first, last;
    RegionKind kind;
    int variable;
    bool read_only = false;
};

// Of the ranges that do not overlap, in their order: without what any of `cuts`, ascending, covers.
std::vector<MemoryRange> without(const std::vector<MemoryRange>& ranges,
                                 const std::vector<MemoryRange>& cuts) {
    std::vector<MemoryRange> rest;
    for (MemoryRange range : ranges) {
        for (const MemoryRange& cut : cuts) {
            const std::uint64_t before = cut.address - range.address;
            if (before >= range.size_bytes) continue;  // or it begins before
            rest.push_back({range.address, before, range.name});
            const std::uint64_t gone = std::min(before + cut.size_bytes, range.size_bytes);
            range.address += gone;
            range.size_bytes -= gone;
        }
        rest.push_back(range);
    }
    return rest;
}

}  // namespace

Regions::Regions(const ObservedLaunch& launch)
    : tensors_(launch.global), buffers_known_(!launch.global.empty()) {
    for (const SharedVariable& variable : launch.shared)
        variables_.push_back(
            {variable.name, variable.address, variable.size_bytes, false, variable.offset, 0});
    if (launch.dynamic_shared_address != 0 && launch.dynamic_shared_bytes != 0)
        variables_.push_back({"dynamic shared memory", launch.dynamic_shared_address,
                              launch.dynamic_shared_bytes, true, 0, 0});

    std::vector<MemoryObject> solids;
    for (std::size_t i = 0; i < variables_.size(); ++i) {
        SharedRange& range = variables_[i];
        constexpr std::uint64_t kRow = 16;
        range.offset = shared_bytes_;
        shared_bytes_ += (range.size_bytes + kRow - 1) / kRow * kRow;
        if (range.size_bytes != 0)
            solids.push_back({range.address, range.address + range.size_bytes - 1, RegionKind::shared,
                              static_cast<int>(i)});
    }
    const auto add_ranges = [&](const std::vector<MemoryRange>& ranges, RegionKind kind) {
        for (const MemoryRange& range : ranges) {
            if (range.size_bytes != 0)
                solids.push_back({range.address, range.address + range.size_bytes - 1, kind, kNoVariable,
                                  range.read_only});
        }
    };
    add_ranges(launch.global, RegionKind::global);
    std::vector<MemoryRange> own;
    for (const MemoryRange& range : launch.own) (range.read_only ? constants_ : own).push_back(range);
    std::ranges::sort(constants_, {}, &MemoryRange::address);
    add_ranges(constants_, RegionKind::own);
    add_ranges(without(own, constants_), RegionKind::own);
    std::ranges::sort(solids, {}, &MemoryObject::first);

    const RegionKind rest = launch.global.empty() ? RegionKind::global : RegionKind::outside;
    const std::uint64_t gap = launch.shared_gap_bytes;
    const auto add = [&](std::uint64_t first, std::uint64_t last, RegionKind kind, int variable,
                         bool read_only = false) {
        regions_.push_back({first, last, kind, variable, read_only});
    };
    // Between two of them: the gap after the first, the rest, the gap before the second.
    const auto add_between = [&](std::uint64_t first, std::uint64_t last, const MemoryObject* before,
                                 const MemoryObject* behind) {
        const std::uint64_t room = last - first + 1;  // 0: all of the address space
        std::uint64_t left = before != nullptr && before->kind == RegionKind::shared ? gap : 0;
        std::uint64_t right = behind != nullptr && behind->kind == RegionKind::shared ? gap : 0;
        if (room != 0) {
            // Where the gaps meet, each byte belongs to the nearer variable.
            if (left != 0 && right != 0) {
                left = std::min(left, room / 2);
                right = std::min(right, room - left);
            }
            left = std::min(left, room);
            right = std::min(right, room);
        }
        if (left != 0) add(first, first + left - 1, RegionKind::gap, before->variable);
        if (room == 0 || left + right < room) add(first + left, last - right, rest, kNoVariable);
        if (right != 0) add(last - right + 1, last, RegionKind::gap, behind->variable);
    };

    std::uint64_t next = 0;
    bool full = false;  // up to the top
    const MemoryObject* previous = nullptr;
    for (const MemoryObject& solid : solids) {
        if (full || solid.last < next) continue;  // within the previous one
        const std::uint64_t first = std::max(solid.first, next);
        if (first > next) add_between(next, first - 1, previous, &solid);
        add(first, solid.last, solid.kind, solid.variable, solid.read_only);
        full = solid.last == kTop;
        next = solid.last + 1;
        previous = &solid;
    }
    if (!full) add_between(next, kTop, previous, nullptr);
}

const MemoryRange* Regions::nearest(std::uint64_t address, std::uint64_t bytes) const {
    const MemoryRange* found = nullptr;
    std::uint64_t least = kFarAway;
    for (const auto* const ranges : {&tensors_, &constants_})
        for (const MemoryRange& range : *ranges) {
            const std::uint64_t end = range.address + range.size_bytes;
            const std::uint64_t distance = address >= end ? address - end
                                           : address + bytes > range.address
                                               ? 0
                                               : range.address - address - bytes;
            if (distance >= least) continue;
            least = distance;
            found = &range;
        }
    return found;
}

bool Regions::has_read_only(const Region& region, std::uint64_t address, std::uint64_t bytes) const {
    if (region.read_only || region.kind != RegionKind::own) return region.read_only;
    const Region* last = &region;
    while (last->last - address < bytes - 1 && last != &regions_.back())
        if ((++last)->read_only) return true;
    return false;
}

const MemoryRange* Regions::constant(std::uint64_t address, std::uint64_t bytes) const {
    const auto found = std::ranges::find_if(constants_, [&](const MemoryRange& range) {
        return address - range.address < range.size_bytes || range.address - address < bytes;
    });
    return found == constants_.end() ? nullptr : &*found;
}

const Region& Regions::find(std::uint64_t address) const {
    const auto behind = std::ranges::upper_bound(regions_, address, {}, &Region::first);
    return *(behind - 1);
}

}  // namespace kiln
