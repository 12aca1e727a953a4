// SPDX-License-Identifier: Apache-2.0
//
// Which neighbouring accesses of each lane become wider ones, and what they cost then.
#include "access_events.h"
#include "analysis/merge_window.h"

namespace kiln::test {
namespace {

std::vector<int> widths(const SharedSite& site) {
    std::vector<int> result;
    for (const WidthCost& cost : site.widths) result.push_back(cost.bytes);
    return result;
}

/// Each lane reads `count` elements side by side, lanes `pitch` bytes apart.
SharedSite read_rows(unsigned bytes, unsigned count, unsigned pitch, std::uint64_t start = kTile) {
    AccessEvents events;
    events.fill();
    for (unsigned i = 0; i < count; ++i)
        events.all(kLoad, bytes, [&](unsigned t) { return start + pitch * t + bytes * i; });
    return shared_site(events.finish(), kLoad, static_cast<int>(bytes));
}

TEST(Merge, UpToFourElementsAnd16Bytes) {
    EXPECT_EQ(widths(read_rows(1, 16, 16)), (std::vector{1, 2, 4}));
    EXPECT_EQ(widths(read_rows(2, 8, 16)), (std::vector{2, 4, 8}));
    EXPECT_EQ(widths(read_rows(4, 8, 32)), (std::vector{4, 8, 16}));
    EXPECT_EQ(widths(read_rows(8, 2, 16)), (std::vector{8, 16}));
    EXPECT_EQ(widths(read_rows(16, 4, 64)), (std::vector{16}));
}

TEST(Merge, Costs) {
    const SharedSite site = read_rows(4, 4, 16);
    EXPECT_EQ(site.as_written.requests, 4u);
    EXPECT_EQ(site.as_written.wavefronts, 16u);  // each a stride of 4 words
    EXPECT_EQ(site.as_written.ideal, 4u);
    EXPECT_EQ(site.as_written.degree, 4);
    ASSERT_EQ(site.widths.size(), 3u);
    EXPECT_EQ(site.widths[1].requests, 2u);
    EXPECT_EQ(site.widths[1].wavefronts, 8u);
    EXPECT_EQ(site.merged.bytes, 16);
    EXPECT_EQ(site.merged.requests, 1u);
    EXPECT_EQ(site.merged.wavefronts, 4u);
    EXPECT_EQ(site.merged.ideal, 4u);
    EXPECT_EQ(site.merged.degree, 1);
}

TEST(Merge, OnlyWhatIsAlignedInEveryLane) {
    EXPECT_EQ(widths(read_rows(4, 4, 33 * 4)), (std::vector{4}));
    EXPECT_EQ(widths(read_rows(4, 4, 34 * 4)), (std::vector{4, 8}));
    EXPECT_EQ(widths(read_rows(4, 4, 16, kTile + 4)), (std::vector{4, 8}));  // 4 | 8 12 | 16
    EXPECT_EQ(widths(read_rows(4, 1, 16)), (std::vector{4}));
}

TEST(Merge, TheRestStaysNarrow) {
    const SharedSite site = read_rows(4, 7, 32);
    EXPECT_EQ(site.merged.bytes, 16);
    EXPECT_EQ(site.merged.requests, 3u);  // 4, 2 and 1 floats
}

// Three floats of four: a compiler may load the fourth as well.
TEST(Merge, WholePiecesThatAreAskedForInPart) {
    const SharedSite site = read_rows(4, 3, 16);
    EXPECT_EQ(widths(site), (std::vector{4, 8})) << "two of three merge, and one is left over";
    ASSERT_EQ(site.spanned.size(), 1u) << "with pieces of 8 bytes one is left over";
    EXPECT_EQ(site.spanned[0].bytes, 16);
    EXPECT_EQ(site.spanned[0].requests, 1u);
    EXPECT_EQ(site.spanned[0].wavefronts, 4u);
    EXPECT_EQ(site.spanned[0].ideal, 4u);
    EXPECT_EQ(site.spanned[0].degree, 1);
    EXPECT_TRUE(read_rows(4, 1, 16).spanned.empty()) << "one number is no reason to load four";
    EXPECT_TRUE(read_rows(4, 3, 12).spanned.empty()) << "pieces are not aligned in all lanes";
    EXPECT_TRUE(read_rows(4, 5, 32).spanned.empty()) << "the fifth is left over";
    EXPECT_EQ(read_rows(4, 7, 32).spanned.at(0).requests, 2u);
}

TEST(Merge, StepsOfALoopInAnyOrder) {
    // As the tile of gemm_tiled is read: four rows, one after the other, then the next column of all of them.
    AccessEvents events;
    events.fill();
    for (unsigned step = 0; step < 8; ++step) {
        for (unsigned row = 0; row < 4; ++row)
            events.all(kLoad, 2, [&](unsigned t) { return kTile + 64 * (t / 16 + 2 * row) + 2 * step; });
    }
    const SharedSite site = shared_site(events.finish(), kLoad, 2);
    EXPECT_EQ(site.as_written.requests, 32u);
    EXPECT_EQ(site.merged.bytes, 8);
    EXPECT_EQ(site.merged.requests, 8u);
}

/// Two loads side by side with `between` in the middle.
SharedSite load_pair(const std::function<void(AccessEvents&)>& between, unsigned second_lanes = 32) {
    AccessEvents events;
    events.fill();
    events.all(kLoad, 4, [](unsigned t) { return kTile + 8 * t; });
    between(events);
    for (unsigned t = 0; t < second_lanes; ++t) events.one(t, kLoad, kTile + 8 * t + 4, 4);
    return shared_site(events.finish(), kLoad, 4);
}

TEST(Merge, WhatStandsBetween) {
    const auto store = [](AccessEvents& events) {
        events.all(
            AccessKind::store, 4, [](unsigned t) { return kTile + 8192 + 4 * t; }, 900);
    };
    const auto global_store = [](AccessEvents& events) {
        events.all(
            AccessKind::store, 4, [](unsigned t) { return kBuffer + 4 * t; }, 900);
    };
    const auto load = [](AccessEvents& events) {
        events.all(
            kLoad, 2, [](unsigned t) { return kTile + 8192 + 2 * t; }, 900);
    };
    EXPECT_EQ(load_pair([](AccessEvents&) {}).merged.bytes, 8);
    EXPECT_EQ(load_pair(load).merged.bytes, 8);
    EXPECT_EQ(load_pair(global_store).merged.bytes, 8);
    EXPECT_EQ(load_pair(store).merged.bytes, 4);
    EXPECT_EQ(load_pair([](AccessEvents& events) { events.sync(); }).merged.bytes, 4);
    EXPECT_EQ(load_pair([](AccessEvents& events) { events.sync_warp(0, 32); }).merged.bytes, 4);
    EXPECT_EQ(load_pair([](AccessEvents&) {}, 31).merged.bytes, 4) << "not all lanes";
}

TEST(Merge, Stores) {
    AccessEvents events;
    for (unsigned i = 0; i < 4; ++i)
        events.all(AccessKind::store, 4, [&](unsigned t) { return kTile + 16 * t + 4 * i; });
    EXPECT_EQ(shared_site(events.finish(), AccessKind::store, 4).merged.bytes, 16);

    AccessEvents others;
    for (unsigned i = 0; i < 4; ++i)
        others.all(AccessKind::atomic, 4, [&](unsigned t) { return kTile + 16 * t + 4 * i; });
    EXPECT_EQ(shared_site(others.finish(), AccessKind::atomic, 4).merged.bytes, 4);
}

TEST(Merge, AMinorityIsNoWidth) {
    // One pair among many loads that have no neighbour.
    AccessEvents events;
    events.fill();
    for (unsigned i = 0; i < 8; ++i)
        events.all(kLoad, 4, [&](unsigned t) { return kTile + 8 * t + 512 * i; });
    events.all(kLoad, 4, [](unsigned t) { return kTile + 8 * t + 4; });
    EXPECT_EQ(widths(shared_site(events.finish(), kLoad, 4)), (std::vector{4}));
}

TEST(Merge, RepeatedAddressesMergeAsOftenAsAllPartsCome) {
    std::vector<MergeCandidate> candidates = {{0, 0, 0}, {0, 0, 0}, {0, 0, 4}, {0, 0, 8}, {0, 0, 12}};
    std::vector<MergedAccess> result;
    merge(candidates, 4, 16, result);
    std::map<int, std::uint64_t> times;
    for (const MergedAccess& access : result) times[access.width] += access.times;
    EXPECT_EQ(times, (std::map<int, std::uint64_t>{{4, 1}, {16, 1}}));
}

}  // namespace
}  // namespace kiln::test
