// SPDX-License-Identifier: Apache-2.0
//
// The part of AccessTotals that counts accesses to global memory.
#include <utility>

#include "analysis/access_totals.h"

namespace kiln {

std::vector<GlobalSite> AccessTotals::global() const {
    std::vector<GlobalSite> result;
    for (const auto& [site, number] : numbers_) {
        const Sums& sums = sites_[number];
        if (site.is_shared() || sums.requests == 0) continue;
        GlobalSite told;
        told.place = site.place;
        told.kind = site.kind;
        told.bytes = site.bytes;
        told.requests = sums.requests;
        told.sectors = sums.units;
        told.ideal = sums.ideal;
        told.lane_bytes = sums.lane_bytes;
        told.misaligned = sums.misaligned;
        const Merging& merging = sums.merged[static_cast<std::size_t>(widest(sums))];
        told.merged_requests = sums.requests + static_cast<std::uint64_t>(merging.requests);
        told.merged_sectors = sums.units + static_cast<std::uint64_t>(merging.units);
        told.merged_ideal = sums.ideal + static_cast<std::uint64_t>(merging.ideal);
        for (int log = width_log(sums.width) + 1; log < kWidths; ++log) {
            const Merging& spanning = sums.spanned[static_cast<std::size_t>(log)];
            if (spanning.absorbed == sums.requests)
                told.spanned.push_back({1 << log, static_cast<std::uint64_t>(spanning.units),
                                        static_cast<std::uint64_t>(spanning.ideal)});
        }
        result.push_back(std::move(told));
    }
    return result;
}

}  // namespace kiln
