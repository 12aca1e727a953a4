// SPDX-License-Identifier: Apache-2.0
#include "analysis/access_totals.h"

#include <algorithm>
#include <bit>

namespace kiln {
namespace {

constexpr std::size_t kMostPatterns = 1 << 16;

bool is_load(AccessKind kind) { return kind == AccessKind::load || kind == AccessKind::matrix_load; }

}  // namespace

double Recording::scale() const {
    return blocks_recorded == 0 ? 0 : static_cast<double>(blocks) / static_cast<double>(blocks_recorded);
}

int part_bytes(int bytes) {
    constexpr int kWidest = 16;
    return std::min(kWidest, bytes & -bytes);
}

AccessTotals::AccessTotals(const BankModel& banks, unsigned warp_size)
    : banks_(banks), warp_size_(warp_size), patterns_(banks, warp_size) {}

std::uint32_t AccessTotals::site(const AccessSite& site) {
    const auto [slot, is_new] = numbers_.try_emplace(site, static_cast<std::uint32_t>(sites_.size()));
    if (is_new) {
        Sums& sums = sites_.emplace_back();
        sums.site = site;
        sums.width = part_bytes(site.bytes);
    }
    return slot->second;
}

AccessTotals::Cost AccessTotals::cost(const Sums& sums, std::uint32_t pattern, std::uint64_t base,
                                      int width) {
    if (!sums.site.is_shared()) {
        const SectorCost found = patterns_.sectors(pattern, base, width);
        return {found.sectors, found.ideal, 0};
    }
    // An atomic operation of a warp costs as much as a store of the same lanes: lanes with the same word are
    // served together.
    const SharedCost found = patterns_.shared(
        pattern, base, width, is_load(sums.site.kind) ? SharedAccess::load : SharedAccess::store);
    return {found.wavefronts, found.ideal, found.degree};
}

void AccessTotals::add_each(const RequestList& list, std::span<const AccessCode> codes,
                            std::span<const std::uint32_t> sites, const Regions& regions,
                            const Misaligned& misaligned) {
    if (patterns_.size() > kMostPatterns) patterns_.forget();
    const auto see = [&](std::size_t i) {
        const Request& request = list.requests[i];
        const AccessCode& code = codes[request.instruction];
        const std::uint32_t site = sites[request.instruction];
        const auto found = patterns_.find(list.relative.data() + i * warp_size_, request.lanes);
        const std::uint64_t address = request.anchor + static_cast<std::uint64_t>(std::int64_t{found.first});
        const std::uint64_t base = address - regions.origin(request.region_first, code.variable);
        Sums& sums = sites_[site];
        int width = sums.width;
        if (code.unaligned_type) {
            // As many parts as its addresses need. The type's alignment is not known; usually it is that of a
            // float or an int.
            constexpr int kElement = 4;
            const std::uint64_t bits = base | patterns_[found.pattern].alignment;
            width = std::min({width, kElement, static_cast<int>(bits & (~bits + 1))});
        }
        return Seen{request, code, sums, site, found.pattern, address, base, width};
    };
    for (std::size_t i = 0; i < list.requests.size(); ++i) {
        if (!has_cost(codes[list.requests[i].instruction].kind)) continue;
        const Seen seen = see(i);
        const bool shared = seen.sums.site.is_shared();
        if (!shared && banks_.equal_pairs_merge && i + 1 < list.requests.size() &&
            is_copy_of(seen, codes[list.requests[i + 1].instruction],
                       sites_[sites[list.requests[i + 1].instruction]])) {
            close(loads_[1]);
            close(stores_[1]);
            const Seen target = see(++i);
            count_copy(seen, target);
            for (const Seen& one : {seen, target}) count_misaligned(one, list.warp, misaligned);
            continue;
        }
        count(seen, list.warp, misaligned);
        // Accesses are not merged across one that may touch the same bytes.
        const std::size_t memory = shared ? 1 : 0;
        if (is_load(seen.code.kind)) {
            close(stores_[memory]);
        } else if (seen.code.kind == AccessKind::store) {
            close(loads_[memory]);
        } else {
            close(loads_[memory]);
            close(stores_[memory]);
        }
        consider_merging(seen);
    }
    for (const std::size_t memory : {0, 1}) {
        close(loads_[memory]);
        close(stores_[memory]);
    }
}

// The load and the store of an asynchronous copy are reported one after the other.
bool AccessTotals::is_copy_of(const Seen& source, const AccessCode& next, const Sums& sums) {
    return source.code.kind == AccessKind::load && next.kind == AccessKind::async_copy &&
           next.variable != kNoVariable && source.sums.site.place.file == sums.site.place.file &&
           source.sums.site.place.line == sums.site.place.line;
}

void AccessTotals::count(const Seen& seen, unsigned warp, const Misaligned& misaligned) {
    Sums& sums = seen.sums;
    const AccessPattern& pattern = patterns_[seen.pattern];
    sums.lane_bytes += static_cast<std::uint64_t>(pattern.lane_count) * seen.code.bytes;
    const int parts = seen.code.bytes / seen.width;
    for (int part = 0; part < parts; ++part) {
        const std::uint64_t base = seen.base + static_cast<std::uint64_t>(part * seen.width);
        const Cost found = cost(sums, seen.pattern, base, seen.width);
        ++sums.requests;
        sums.units += static_cast<std::uint64_t>(found.units);
        sums.ideal += static_cast<std::uint64_t>(found.ideal);
        sums.degree = std::max(sums.degree, found.degree);
        if (sums.site.is_shared()) keep_worst(sums, found.units, seen.pattern, base);
    }
    count_misaligned(seen, warp, misaligned);
}

void AccessTotals::count_misaligned(const Seen& seen, unsigned warp, const Misaligned& misaligned) {
    const AccessPattern& pattern = patterns_[seen.pattern];
    const auto width = static_cast<std::uint64_t>(seen.width);
    if (!seen.code.unaligned_type && (seen.base % width != 0 || pattern.alignment < width)) {
        ++seen.sums.misaligned;
        const std::int32_t* const offsets = patterns_.offsets(seen.pattern);
        for (std::uint64_t lanes = pattern.lanes; lanes != 0; lanes &= lanes - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
            const auto offset = static_cast<std::uint64_t>(std::int64_t{offsets[lane]});
            if ((seen.base + offset) % width == 0) continue;
            misaligned(seen.request.instruction, warp * warp_size_ + lane, seen.address + offset);
            break;
        }
    }
}

void AccessTotals::consider_merging(const Seen& seen) {
    const bool mergeable = (seen.code.kind == AccessKind::load || seen.code.kind == AccessKind::store) &&
                           !seen.code.unaligned_type && seen.code.bytes == seen.width &&
                           widest_merge(seen.width) > seen.width;
    // If lanes are odd multiples of the width apart, no wider access is aligned in all of them.
    if (!mergeable || patterns_[seen.pattern].alignment < 2u * static_cast<unsigned>(seen.width) ||
        seen.base % static_cast<unsigned>(seen.width) != 0)
        return;
    auto& windows = is_load(seen.code.kind) ? loads_ : stores_;
    windows[seen.sums.site.is_shared() ? 1 : 0].push_back({seen.site, seen.pattern, seen.base});
}

void AccessTotals::close(std::vector<MergeCandidate>& window) {
    if (window.size() < 2) {
        window.clear();
        return;
    }
    std::sort(window.begin(), window.end());
    for (std::size_t first = 0, end; first < window.size(); first = end) {
        end = first + 1;
        while (end < window.size() && window[end].site == window[first].site &&
               window[end].pattern == window[first].pattern)
            ++end;
        if (end - first < 2) continue;
        Sums& sums = sites_[window[first].site];
        const std::uint32_t pattern = window[first].pattern;
        const int most = std::min(widest_merge(sums.width), static_cast<int>(patterns_[pattern].alignment));
        int target = sums.width;
        for (int width = 2 * sums.width; width <= widest_merge(sums.width); width *= 2) {
            if (width <= most) {
                target = width;
                merged_.clear();
                merge({window.data() + first, end - first}, sums.width, target, merged_);
                span(sums, {window.data() + first, end - first}, width);
            }
            // A width beyond what these lanes allow counts as the widest possible one.
            Merging& merging = sums.merged[static_cast<std::size_t>(width_log(width))];
            for (const MergedAccess& access : merged_) {
                if (access.width == sums.width) continue;
                const auto times = static_cast<std::int64_t>(access.times);
                const Cost wide = cost(sums, pattern, access.base, access.width);
                merging.requests += times;
                merging.units += times * wide.units;
                merging.ideal += times * wide.ideal;
                merging.degree = std::max(merging.degree, wide.degree);
                for (int at = 0; at < access.width; at += sums.width) {
                    const Cost narrow =
                        cost(sums, pattern, access.base + static_cast<unsigned>(at), sums.width);
                    merging.requests -= times;
                    merging.units -= times * narrow.units;
                    merging.ideal -= times * narrow.ideal;
                }
                if (access.width == width)
                    merging.absorbed += access.times * static_cast<std::uint64_t>(width / sums.width);
            }
        }
    }
    window.clear();
}

// Candidates of one site and pattern, in the order of their bases.
void AccessTotals::span(Sums& sums, std::span<const MergeCandidate> candidates, int width) {
    const auto bytes = static_cast<std::uint64_t>(width);
    Merging& spanning = sums.spanned[static_cast<std::size_t>(width_log(width))];
    for (std::size_t i = 0; i < candidates.size();) {
        const std::size_t first = i;
        const std::uint64_t base = candidates[i].base / bytes * bytes;
        std::int64_t parts = 0, times = 0;
        while (i < candidates.size() && candidates[i].base / bytes * bytes == base) {
            std::size_t next = i + 1;
            while (next < candidates.size() && candidates[next].base == candidates[i].base) ++next;
            times = std::max(times, static_cast<std::int64_t>(next - i));
            ++parts;
            i = next;
        }
        if (parts < 2) continue;
        const Cost found = cost(sums, candidates[first].pattern, base, width);
        spanning.absorbed += i - first;
        spanning.requests += times;
        spanning.units += times * found.units;
        spanning.ideal += times * found.ideal;
        spanning.degree = std::max(spanning.degree, found.degree);
    }
}

int AccessTotals::widest(const Sums& sums) {
    int widest = width_log(sums.width);
    for (int log = widest + 1; log < kWidths; ++log) {
        if (sums.merged[static_cast<std::size_t>(log)].absorbed * 2 >= sums.requests && sums.requests != 0)
            widest = log;
    }
    return widest;
}

}  // namespace kiln
