// SPDX-License-Identifier: Apache-2.0
//
// Accesses of a warp that a GPU's compiler may merge into wider ones: the same lanes, consecutive addresses in
// every lane, aligned as a whole, and no access in between that prevents it. A window holds candidates until
// such an access; closing it computes what they merge into.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

/// Widths of accesses: 1, 2, 4, 8, 16 bytes, by their logarithm.
constexpr int kWidths = 5;
constexpr int width_log(int bytes) { return std::countr_zero(static_cast<unsigned>(bytes)); }

/// The widest access that accesses of `bytes` may merge into: a vector has up to four elements, and up to 16
/// bytes. Seen in the code of NVRTC 13.0: loads of half become LDS.64, those of float LDS.128.
constexpr int widest_merge(int bytes) { return bytes <= 4 ? 4 * bytes : 16; }

/// An access that may become part of a wider one.
struct MergeCandidate {
    std::uint32_t site = 0;
    std::uint32_t pattern = 0;
    std::uint64_t base = 0;  ///< a multiple of its width
    bool operator<(const MergeCandidate& other) const {
        if (site != other.site) return site < other.site;
        if (pattern != other.pattern) return pattern < other.pattern;
        return base < other.base;
    }
};

/// `times` accesses of `width` bytes per lane.
struct MergedAccess {
    std::uint64_t base = 0;
    int width = 0;
    std::uint64_t times = 0;
};

/// Merges candidates of one site and pattern, in the order of their bases, into accesses of up to `target`
/// bytes: as wide as possible first, the rest narrower. `width`: that of the candidates. Appends to `result`.
void merge(std::span<const MergeCandidate> candidates, int width, int target,
           std::vector<MergedAccess>& result);

}  // namespace kiln
