// SPDX-License-Identifier: Apache-2.0
//
// The part of AccessTotals for shared memory: asynchronous copies, the most expensive request, and the
// results.
#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>

#include "analysis/access_totals.h"

namespace kiln {

void AccessTotals::keep_worst(Sums& sums, int units, std::uint32_t pattern, std::uint64_t base) {
    if (units <= sums.worst_units) return;
    sums.worst_units = units;
    const std::int32_t* const offsets = patterns_.offsets(pattern);
    sums.worst.assign(warp_size_, std::nullopt);
    for (std::uint64_t lanes = patterns_[pattern].lanes; lanes != 0; lanes &= lanes - 1) {
        const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
        sums.worst[lane] = static_cast<std::uint32_t>(static_cast<std::int64_t>(base) + offsets[lane]);
    }
}

// NVIDIA's counters (source-level, on an H200) count these wavefronts for a copy from global to shared memory:
// one per line of 128 bytes that is read, and the conflicts of the store. Copies of 16 bytes, which bypass the
// L1 cache, also need one per line of 128 bytes that is written from each line read; where the two halves of a
// sector go to different 32 bytes of shared memory, each half counts. Each sector counts once for each 32 bytes
// that it goes to. A copy that only writes zeros is a store.
void AccessTotals::count_copy(const Seen& source, const Seen& target) {
    constexpr std::int64_t kLine = 128, kHalf = 16, kSector = static_cast<std::int64_t>(kSectorBytes);
    const bool by_sectors = target.width == 16;
    std::set<std::int64_t> lines;
    std::set<std::tuple<std::int64_t, std::int64_t, bool>> moves;
    std::set<std::pair<std::int64_t, std::int64_t>> sectors;  // sector read, and its destination
    const std::int32_t* const from = patterns_.offsets(source.pattern);
    const std::int32_t* const to = patterns_.offsets(target.pattern);
    const std::uint64_t both = patterns_[source.pattern].lanes & patterns_[target.pattern].lanes;
    const auto each = [&](auto use) {
        for (std::uint64_t lanes = both; lanes != 0; lanes &= lanes - 1) {
            const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
            use(static_cast<std::int64_t>(source.base) + from[lane],
                static_cast<std::int64_t>(target.base) + to[lane]);
        }
    };
    each([&](std::int64_t read, std::int64_t written) {
        lines.insert(read / kLine);
        sectors.emplace(read / kSector, by_sectors ? written / kSector : 0);
    });
    each([&](std::int64_t read, std::int64_t written) {
        const auto first = sectors.lower_bound({read / kSector, std::numeric_limits<std::int64_t>::min()});
        const bool apart = std::next(first) != sectors.end() && std::next(first)->first == read / kSector;
        moves.emplace(read / kLine, written / kLine, apart && read / kHalf % 2 != 0);
    });
    const Cost store = cost(target.sums, target.pattern, target.base, target.width);
    const auto lane_bytes =
        static_cast<std::uint64_t>(patterns_[target.pattern].lane_count) * target.code.bytes;
    const auto read_lines = static_cast<int>(lines.size());
    int units = store.units - store.ideal + read_lines;
    int ideal = static_cast<int>((lane_bytes + kLine - 1) / kLine);
    if (by_sectors) {
        units += static_cast<int>(moves.size());
        ideal += store.ideal;
    }
    units = std::max(units, store.units);
    Sums& sums = target.sums;
    ++sums.requests;
    sums.units += static_cast<std::uint64_t>(units);
    sums.ideal += static_cast<std::uint64_t>(std::min(units, ideal));
    sums.lane_bytes += lane_bytes;
    sums.degree = std::max(sums.degree, store.degree);
    keep_worst(sums, units, target.pattern, target.base);

    const Cost load = cost(source.sums, source.pattern, source.base, source.width);
    Sums& read = source.sums;
    ++read.requests;
    read.units += sectors.size();
    read.ideal += static_cast<std::uint64_t>(load.ideal);
    read.lane_bytes += static_cast<std::uint64_t>(patterns_[source.pattern].lane_count) * source.code.bytes;
}

std::vector<SharedSite> AccessTotals::shared() const {
    std::vector<SharedSite> result;
    for (const auto& [site, number] : numbers_) {
        const Sums& sums = sites_[number];
        if (!site.is_shared() || sums.requests == 0) continue;
        SharedSite told;
        told.place = site.place;
        told.kind = site.kind;
        told.variable = site.variable;
        told.misaligned = sums.misaligned;
        told.worst = sums.worst;
        told.as_written = {sums.width, sums.requests, sums.units, sums.ideal, sums.degree};
        told.widths.push_back(told.as_written);
        const int last = widest(sums);
        for (int log = width_log(sums.width) + 1; log <= last; ++log) {
            const Merging& merging = sums.merged[static_cast<std::size_t>(log)];
            WidthCost cost;
            cost.bytes = 1 << log;
            cost.requests = sums.requests + static_cast<std::uint64_t>(merging.requests);
            cost.wavefronts = sums.units + static_cast<std::uint64_t>(merging.units);
            cost.ideal = sums.ideal + static_cast<std::uint64_t>(merging.ideal);
            // Accesses that are not merged may be the most expensive.
            cost.degree =
                merging.absorbed < sums.requests ? std::max(merging.degree, sums.degree) : merging.degree;
            told.widths.push_back(cost);
        }
        told.merged = told.widths.back();
        for (int log = width_log(sums.width) + 1; log < kWidths; ++log) {
            const Merging& spanning = sums.spanned[static_cast<std::size_t>(log)];
            if (spanning.absorbed == sums.requests)
                told.spanned.push_back({1 << log, static_cast<std::uint64_t>(spanning.requests),
                                        static_cast<std::uint64_t>(spanning.units),
                                        static_cast<std::uint64_t>(spanning.ideal), spanning.degree});
        }
        result.push_back(std::move(told));
    }
    return result;
}

}  // namespace kiln
