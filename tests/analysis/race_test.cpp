// SPDX-License-Identifier: Apache-2.0
//
// Races among hand-made accesses, by every way to order threads, and accesses that are wrong by themselves.
#include "access_events.h"

namespace kiln::test {
namespace {

constexpr std::uint64_t kBarrier = 0x42;

std::vector<AccessProblem> races(AccessEvents& events) {
    return problems(events.finish(), ProblemKind::race);
}
/// How often the first kind of race was seen.
std::uint64_t race_count(AccessEvents& events) {
    std::uint64_t count = 0;
    for (const AccessProblem& problem : races(events)) count += problem.count;
    return count;
}

TEST(Race, ReadAfterWriteWithoutABarrier) {
    AccessEvents events(64);
    events.all(
        kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
    events.all(
        kLoad, 4, [](unsigned t) { return kTile + 4 * (63 - t); }, 20);
    const auto found = races(events);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].access, kLoad);
    EXPECT_EQ(found[0].other_access, kStore);
    EXPECT_EQ(found[0].thread, 63 - found[0].other_thread);
    EXPECT_EQ(found[0].bytes, 4);
    EXPECT_EQ(found[0].variable, "tile");
    EXPECT_EQ(found[0].offset, 4 * static_cast<std::int64_t>(found[0].other_thread));
    EXPECT_EQ(found[0].count, 64u);
    EXPECT_NE(found[0].text().find("with no barrier between"), std::string::npos) << found[0].text();
}

TEST(Race, ABarrierOrders) {
    AccessEvents events(64);
    for (int turn = 0; turn < 3; ++turn) {
        events.all(kStore, 4, [](unsigned t) { return kTile + 4 * t; });
        events.sync();
        events.all(kLoad, 4, [](unsigned t) { return kTile + 4 * (63 - t); });
        events.sync();
    }
    EXPECT_TRUE(events.finish().problems.empty());
}

TEST(Race, WriteAfterReadWithoutABarrier) {
    AccessEvents events(64);
    events.fill();
    events.all(
        kLoad, 4, [](unsigned t) { return kTile + 4 * (63 - t); }, 20);
    events.all(
        kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
    EXPECT_EQ(race_count(events), 64u);
}

TEST(Race, TwoWrites) {
    AccessEvents events(64);
    events.all(kStore, 4, [](unsigned t) { return kTile + 4 * (t / 2); });
    const auto found = races(events);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].count, 32u);
    EXPECT_NE(found[0].text().find("even if they store the same value"), std::string::npos);
}

TEST(Race, OwnAccessesAndNeighbouringBytesDoNot) {
    AccessEvents events(64);
    events.all(kStore, 1, [](unsigned t) { return kTile + t; });
    events.all(kLoad, 1, [](unsigned t) { return kTile + t; });
    events.all(kStore, 1, [](unsigned t) { return kTile + t; });
    EXPECT_TRUE(events.finish().problems.empty());
}

TEST(Race, WideAndNarrowAccesses) {
    AccessEvents events(64);
    events.fill();
    events.one(0, kLoad, kTile, 16, 20);
    events.one(1, kStore, kTile + 14, 2, 10);
    const auto found = races(events);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].bytes, 2);
    EXPECT_EQ(found[0].offset, 14);
}

TEST(Race, AtomicsAmongThemselvesDoNot) {
    AccessEvents events(64);
    events.fill();
    events.all(kAtomic, 4, [](unsigned t) { return kTile + 4 * (t % 3); });
    EXPECT_EQ(race_count(events), 0u);

    AccessEvents read(64);
    read.fill();
    read.all(
        kAtomic, 4, [](unsigned) { return kTile; }, 10);
    read.one(63, kLoad, kTile, 4, 20);  // its own is only one of those
    EXPECT_EQ(race_count(read), 1u);

    AccessEvents written(64);
    written.fill();
    written.one(5, kStore, kTile, 4, 20);
    written.one(6, kAtomic, kTile, 4, 10);
    EXPECT_EQ(race_count(written), 1u);
}

TEST(Race, AsynchronousCopiesAndMatrices) {
    AccessEvents events(64);
    events.one(0, AccessKind::async_copy, kTile, 16, 10);
    events.one(1, AccessKind::matrix_load, kTile, 16, 20);
    const auto found = races(events);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].bytes, 16);
    EXPECT_EQ(found[0].other_access, AccessKind::async_copy);
}

// A thread's atomic operation does not stand for its store or load before it, which conflict with more.
TEST(Race, WhatAThreadDidBeforeItsAtomicOperationStillCounts) {
    for (const AccessKind first : {kStore, kLoad}) {
        for (const bool in_warps : {false, true}) {
            for (const bool ordered : {false, true}) {
                AccessEvents events(64);
                events.fill();
                if (in_warps) events.sync_warp(0, 32);
                events.one(3, first, kTile, 4, 10);
                events.one(3, kAtomic, kTile, 4, 20);
                if (ordered) events.sync();
                events.one(40, kAtomic, kTile, 4, 30);
                events.one(41, kAtomic, kTile, 4, 30);
                EXPECT_EQ(race_count(events) > 0, !ordered) << (first == kStore) << in_warps;
            }
        }
    }
    AccessEvents meeting(32);
    meeting.fill();
    meeting.one(3, kStore, kTile, 4, 10);
    meeting.one(3, kAtomic, kTile, 4, 20);
    meeting.sync_warp(0, 32);
    meeting.one(4, kAtomic, kTile, 4, 30);
    EXPECT_EQ(race_count(meeting), 0u);
}

// It exchanges registers and orders no memory, be it the first that a warp does, or behind a __syncwarp.
TEST(Race, AShuffleOrdersNothing) {
    for (const bool in_warps : {false, true}) {
        AccessEvents events(32);
        if (in_warps) events.sync_warp(0, 32);
        events.all(
            kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
        events.shuffle();
        events.all(
            kLoad, 4, [](unsigned t) { return kTile + 4 * (31 - t); }, 20);
        EXPECT_EQ(race_count(events), 32u) << in_warps;
    }
}

TEST(Race, LanesOfAWarpAreNotInStep) {
    const auto shift = [](bool sync) {
        AccessEvents events(32);
        events.all(
            kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
        if (sync) events.sync_warp(0, 32);
        events.all(
            kLoad, 4, [](unsigned t) { return kTile + 4 * ((t + 1) % 32); }, 20);
        return race_count(events);
    };
    EXPECT_EQ(shift(false), 32u);
    EXPECT_EQ(shift(true), 0u);
}

TEST(Race, AMeetingDoesNotOrderWhatComesBehindIt) {
    AccessEvents events(32);
    events.fill();
    events.sync_warp(0, 32);
    events.one(0, kStore, kTile, 4, 10);
    events.one(1, kLoad, kTile, 4, 20);
    EXPECT_EQ(race_count(events), 1u);
}

TEST(Race, AWarpsMeetingOrdersThatWarpOnly) {
    AccessEvents events(64);
    events.all(
        kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
    events.sync_warp(0, 32);
    events.sync_warp(32, 32);
    events.one(0, kLoad, kTile + 4 * 31, 4, 20);
    events.one(0, kLoad, kTile + 4 * 32, 4, 30);
    const auto found = races(events);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].other_thread, 32u);
}

TEST(Race, PartOfAWarpMeets) {
    AccessEvents events(32);
    events.all(
        kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
    events.sync_warp(0, 16);
    events.one(3, kLoad, kTile + 4 * 15, 4, 20);
    events.one(3, kLoad, kTile + 4 * 16, 4, 20);
    EXPECT_EQ(race_count(events), 1u);
}

TEST(Race, BetweenWarpsAfterAWarpsMeetingAndBeforeTheBlocks) {
    AccessEvents events(64);
    events.fill();
    events.sync_warp(0, 32);
    events.one(0, kStore, kTile, 4, 10);
    events.one(40, kStore, kTile, 4, 20);
    events.sync();
    events.one(1, kLoad, kTile, 4, 30);  // ordered again
    EXPECT_EQ(race_count(events), 1u);
}

TEST(Race, WhatWasReadBeforeAWarpsMeetingStillCounts) {
    AccessEvents events(64);
    events.fill();
    events.one(40, kLoad, kTile, 4, 20);
    events.sync_warp(0, 32);
    events.one(0, kStore, kTile, 4, 10);
    EXPECT_EQ(race_count(events), 1u);
}

TEST(Race, ReleaseAndAcquire) {
    AccessEvents events(64);
    events.one(0, kStore, kTile, 4, 10);
    events.recorder.release(0, kBarrier);
    events.recorder.acquire(40, kBarrier);
    events.one(40, kLoad, kTile, 4, 20);
    EXPECT_EQ(race_count(events), 0u);

    AccessEvents late(64);
    late.recorder.release(0, kBarrier);
    late.one(0, kStore, kTile, 4, 10);  // behind the release
    late.recorder.acquire(40, kBarrier);
    late.one(40, kLoad, kTile, 4, 20);
    EXPECT_EQ(race_count(late), 1u);

    AccessEvents chain(96);
    chain.one(0, kStore, kTile, 4, 10);
    chain.recorder.release(0, kBarrier);
    chain.recorder.acquire(40, kBarrier);
    chain.recorder.release(40, kBarrier + 1);
    chain.recorder.acquire(70, kBarrier + 1);
    chain.one(70, kLoad, kTile, 4, 20);
    EXPECT_EQ(race_count(chain), 0u);
}

// One warp fills the slots of a ring, another one uses them.
std::uint64_t ring(bool full_is_awaited, bool empty_is_awaited) {
    constexpr unsigned kSlots = 3, kRounds = 10;
    AccessEvents events(64);
    const auto full = [](unsigned slot) { return 0x1000ull + slot; };
    const auto empty = [](unsigned slot) { return 0x2000ull + slot; };
    for (unsigned round = 0; round < kRounds; ++round) {
        const unsigned slot = round % kSlots;
        for (unsigned t = 0; t < 32; ++t) {
            if (round >= kSlots && empty_is_awaited) events.recorder.acquire(t, empty(slot));
            events.one(t, kStore, kTile + 128 * slot + 4 * t, 4, 10);
            events.recorder.release(t, full(slot));
        }
        for (unsigned t = 32; t < 64; ++t) {
            if (full_is_awaited) events.recorder.acquire(t, full(slot));
            events.one(t, kLoad, kTile + 128 * slot + 4 * (63 - t), 4, 20);
            events.recorder.release(t, empty(slot));
        }
    }
    return race_count(events);
}

TEST(Race, ProducerAndConsumer) {
    EXPECT_EQ(ring(true, true), 0u);
    EXPECT_GT(ring(true, false), 0u);
    EXPECT_GT(ring(false, true), 0u);
}

// Repeated equal loads are checked once, unless there is a write.
TEST(Race, TurnsOfALoopThatAreAlike) {
    AccessEvents events(64);
    events.fill();
    for (unsigned turn = 0; turn < 6; ++turn) {
        for (unsigned k = 0; k < 16; ++k)
            events.all(
                kLoad, 4, [&](unsigned t) { return kTile + 8 * (t % 32) + 256 * k; }, 20);
        if (turn == 4) events.one(40, kStore, kTile + 8, 4, 10);
        events.sync();
    }
    const Recording recording = events.finish();
    const SharedSite site = shared_site(recording, kLoad, 4);
    EXPECT_EQ(site.as_written.requests, 6u * 2 * 16);
    EXPECT_EQ(site.as_written.wavefronts, 6u * 2 * 16 * 2);
    EXPECT_EQ(site.as_written.degree, 2);
    const auto found = problems(recording, ProblemKind::race);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].count, 2u);  // with threads 1 and 33
}

TEST(Race, BlocksHaveNothingToDoWithEachOther) {
    RecorderOptions options = AccessEvents::options("sm_90a");
    AccessEvents events(32, options, {2, 1, 1});
    events.one(0, kStore, kTile);
    events.recorder.end_block();
    ASSERT_TRUE(events.recorder.begin_block({1, 0, 0}));
    events.one(1, kStore, kTile);
    events.one(1, kLoad, kTile);
    EXPECT_TRUE(events.finish().problems.empty());
}

TEST(Race, CanBeSwitchedOff) {
    RecorderOptions options = AccessEvents::options("sm_90a");
    options.problems = false;
    AccessEvents events(64, options, {1, 1, 1});
    events.all(kStore, 4, [](unsigned) { return kTile; });
    events.sync_warp(0, 32);
    events.one(0, kLoad, kTile - 4);
    EXPECT_TRUE(events.finish().problems.empty());
}

TEST(Race, ManyIntervalsAndPlaces) {
    AccessEvents events(32);
    for (unsigned code = 1; code < 300; ++code) {
        // Of one line, since no line is known: one problem.
        events.one(0, kStore, kTile, 4, code);
        events.one(1, kStore, kTile, 4, code + 1000);
        events.sync();
    }
    const auto found = races(events);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].count, 299u);
}

TEST(Bounds, BehindAndBeforeAVariable) {
    AccessEvents events(32, "sm_90a", 1024);
    events.one(3, kStore, kTile + 1024, 4);
    events.one(4, kLoad, kTile - 8, 8);
    events.one(5, kLoad, kTile + 1020, 8, 30);  // half of it
    events.one(6, kLoad, kDynamic + 4096 + 100, 4);
    const auto found = problems(events.finish(), ProblemKind::out_of_bounds);
    ASSERT_EQ(found.size(), 4u - 1u);  // two loads of tile are one place
    EXPECT_EQ(found[0].variable, "tile");
    EXPECT_EQ(found[0].offset, 1024);
    EXPECT_EQ(found[0].variable_bytes, 1024u);
    EXPECT_EQ(found[0].thread, 3u);
    EXPECT_EQ(found[1].offset, -8);
    EXPECT_EQ(found[1].count, 2u);
    EXPECT_EQ(found[2].variable, "dynamic shared memory");
    EXPECT_EQ(found[2].offset, 4196);
    EXPECT_NE(found[0].text().find("which has 1024 bytes"), std::string::npos) << found[0].text();
    EXPECT_NE(found[1].text().find("begins at 0"), std::string::npos) << found[1].text();
}

TEST(Bounds, BadIndex) {
    AccessEvents events;
    events.recorder.bad_index(7, {"tile.cu", 41, "float [64]", 64});
    const auto found = problems(events.finish(), ProblemKind::out_of_bounds);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].place.text(), "tile.cu:41");
    EXPECT_EQ(
        found[0].text(),
        "out of bounds: tile.cu:41 index 64 of an array of type float [64], by thread 7; block (0,0,0)");
}

TEST(Bounds, Misaligned) {
    AccessEvents events;
    events.fill();
    events.all(kLoad, 8, [](unsigned t) { return kTile + 130 * t; });  // rows of half with a pad of one
    const Recording recording = events.finish();
    const auto found = problems(recording, ProblemKind::misaligned);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].thread, 1u);
    EXPECT_EQ(found[0].offset, 130);
    EXPECT_EQ(shared_site(recording, kLoad, 8).misaligned, 1u);
}

TEST(Bounds, Uninitialised) {
    AccessEvents events(64);
    events.one(1, kStore, kTile, 2);
    events.sync();
    events.one(2, kLoad, kTile, 4, 30);
    const auto found = problems(events.finish(), ProblemKind::uninitialised);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].offset, 2);
    EXPECT_EQ(found[0].bytes, 2);
    EXPECT_EQ(found[0].thread, 2u);
}

TEST(Bounds, AddingToWhatNobodySet) {
    AccessEvents events(32);
    events.all(
        kLoad, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
    events.all(
        kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 20);
    EXPECT_EQ(problems(events.finish(), ProblemKind::uninitialised).size(), 1u);

    AccessEvents counters(32);
    counters.all(kAtomic, 4, [](unsigned) { return kTile; });
    const auto found = problems(counters.finish(), ProblemKind::uninitialised);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].count, 1u);

    // The same where warps meet.
    AccessEvents in_warps(32);
    in_warps.sync_warp(0, 32);
    in_warps.all(
        kLoad, 4, [](unsigned t) { return kTile + 4 * t; }, 10);
    in_warps.all(
        kStore, 4, [](unsigned t) { return kTile + 4 * t; }, 20);
    in_warps.all(
        kLoad, 4, [](unsigned t) { return kTile + 4 * t; }, 30);
    const auto those = problems(in_warps.finish(), ProblemKind::uninitialised);
    ASSERT_EQ(those.size(), 1u);
    EXPECT_EQ(those[0].count, 32u);
}

TEST(Bounds, EachBlockBeginsAnew) {
    RecorderOptions options = AccessEvents::options("sm_90a");
    AccessEvents events(32, options, {2, 1, 1});
    events.one(0, kStore, kTile);
    events.recorder.end_block();
    ASSERT_TRUE(events.recorder.begin_block({1, 0, 0}));
    events.one(0, kLoad, kTile);
    const auto found = problems(events.finish(), ProblemKind::uninitialised);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].block, (Dim3{1, 0, 0}));
}

}  // namespace
}  // namespace kiln::test
