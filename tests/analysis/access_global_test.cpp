// SPDX-License-Identifier: Apache-2.0
//
// Sectors of global memory, and what is neither shared nor global.
#include "access_events.h"

namespace kiln::test {
namespace {

TEST(AccessGlobal, SectorsOfRows) {
    struct Case {
        const char* what;
        unsigned bytes;
        std::uint64_t start, stride;
        std::uint64_t sectors, ideal;
    };
    for (const Case& c : {Case{"aligned floats", 4, 0, 4, 4, 4}, Case{"off a sector", 4, 4, 4, 5, 4},
                          Case{"halves", 2, 64, 2, 2, 2}, Case{"halves off a sector", 2, 30, 2, 3, 2},
                          Case{"every second float", 4, 0, 8, 8, 4}, Case{"a column", 4, 0, 1024, 32, 4},
                          Case{"vectors", 16, 0, 16, 16, 16}, Case{"one word", 4, 8, 0, 1, 1}}) {
        SCOPED_TRACE(c.what);
        AccessEvents events;
        events.all(AccessKind::load, c.bytes, [&](unsigned t) { return kBuffer + c.start + t * c.stride; });
        const GlobalSite site = global_site(events.finish(), AccessKind::load, static_cast<int>(c.bytes));
        EXPECT_EQ(site.requests, 1u);
        EXPECT_EQ(site.sectors, c.sectors);
        EXPECT_EQ(site.ideal, c.ideal);
        EXPECT_EQ(site.lane_bytes, 32u * c.bytes);
        EXPECT_EQ(site.merged_sectors, c.sectors);
    }
}

TEST(AccessGlobal, ElementsOfALaneMergeToVectors) {
    AccessEvents events;
    // Four floats of each lane, one after the other: 16 sectors as 16-byte loads, each four times without.
    for (unsigned i = 0; i < 4; ++i)
        events.all(AccessKind::load, 4, [&](unsigned t) { return kBuffer + 16 * t + 4 * i; });
    const GlobalSite site = global_site(events.finish(), AccessKind::load, 4);
    EXPECT_EQ(site.requests, 4u);
    EXPECT_EQ(site.sectors, 64u);
    EXPECT_EQ(site.ideal, 16u);
    EXPECT_EQ(site.merged_requests, 1u);
    EXPECT_EQ(site.merged_sectors, 16u);
    EXPECT_EQ(site.merged_ideal, 16u);
}

TEST(AccessGlobal, TheKernelsOwnDataDoesNotCount) {
    AccessEvents events;
    events.all(AccessKind::load, 4, [](unsigned t) { return kOwn + 4 * t; });
    const Recording recording = events.finish();
    EXPECT_TRUE(recording.global.empty());
    EXPECT_TRUE(recording.shared.empty());
    EXPECT_TRUE(recording.problems.empty());
}

TEST(AccessGlobal, BeyondATensor) {
    struct Case {
        AccessKind kind;
        std::uint64_t address;
        unsigned bytes;
        std::int64_t offset;
        const char* text;
    };
    constexpr std::uint64_t kEnd = kBuffer + kBufferBytes;
    for (const Case& c :
         {Case{kLoad, kEnd, 4, kBufferBytes,
               "load by thread 0 of 4 bytes right after the end of a, which has 1048576 bytes"},
          Case{kStore, kEnd + 12, 2, kBufferBytes + 12,
               "store by thread 0 of 2 bytes, 12 bytes after the end of a,"},
          Case{kLoad, kEnd - 8, 16, kBufferBytes - 8,
               "load by thread 0 of 16 bytes, 8 bytes of them after the end of a,"},
          Case{kStore, kBuffer - 4, 4, -4, "store by thread 0 of 4 bytes, 4 bytes before the start of a,"},
          Case{kLoad, kBuffer - 4, 8, -4,
               "load by thread 0 of 8 bytes, 4 bytes of them before the start of a,"},
          Case{kAtomic, kBuffer - 8192, 4, -8192,
               "atomic by thread 0 of 4 bytes, 8192 bytes before the start of a,"},
          Case{AccessKind::bulk_load, kEnd, 1, kBufferBytes,
               "bulk load by thread 0 of 1 byte right after the end of a,"},
          Case{kLoad, 0x7fff00000010, 4, 0x7fff00000010,
               "of 4 bytes at address 0x7fff00000010, which is not near any tensor"},
          Case{kLoad, kOwn + 4096, 4, 0, ""},
          Case{kLoad, 8, 4, 8, "at address 0x8, which is not near any tensor"}}) {
        SCOPED_TRACE(c.text);
        AccessEvents events;
        // Lanes before it and behind it are where they should be.
        events.all(kLoad, 4, [](unsigned t) { return kBuffer + 4 * t; });
        events.one(0, c.kind, c.address, c.bytes, 300);
        const auto found = problems(events.finish(), ProblemKind::out_of_bounds);
        ASSERT_EQ(found.size(), 1u);
        if (*c.text == 0) continue;
        EXPECT_EQ(found[0].offset, c.offset);
        EXPECT_EQ(found[0].access, c.kind);
        EXPECT_NE(found[0].text().find(c.text), std::string::npos) << found[0].text();
    }
}

TEST(AccessGlobal, OnlyWritesToConstantsAreReported) {
    AccessEvents events;
    for (const std::uint64_t place : {0, 60, 64, 76, 80, 4092}) {
        events.one(1, kLoad, kOwn + place, 4, 10);
        events.one(1, kStore, kOwn + place, 4, 20);
    }
    const Recording recording = events.finish();
    ASSERT_EQ(recording.problems.size(), 1u);
    const AccessProblem& problem = recording.problems.front();
    EXPECT_EQ(problem.kind, ProblemKind::read_only);
    EXPECT_EQ(problem.variable, "table");
    EXPECT_EQ(problem.offset, 0);
    EXPECT_EQ(problem.count, 2u);
    EXPECT_NE(problem.text().find("table, which is __constant__"), std::string::npos) << problem.text();
}

TEST(AccessGlobal, AWriteThatReachesIntoAConstantIsReported) {
    for (const unsigned bytes : {8U, 16U}) {
        AccessEvents events;
        for (const std::uint64_t place : {64 - bytes, 64 - bytes / 2, 80 - bytes / 2, 80U}) {
            events.one(1, kLoad, kOwn + place, bytes, 10);
            events.one(1, kStore, kOwn + place, bytes, 20);
        }
        const auto found = problems(events.finish(), ProblemKind::read_only);
        ASSERT_EQ(found.size(), 1U);
        EXPECT_EQ(found[0].variable, "table");
        EXPECT_EQ(found[0].offset, -static_cast<int>(bytes) / 2);
        EXPECT_EQ(found[0].count, 2U);
    }
}

TEST(AccessGlobal, BulkCopiesWithinATensorCostNothing) {
    AccessEvents events;
    events.one(0, AccessKind::bulk_load, kBuffer, 1);
    events.one(0, AccessKind::bulk_store, kBuffer + kBufferBytes - 1, 1);
    const Recording recording = events.finish();
    EXPECT_TRUE(recording.global.empty());
    EXPECT_TRUE(recording.problems.empty());
}

TEST(AccessGlobal, LanesThatLieFarApart) {
    RecorderOptions options = AccessEvents::options("sm_90a");
    AccessRecorder recorder(options);
    ObservedLaunch launch;
    launch.grid = {1, 1, 1};
    launch.block = {32, 1, 1};
    recorder.begin_launch(launch);
    recorder.begin_block({});
    for (unsigned t = 0; t < 32; ++t) {
        const ObservedAccess told = AccessEvents::access(AccessKind::store, (std::uint64_t{t} << 33) + 64, 4);
        recorder.accesses(t, {&told, 1});
    }
    recorder.end_block();
    recorder.end_launch();
    const GlobalSite site = global_site(recorder.recording(), AccessKind::store, 4);
    EXPECT_EQ(site.sectors, 32u);
    EXPECT_EQ(site.lane_bytes, 128u);
}

TEST(AccessGlobal, MisalignedVectors) {
    AccessEvents events;
    events.all(AccessKind::load, 8, [](unsigned t) { return kBuffer + 4 + 8 * t; });
    const Recording recording = events.finish();
    EXPECT_EQ(global_site(recording, AccessKind::load, 8).misaligned, 1u);
    const auto found = problems(recording, ProblemKind::misaligned);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].offset, 4);
    EXPECT_EQ(found[0].variable, "");
    EXPECT_NE(found[0].text().find("at offset 4 of a,"), std::string::npos) << found[0].text();
}

TEST(AccessGlobal, SeveralLaunchesAddUp) {
    AccessEvents events;
    events.all(AccessKind::load, 4, [](unsigned t) { return kBuffer + 4 * t; });
    events.finish();
    ObservedLaunch launch;
    launch.grid = {1, 1, 1};
    launch.block = {32, 1, 1};
    events.recorder.begin_launch(launch);
    events.recorder.begin_block({});
    events.all(
        AccessKind::load, 4, [](unsigned t) { return kBuffer + 4 * t; }, 777);
    const Recording recording = events.finish();
    EXPECT_EQ(recording.blocks, 2u);
    EXPECT_EQ(global_site(recording, AccessKind::load, 4).requests, 2u);
}

}  // namespace
}  // namespace kiln::test
