// SPDX-License-Identifier: Apache-2.0
//
// Two hash tables with open addressing: patterns by their numbers, and costs by pattern, place and width.
#include "analysis/access_patterns.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace kiln {
namespace {

constexpr std::size_t kFirstTable = 1024;  // a power of two, as all sizes here

constexpr std::uint64_t mix(std::uint64_t value) {
    value ^= value >> 32;
    value *= 0x9e3779b97f4a7c15u;
    return value ^ value >> 29;
}

}  // namespace

AccessPatterns::AccessPatterns(const BankModel& banks, unsigned warp_size)
    : banks_(banks),
      warp_size_(warp_size),
      span_(std::max<std::uint64_t>(
          static_cast<std::uint64_t>(banks.banks) * static_cast<std::uint64_t>(banks.bank_bytes),
          kSectorBytes)) {
    forget();
}

void AccessPatterns::forget() {
    patterns_.clear();
    offsets_.clear();
    hashes_.clear();
    table_.assign(kFirstTable, 0);
    costs_.assign(kFirstTable, {});
    costs_used_ = 0;
    last_ = 0;
}

void AccessPatterns::grow() {
    table_.assign(table_.size() * 2, 0);
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
        std::size_t at = hashes_[i] & (table_.size() - 1);
        while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
        table_[at] = static_cast<std::uint32_t>(i + 1);
    }
}

AccessPatterns::Found AccessPatterns::find(const std::int32_t* relative, std::uint64_t lanes) {
    std::array<std::int32_t, kMostLanes> offsets;
    const std::int32_t first = relative[std::countr_zero(lanes)];
    const bool all = std::popcount(lanes) == static_cast<int>(warp_size_);
    if (all) {
        for (unsigned lane = 0; lane < warp_size_; ++lane) offsets[lane] = relative[lane] - first;
    } else {
        for (unsigned lane = 0; lane < warp_size_; ++lane)
            offsets[lane] = (lanes >> lane & 1u) != 0 ? relative[lane] - first : 0;
    }
    const std::size_t bytes = warp_size_ * sizeof(std::int32_t);
    const auto is = [&](std::uint32_t pattern) {
        return patterns_[pattern].lanes == lanes &&
               std::memcmp(offsets_.data() + std::size_t{pattern} * warp_size_, offsets.data(), bytes) == 0;
    };
    if (last_ < patterns_.size() && is(last_)) return {last_, first};

    std::uint32_t sum = 0, factor = 0x9e3779b1u;
    for (unsigned lane = 0; lane < warp_size_; ++lane) {
        sum += static_cast<std::uint32_t>(offsets[lane]) * factor;
        factor += 0x3c6ef372u;  // must stay odd
    }
    const std::uint64_t hash = mix(sum ^ mix(lanes));
    std::size_t at = hash & (table_.size() - 1);
    for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
        if (hashes_[table_[at] - 1] == hash && is(table_[at] - 1)) {
            last_ = table_[at] - 1;
            return {last_, first};
        }
    }

    AccessPattern pattern;
    pattern.lanes = lanes;
    pattern.lane_count = std::popcount(lanes);
    constexpr std::uint32_t kMostAligned = 128;
    std::uint32_t bits = kMostAligned;
    for (unsigned lane = 0; lane < warp_size_; ++lane) bits |= static_cast<std::uint32_t>(offsets[lane]);
    pattern.alignment = bits & (~bits + 1);
    last_ = static_cast<std::uint32_t>(patterns_.size());
    patterns_.push_back(pattern);
    offsets_.insert(offsets_.end(), offsets.begin(), offsets.begin() + warp_size_);
    hashes_.push_back(hash);
    table_[at] = last_ + 1;
    if (patterns_.size() * 2 > table_.size()) grow();
    return {last_, first};
}

AccessPatterns::Known& AccessPatterns::known(std::uint32_t pattern, std::uint64_t base, int width,
                                             unsigned operation, bool& is_new) {
    const auto log = static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(width)));
    // span_ is below 2^16; the 1 makes it differ from a free slot's 0.
    const std::uint64_t key =
        std::uint64_t{pattern} << 32 | base % span_ << 8 | log << 4 | operation << 1 | 1u;
    if (costs_used_ * 2 > costs_.size()) {
        std::vector<Known> old(costs_.size() * 2);
        old.swap(costs_);
        for (const Known& cost : old) {
            if (cost.key == 0) continue;
            std::size_t at = mix(cost.key) & (costs_.size() - 1);
            while (costs_[at].key != 0) at = (at + 1) & (costs_.size() - 1);
            costs_[at] = cost;
        }
    }
    std::size_t at = mix(key) & (costs_.size() - 1);
    while (costs_[at].key != 0 && costs_[at].key != key) at = (at + 1) & (costs_.size() - 1);
    is_new = costs_[at].key == 0;
    costs_used_ += is_new;
    costs_[at].key = key;
    return costs_[at];
}

SharedCost AccessPatterns::shared(std::uint32_t pattern, std::uint64_t base, int width, SharedAccess access) {
    bool is_new = false;
    Known& cost = known(pattern, base, width, access == SharedAccess::load ? 0 : 1, is_new);
    if (is_new) {
        const std::int32_t* const relative = offsets(pattern);
        const std::uint64_t lanes = patterns_[pattern].lanes;
        // The banks repeat, so any base with the same remainder costs the same. One that is high enough keeps
        // all addresses positive, since lanes may lie before the first lane.
        std::int64_t lowest = 0;
        for (unsigned lane = 0; lane < warp_size_; ++lane)
            lowest = std::min<std::int64_t>(lowest, relative[lane]);
        const auto span = static_cast<std::int64_t>(span_);
        const std::int64_t up = (-lowest + span - 1) / span * span + static_cast<std::int64_t>(base % span_);
        addresses_.assign(warp_size_, std::nullopt);
        for (unsigned lane = 0; lane < warp_size_; ++lane) {
            if ((lanes >> lane & 1u) != 0) addresses_[lane] = static_cast<std::uint32_t>(up + relative[lane]);
        }
        const Wavefronts found = wavefronts(addresses_, width, banks_, access);
        cost.first = static_cast<std::uint16_t>(found.actual);
        cost.second = static_cast<std::uint16_t>(found.ideal);
        cost.third = static_cast<std::uint16_t>(found.degree);
    }
    return {cost.first, cost.second, cost.third};
}

SectorCost AccessPatterns::sectors(std::uint32_t pattern, std::uint64_t base, int width) {
    bool is_new = false;
    Known& cost = known(pattern, base, width, 2, is_new);
    if (is_new) {
        const std::int32_t* const relative = offsets(pattern);
        const std::uint64_t lanes = patterns_[pattern].lanes;
        std::array<std::int64_t, 2 * kMostLanes> touched;  // an access of 16 bytes touches one or two
        std::size_t count = 0;
        const auto sector = static_cast<std::int64_t>(kSectorBytes);
        for (unsigned lane = 0; lane < warp_size_; ++lane) {
            if ((lanes >> lane & 1u) == 0) continue;
            const std::int64_t address = relative[lane] + static_cast<std::int64_t>(base % span_);
            const std::int64_t first = address >= 0 ? address / sector : -((sector - 1 - address) / sector);
            const std::int64_t end = address + width - 1;
            const std::int64_t last = end >= 0 ? end / sector : -((sector - 1 - end) / sector);
            touched[count++] = first;
            if (last != first) touched[count++] = last;
        }
        std::sort(touched.begin(), touched.begin() + static_cast<std::ptrdiff_t>(count));
        const auto end = std::unique(touched.begin(), touched.begin() + static_cast<std::ptrdiff_t>(count));
        const auto sectors = static_cast<int>(end - touched.begin());
        const int asked = patterns_[pattern].lane_count * width;
        cost.first = static_cast<std::uint16_t>(sectors);
        cost.second = static_cast<std::uint16_t>(
            std::min(sectors, (asked + static_cast<int>(kSectorBytes) - 1) / static_cast<int>(kSectorBytes)));
    }
    return {cost.first, cost.second};
}

}  // namespace kiln
