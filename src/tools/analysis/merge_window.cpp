// SPDX-License-Identifier: Apache-2.0
#include "analysis/merge_window.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr std::size_t kMostParts = 16;

// How often each part of a block of `target` bytes is accessed.
using Parts = std::array<std::uint64_t, kMostParts>;

void merge_block(Parts& parts, std::size_t first, std::size_t count, std::uint64_t base, int width,
                 std::vector<MergedAccess>& result) {
    const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(first);
    const std::uint64_t together = *std::min_element(begin, begin + static_cast<std::ptrdiff_t>(count));
    const auto bytes = static_cast<std::uint64_t>(width);
    if (together != 0) {
        result.push_back({base + first * bytes, static_cast<int>(count) * width, together});
        for (std::size_t i = first; i < first + count; ++i) parts[i] -= together;
    }
    if (count == 1) return;
    merge_block(parts, first, count / 2, base, width, result);
    merge_block(parts, first + count / 2, count / 2, base, width, result);
}

}  // namespace

void merge(std::span<const MergeCandidate> candidates, int width, int target,
           std::vector<MergedAccess>& result) {
    const auto bytes = static_cast<std::uint64_t>(width), block = static_cast<std::uint64_t>(target);
    for (std::size_t i = 0; i < candidates.size();) {
        const std::uint64_t base = candidates[i].base / block * block;
        Parts parts{};
        for (; i < candidates.size() && candidates[i].base / block * block == base; ++i)
            ++parts[(candidates[i].base - base) / bytes];
        merge_block(parts, 0, static_cast<std::size_t>(block / bytes), base, width, result);
    }
}

}  // namespace kiln
