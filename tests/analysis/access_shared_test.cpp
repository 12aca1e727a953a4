// SPDX-License-Identifier: Apache-2.0
//
// From hand-made accesses of threads to requests of warps and what they cost in shared memory.
#include <algorithm>
#include <set>

#include "access_events.h"

namespace kiln::test {
namespace {

struct Cost {
    std::uint64_t requests, wavefronts, ideal;
    int degree;
};

void expect(const WidthCost& cost, const Cost& expected) {
    EXPECT_EQ(cost.requests, expected.requests);
    EXPECT_EQ(cost.wavefronts, expected.wavefronts);
    EXPECT_EQ(cost.ideal, expected.ideal);
    EXPECT_EQ(cost.degree, expected.degree);
}

TEST(AccessShared, ConflictDegreesOfStrides) {
    for (const unsigned stride : {1u, 2u, 3u, 4u, 8u, 16u, 32u, 33u}) {
        SCOPED_TRACE(stride);
        AccessEvents events;
        events.fill();
        events.all(AccessKind::load, 4, [&](unsigned t) { return kTile + 4 * stride * t; });
        const std::uint64_t degree = std::gcd(stride, 32u);
        expect(shared_site(events.finish(), AccessKind::load, 4).as_written,
               {1, degree, 1, static_cast<int>(degree)});
    }
}

TEST(AccessShared, ColumnsOfHalfWithPads) {
    for (const auto& [pad, wavefronts] : {std::pair{0u, 16u}, {1u, 1u}, {2u, 1u}, {8u, 4u}}) {
        SCOPED_TRACE(pad);
        AccessEvents events;
        events.fill();
        const unsigned pitch = 2 * (32 + pad);
        events.all(AccessKind::load, 2, [&](unsigned t) { return kTile + pitch * t; });
        const SharedSite site = shared_site(events.finish(), AccessKind::load, 2);
        expect(site.as_written, {1, wavefronts, 1, static_cast<int>(wavefronts)});
        EXPECT_EQ(site.variable, "tile");
        ASSERT_EQ(site.worst.size(), 32u);
        EXPECT_EQ(site.worst[3], 3 * 2 * (32 + pad));
    }
}

TEST(AccessShared, WarpsAndRepetitionsAreRequestsOfTheirOwn) {
    AccessEvents events(96);
    events.fill();
    for (int k = 0; k < 5; ++k) events.all(AccessKind::load, 4, [](unsigned t) { return kTile + 4 * t; });
    expect(shared_site(events.finish(), AccessKind::load, 4).as_written, {15, 15, 15, 1});
}

// The runtime lets one thread run on until it waits.
TEST(AccessShared, ThreadByThreadIsTheSameAsInStep) {
    AccessEvents events;
    events.fill();
    for (unsigned thread = 0; thread < 32; ++thread) {
        std::vector<ObservedAccess> told;
        for (unsigned k = 0; k < 64; ++k)
            told.push_back(AccessEvents::access(AccessKind::load, kTile + 4 * (32 * k + thread), 4));
        events.recorder.accesses(thread, told);
    }
    expect(shared_site(events.finish(), AccessKind::load, 4).as_written, {64, 64, 64, 1});
}

TEST(AccessShared, LanesThatDivergeMeetAgainAtEqualExecutions) {
    AccessEvents events;
    events.fill();
    // Odd lanes leave out the access at 200, which even ones make before that at 100; lane 3 loops one more
    // time.
    for (unsigned thread = 0; thread < 32; ++thread) {
        if (thread % 2 == 0) events.one(thread, AccessKind::store, kTile + 4 * thread, 4, 200);
        events.one(thread, AccessKind::load, kTile + 4 * thread, 4, 100);
        events.one(thread, AccessKind::load, kTile + 4 * thread + 128, 4, 100);
        if (thread == 3) events.one(thread, AccessKind::load, kTile, 4, 100);
    }
    const Recording recording = events.finish();
    expect(shared_site(recording, AccessKind::store, 4).as_written, {1, 1, 1, 1});
    expect(shared_site(recording, AccessKind::load, 4).as_written, {3, 3, 3, 1});
}

TEST(AccessShared, FewLanesThatComeFirstDoNotSplitTheRest) {
    AccessEvents events;
    events.fill();
    for (const unsigned thread : {7u, 0u}) events.one(thread, AccessKind::load, kTile + 4 * thread, 4, 300);
    for (unsigned thread = 0; thread < 32; ++thread) {
        for (unsigned k = 0; k < 3; ++k)
            events.one(thread, AccessKind::load, kTile + 4 * thread + 128 * k, 4, 100);
    }
    expect(shared_site(events.finish(), AccessKind::load, 4).as_written, {4, 4, 4, 1});
}

TEST(AccessShared, MeetingsSeparateExecutions) {
    AccessEvents events;
    events.fill();
    events.one(0, AccessKind::load, kTile, 4);
    events.sync_warp(0, 32);
    // The second of lane 0 and the first of lane 1 come after the same meeting.
    events.one(0, AccessKind::load, kTile, 4);
    events.one(1, AccessKind::load, kTile + 128, 4);
    expect(shared_site(events.finish(), AccessKind::load, 4).as_written, {2, 3, 2, 2});
}

TEST(AccessShared, ShufflesSeparateExecutionsToo) {
    AccessEvents events;
    events.fill();
    events.one(0, AccessKind::load, kTile, 4);
    events.shuffle();
    events.one(0, AccessKind::load, kTile, 4);
    events.one(1, AccessKind::load, kTile + 128, 4);
    expect(shared_site(events.finish(), AccessKind::load, 4).as_written, {2, 3, 2, 2});
}

TEST(AccessShared, SameCodeFromTwoCallsIsTwoRequests) {
    AccessEvents events;
    events.fill();
    ObservedAccess first = AccessEvents::access(AccessKind::load, kTile, 4);
    ObservedAccess second = AccessEvents::access(AccessKind::load, kTile + 128, 4);
    first.caller = 7;
    second.caller = 8;
    events.recorder.accesses(0, {&first, 1});
    events.recorder.accesses(1, {&second, 1});
    expect(shared_site(events.finish(), AccessKind::load, 4).as_written, {2, 2, 2, 1});
}

TEST(AccessShared, VariablesAreSitesOfTheirOwn) {
    AccessEvents events;
    events.all(AccessKind::store, 4, [](unsigned t) { return (t < 16 ? kTile : kDynamic) + 4 * t; });
    const Recording recording = events.finish();
    ASSERT_EQ(recording.shared.size(), 2u);
    EXPECT_EQ(recording.shared[0].variable, "dynamic shared memory");
    EXPECT_EQ(recording.shared[1].variable, "tile");
}

TEST(AccessShared, WaveOf64) {
    AccessEvents events(128, "gfx90a");
    events.fill();
    events.all(AccessKind::load, 4, [](unsigned t) { return kTile + 4 * (t % 64); });
    // Halves of a wave that wait by 32, as the host's warps do, stay one wave.
    for (const unsigned first : {0u, 32u, 64u, 96u}) events.sync_warp(first, 32);
    events.all(AccessKind::load, 4, [](unsigned t) { return kTile + 4 * (t % 64); });
    const Wavefronts one = [] {
        std::vector<std::optional<std::uint32_t>> row(64);
        for (std::uint32_t i = 0; i < 64; ++i) row[i] = 4 * i;
        return wavefronts(row, 4, bank_model("gfx90a"));
    }();
    const SharedSite site = shared_site(events.finish(), AccessKind::load, 4);
    expect(site.as_written,
           {4, 4u * static_cast<unsigned>(one.actual), 4u * static_cast<unsigned>(one.ideal), one.degree});
    EXPECT_EQ(site.worst.size(), 64u);
}

TEST(AccessShared, MatrixRowsAreLoadsOf16Bytes) {
    AccessEvents events;
    events.fill();
    events.all(AccessKind::matrix_load, 16,
               [](unsigned t) { return kTile + 128 * (t % 16) + 16 * (t / 16); });
    expect(shared_site(events.finish(), AccessKind::matrix_load, 16).as_written, {1, 32, 4, 8});
}

TEST(AccessShared, AtomicsOfOneWordGoTogether) {
    AccessEvents events;
    events.fill();
    events.all(AccessKind::atomic, 4, [](unsigned t) { return kTile + 128 * (t % 3); });
    expect(shared_site(events.finish(), AccessKind::atomic, 4).as_written, {1, 3, 1, 3});
}

TEST(AccessShared, PackedTypesBecomeWhatTheirAddressesAllow) {
    AccessEvents events;
    events.fill();
    for (unsigned thread = 0; thread < 32; ++thread) {
        ObservedAccess told = AccessEvents::access(AccessKind::load, kTile + 6 * thread, 4);
        told.unaligned_type = true;
        events.recorder.accesses(thread, {&told, 1});
    }
    const Recording recording = events.finish();
    EXPECT_EQ(shared_site(recording, AccessKind::load, 4).as_written.requests, 2u);
    EXPECT_TRUE(recording.problems.empty());
}

// What an H200 counts for the copies of gemm_async and gemm_mma.
TEST(AccessShared, AsynchronousCopies) {
    struct Case {
        unsigned bytes, lanes_per_row, pitch, row_pitch;  // of shared and global memory
        std::uint64_t wavefronts, ideal, sectors;
    };
    for (const Case& c :
         {Case{16, 8, 128, 512, 8, 8, 16}, Case{16, 4, 64, 256, 16, 8, 16}, Case{16, 4, 80, 256, 27, 8, 24},
          Case{16, 8, 144, 512, 14, 8, 24}, Case{8, 8, 64, 256, 4, 2, 8}, Case{8, 16, 128, 512, 2, 2, 8},
          Case{8, 8, 72, 256, 6, 2, 8}}) {
        SCOPED_TRACE(c.pitch);
        AccessEvents events;
        for (unsigned t = 0; t < 32; ++t) {
            const unsigned row = t / c.lanes_per_row, col = t % c.lanes_per_row * c.bytes;
            events.one(t, AccessKind::load, kBuffer + row * c.row_pitch + col, c.bytes);
            events.one(t, AccessKind::async_copy, kTile + row * c.pitch + col, c.bytes);
        }
        const Recording recording = events.finish();
        const SharedSite site = shared_site(recording, AccessKind::async_copy, static_cast<int>(c.bytes));
        EXPECT_EQ(site.as_written.wavefronts, c.wavefronts);
        EXPECT_EQ(site.as_written.ideal, c.ideal);
        EXPECT_EQ(global_site(recording, AccessKind::load, static_cast<int>(c.bytes)).sectors, c.sectors);
    }
    // Zeros only: a store.
    AccessEvents zeros;
    zeros.all(AccessKind::async_copy, 16, [](unsigned t) { return kTile + 16 * t; });
    expect(shared_site(zeros.finish(), AccessKind::async_copy, 16).as_written, {1, 4, 4, 1});
}

/// Which blocks of a grid are recorded, of `most` at most.
std::vector<unsigned> blocks_recorded(Dim3 grid, unsigned most) {
    RecorderOptions options = AccessEvents::options("sm_90a");
    options.most_blocks = most;
    options.most_ms = 1e9;
    AccessEvents events(32, options, grid);
    std::vector<unsigned> chosen = {0};  // begun by the constructor
    events.recorder.end_block();
    for (unsigned number = 1; number < grid.count(); ++number) {
        if (events.recorder.begin_block(
                {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y})) {
            chosen.push_back(number);
            events.recorder.end_block();
        }
    }
    const Recording recording = events.finish();
    const auto count = static_cast<double>(grid.count());
    EXPECT_EQ(recording.blocks, grid.count());
    EXPECT_EQ(recording.blocks_recorded, chosen.size());
    EXPECT_DOUBLE_EQ(recording.scale(), count / static_cast<double>(chosen.size()));
    return chosen;
}

// The first, the last, and between them the middles of equal parts, alternately odd and even.
TEST(AccessShared, BlocksAreSpreadOverTheGrid) {
    EXPECT_EQ(blocks_recorded({100}, 1), (std::vector<unsigned>{0}));
    EXPECT_EQ(blocks_recorded({100}, 2), (std::vector<unsigned>{0, 99}));
    EXPECT_EQ(blocks_recorded({100}, 4), (std::vector<unsigned>{0, 26, 75, 99}));
    EXPECT_EQ(blocks_recorded({15625}, 8),
              (std::vector<unsigned>{0, 1302, 3907, 6510, 9115, 11718, 14323, 15624}));
    for (unsigned count = 1; count < 50; ++count)
        for (unsigned most = 1; most < 20; ++most) {
            EXPECT_EQ(blocks_recorded({count}, most).size(), std::min(count, most));
            EXPECT_LE(blocks_recorded({5, count}, most).size(), std::min(5 * count, most));
        }
}

// What only a last column or a triangle of blocks does gets no more than its share.
TEST(AccessShared, BlocksAreSpreadOverRowsAndColumns) {
    constexpr unsigned kParts = 6;
    for (const Dim3 grid : {Dim3{12, 12}, Dim3{24, 96}, Dim3{18, 30}, Dim3{6, 6}, Dim3{48, 4, 12}}) {
        const std::vector<unsigned> chosen = blocks_recorded(grid, kParts + 2);
        ASSERT_EQ(chosen.size(), kParts + 2);
        std::set<unsigned> columns, rows;
        int below = 0;
        for (std::size_t i = 1; i <= kParts; ++i) {
            const unsigned column = chosen[i] % grid.x * kParts / grid.x,
                           row = chosen[i] / grid.x * kParts / (grid.y * grid.z);
            columns.insert(column);
            rows.insert(row);
            below += row > column;
        }
        EXPECT_EQ(columns.size(), kParts) << grid.x;
        EXPECT_EQ(rows.size(), kParts) << grid.x;
        EXPECT_EQ(below, 3) << grid.x;
    }
}

TEST(AccessShared, NoBlockAfterTheTime) {
    RecorderOptions options = AccessEvents::options("sm_90a");
    options.most_blocks = 100;
    options.most_ms = 0;
    AccessEvents events(32, options, {100, 1, 1});
    events.recorder.end_block();
    EXPECT_FALSE(events.recorder.begin_block({1, 0, 0}));
    EXPECT_EQ(events.finish().blocks_recorded, 1u);
}

// More than what is kept: counted all the same, and races are still found.
TEST(AccessShared, LongIntervals) {
    AccessEvents events(64);
    constexpr unsigned kLoads = 300000;
    std::vector<ObservedAccess> told(kLoads, AccessEvents::access(AccessKind::load, kBuffer, 4));
    for (const unsigned thread : {0u, 1u, 32u, 33u}) {
        events.one(thread, AccessKind::store, kTile + 4 * (thread % 32), 4, 50);
        for (unsigned k = 0; k < kLoads; ++k) told[k].address = kBuffer + 128 * (k % 64) + 4 * (thread % 32);
        events.recorder.accesses(thread, told);
    }
    const Recording recording = events.finish();
    const GlobalSite site = global_site(recording, AccessKind::load, 4);
    EXPECT_EQ(site.lane_bytes, 4ull * 4 * kLoads);
    EXPECT_EQ(site.requests, 2ull * kLoads);
    EXPECT_EQ(site.sectors, 2ull * kLoads);
    const auto found = problems(recording, ProblemKind::race);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].count, 2u);
}

TEST(AccessShared, AWarpIsAsWideAsTheBanksModel) {
    RecorderOptions options = AccessEvents::options("sm_90a");
    options.warp_size = 64;
    EXPECT_ANY_THROW(AccessRecorder{options});
}

}  // namespace
}  // namespace kiln::test
