// SPDX-License-Identifier: Apache-2.0
//
// The part of AccessTotals that remembers. A loop over tiles makes the same accesses to shared memory in each
// iteration, so the last lists of a warp are kept, with what they added to the totals.
#include <algorithm>
#include <cstring>

#include "analysis/access_totals.h"

namespace kiln {
namespace {

constexpr std::size_t kFewest = 8;  // shorter lists cost less to count than to compare

}  // namespace

void AccessTotals::begin_launch() { memory_.clear(); }

void AccessTotals::begin_block() {
    for (Memory& memory : memory_) {
        for (Remembered& old : memory.lists) old.sound = false;
    }
}

bool AccessTotals::equal(const Remembered& old, const RequestList& list) {
    const auto same = [](const Request& a, const Request& b) {
        return a.instruction == b.instruction && a.lanes == b.lanes && a.anchor == b.anchor;
    };
    return std::ranges::equal(old.requests, list.requests, same) &&
           std::memcmp(old.relative.data(), list.relative.data(),
                       old.relative.size() * sizeof(std::int32_t)) == 0;
}

AccessTotals::Remembered* AccessTotals::find(const RequestList& list) {
    if (list.warp >= memory_.size() || list.requests.size() < kFewest) return nullptr;
    for (Remembered& old : memory_[list.warp].lists) {
        if (old.requests.size() == list.requests.size() && equal(old, list)) return &old;
    }
    return nullptr;
}

void AccessTotals::recall(std::span<RequestList* const> lists) {
    for (RequestList* const list : lists) {
        Remembered* const old = find(*list);
        list->sound_before = old != nullptr ? &old->sound : nullptr;
    }
}

void AccessTotals::add(const RequestList& list, std::span<const AccessCode> codes,
                       std::span<const std::uint32_t> sites, const Regions& regions,
                       const Misaligned& misaligned) {
    if (const Remembered* const old = find(list)) {
        for (const auto& [site, added] : old->added) sites_[site].add(added);
        return;
    }
    // Lists with addresses of global memory rarely repeat.
    const bool lasting =
        list.requests.size() >= kFewest && std::ranges::all_of(list.requests, [&](const Request& request) {
            return codes[request.instruction].variable != kNoVariable;
        });
    std::vector<std::pair<std::uint32_t, Sums>> before;
    if (lasting) {
        for (const Request& request : list.requests) {
            const std::uint32_t site = sites[request.instruction];
            if (std::ranges::find(before, site, &std::pair<std::uint32_t, Sums>::first) == before.end())
                before.emplace_back(site, sites_[site]);
        }
    }
    std::uint64_t wrong = 0;
    add_each(list, codes, sites, regions,
             [&](std::uint32_t instruction, unsigned thread, std::uint64_t address) {
                 ++wrong;
                 misaligned(instruction, thread, address);
             });
    // Misaligned accesses are reported each time.
    if (lasting && wrong == 0) remember(list, std::move(before));
}

void AccessTotals::remember(const RequestList& list, std::vector<std::pair<std::uint32_t, Sums>> before) {
    if (list.warp >= memory_.size()) memory_.resize(list.warp + 1);
    Memory& memory = memory_[list.warp];
    Remembered& place = memory.lists[memory.next];
    memory.next = (memory.next + 1) % kRemembered;
    place.requests = list.requests;
    place.relative = list.relative;
    place.sound = false;
    for (auto& [site, sums] : before) sums = sites_[site].since(sums);
    place.added = std::move(before);
}

void AccessTotals::Merging::add(const Merging& more) {
    requests += more.requests;
    units += more.units;
    ideal += more.ideal;
    absorbed += more.absorbed;
}

AccessTotals::Merging AccessTotals::Merging::since(const Merging& before) const {
    return {requests - before.requests, units - before.units, ideal - before.ideal,
            absorbed - before.absorbed};
}

void AccessTotals::Sums::add(const Sums& more) {
    requests += more.requests;
    units += more.units;
    ideal += more.ideal;
    lane_bytes += more.lane_bytes;
    for (std::size_t i = 0; i < merged.size(); ++i) {
        merged[i].add(more.merged[i]);
        spanned[i].add(more.spanned[i]);
    }
}

// Degrees and the most expensive request do not change when a list repeats.
AccessTotals::Sums AccessTotals::Sums::since(const Sums& before) const {
    Sums added;
    added.requests = requests - before.requests;
    added.units = units - before.units;
    added.ideal = ideal - before.ideal;
    added.lane_bytes = lane_bytes - before.lane_bytes;
    for (std::size_t i = 0; i < merged.size(); ++i) {
        added.merged[i] = merged[i].since(before.merged[i]);
        added.spanned[i] = spanned[i].since(before.spanned[i]);
    }
    return added;
}

}  // namespace kiln
