// SPDX-License-Identifier: Apache-2.0
//
// What happens at another time than an instruction: copies that are under way, boxes that arrive, barriers in memory; and what is
// reported of registers, or before the process may end.
#include <string>
#include <vector>

#include "access_events.h"

namespace kiln::test {
namespace {

constexpr std::uint64_t kObject = 0x43;
constexpr auto kCopy = AccessKind::async_copy, kArrival = AccessKind::async_arrival;

// A barrier between a copy's begin and its arrival does not make what it copied visible to others.
TEST(RaceCopy, ABarrierBeforeACopyArrives) {
    for (const bool behind : {false, true}) {
        AccessEvents events(64);
        events.one(0, kCopy, kTile, 16, 10);
        events.sync();
        events.one(0, kArrival, kTile, 16, 20);
        events.one(0, kLoad, kTile, 4, 30);
        if (behind) events.sync();
        events.one(1, kLoad, kTile, 4, 40);
        const auto found = problems(events.finish(), ProblemKind::race);
        ASSERT_EQ(found.size(), behind ? 0u : 1u);
        if (behind) continue;
        EXPECT_EQ(found[0].other_access, kArrival);
        EXPECT_EQ(found[0].thread, 1u);
    }
}

TEST(RaceCopy, NobodyMayAccessWhatACopyUnderWayWillWrite) {
    for (const unsigned thread : {0u, 1u}) {
        for (const AccessKind kind : {kLoad, kStore, kCopy}) {
            AccessEvents events(64);
            events.one(0, kCopy, kTile, 16, 10);
            events.sync();
            events.sync();
            events.one(thread, kind, kTile + 4, 4, 30);
            events.one(2, kLoad, kTile + 16, 4, 40);
            const auto found = problems(events.finish(), ProblemKind::race);
            ASSERT_EQ(found.size(), 1u) << thread << " " << name(kind);
            EXPECT_EQ(found[0].other_access, kCopy);
            EXPECT_EQ(found[0].offset, 4);
            EXPECT_NE(found[0].text().find(thread == 0 ? "with no wait for the copy between"
                                                       : "with no wait for the copy and barrier between"),
                      std::string::npos)
                << found[0].text();
        }
    }
}

// A copy that nobody waits for harms nobody who leaves its target alone; the next block has no part in it.
TEST(RaceCopy, ACopyThatNobodyWaitsFor) {
    AccessEvents events(64, AccessEvents::options("sm_90a"), {2, 1, 1});
    events.one(0, kCopy, kTile, 16, 10);
    events.recorder.end_block();
    ASSERT_TRUE(events.recorder.begin_block({1, 0, 0}));
    events.one(0, kStore, kTile, 4, 20);
    events.one(0, kLoad, kTile, 4, 30);
    EXPECT_TRUE(events.finish().problems.empty());
}

TEST(RaceCopy, ABarrierInMemoryThatIsNotInitialisedYet) {
    for (const bool in_order : {false, true}) {
        AccessEvents events(64);
        events.one(0, AccessKind::barrier_init, kTile, 8, 10);
        if (in_order) events.sync();
        for (const unsigned thread : {0u, 1u, 2u}) {
            events.one(thread, AccessKind::barrier_use, kTile, 8, 20);
            events.recorder.release(thread, kObject);
        }
        const Recording recording = events.finish();
        EXPECT_EQ(problems(recording, ProblemKind::race).size(), in_order ? 0u : 1u);
        EXPECT_TRUE(recording.shared.empty()) << "they cost nothing";
    }
}

TEST(Bounds, ABoxThatArrivesIsWritten) {
    AccessEvents events(64);
    events.one(1, AccessKind::bulk_arrival, kTile, 256, 10);
    events.recorder.acquire(1, kObject);
    events.recorder.acquire(2, kObject);
    events.one(1, kLoad, kTile + 128, 4, 20);
    events.one(2, kLoad, kTile + 252, 4, 20);
    EXPECT_TRUE(events.finish().problems.empty());
}

TEST(Bounds, AShuffleOfALaneThatDoesNotTakePart) {
    AccessEvents events(48);
    events.one(40, AccessKind::idle_lane, 17, 4, 10);
    const auto found = problems(events.finish(), ProblemKind::uninitialised);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].text().find("shuffle by thread 40 reads lane 17, which does not take part"),
              std::string::npos)
        << found[0].text();
}

// It is told before the access, which may end the process: no barrier will come.
TEST(Bounds, AMisalignedVectorIsReportedAtOnce) {
    AccessEvents events(32);
    std::vector<std::string> texts;
    events.recorder.report_problems([&](const AccessProblem& problem) { texts.push_back(problem.text()); });
    events.one(3, kLoad, kBuffer + 16, 16);
    EXPECT_TRUE(texts.empty());
    events.one(4, kLoad, kBuffer + 36, 16);
    ASSERT_EQ(texts.size(), 1u);
    EXPECT_NE(texts[0].find("16 bytes by thread 4 at offset 36 of a, which is not a multiple"),
              std::string::npos)
        << texts[0];
}

}  // namespace
}  // namespace kiln::test
