// SPDX-License-Identifier: Apache-2.0
//
// AccessRecorder against a recording that merges nothing, over random kernels: the same races, the same reads of what
// nobody wrote, the same accesses out of bounds, the same requests, wavefronts and sectors.
#include <gtest/gtest.h>
#include <kiln/accesses.h>

#include "plain_recording.h"
#include "random_program.h"

namespace kiln::test {
namespace {

/// Tells two observers the same.
class Both final : public AccessObserver {
  public:
    Both(AccessObserver& first, AccessObserver& second) : all_{&first, &second} {}
    void begin_launch(const ObservedLaunch& launch) override {
        for (auto* one : all_) one->begin_launch(launch);
    }
    bool begin_block(Dim3 index) override {
        bool run = true;
        for (auto* one : all_) run = one->begin_block(index) && run;
        return run;
    }
    void accesses(unsigned thread, std::span<const ObservedAccess> list) override {
        for (auto* one : all_) one->accesses(thread, list);
    }
    void bad_index(unsigned thread, const ObservedBadIndex& what) override {
        for (auto* one : all_) one->bad_index(thread, what);
    }
    void meeting(std::span<const unsigned> threads, bool whole_block) override {
        for (auto* one : all_) one->meeting(threads, whole_block);
    }
    void release(unsigned thread, std::uint64_t object) override {
        for (auto* one : all_) one->release(thread, object);
    }
    void acquire(unsigned thread, std::uint64_t object) override {
        for (auto* one : all_) one->acquire(thread, object);
    }
    void end_block() override {
        for (auto* one : all_) one->end_block();
    }
    void end_launch() override {
        for (auto* one : all_) one->end_launch();
    }

  private:
    std::array<AccessObserver*, 2> all_;
};

void expect_races(const Recording& recording, const PlainRecording& plain) {
    std::set<std::string> found;
    for (const AccessProblem& problem : recording.problems) {
        if (problem.kind != ProblemKind::race) continue;
        found.insert(problem.variable);
        EXPECT_TRUE(plain.has_race(problem.variable, static_cast<std::uint64_t>(problem.offset),
                                   problem.thread, problem.access, problem.other_thread,
                                   problem.other_access))
            << problem.text();
    }
    EXPECT_EQ(found, plain.racy);
}

void expect_uninitialised(const Recording& recording, const PlainRecording& plain) {
    std::set<std::string> found;
    for (const AccessProblem& problem : recording.problems) {
        if (problem.kind != ProblemKind::uninitialised) continue;
        found.insert(problem.variable);
        EXPECT_EQ(plain.may_be_empty.count(problem.variable), 1u) << problem.text();
    }
    for (const std::string& variable : plain.must_be_empty) EXPECT_EQ(found.count(variable), 1u) << variable;
}

void expect_bounds(const Recording& recording, const PlainRecording& plain) {
    std::map<std::string, std::uint64_t> found;
    for (const AccessProblem& problem : recording.problems)
        if (problem.kind == ProblemKind::out_of_bounds) found[problem.variable] += problem.count;
    EXPECT_EQ(found, plain.out_of_bounds);
}

void expect_costs(const Recording& recording, const PlainRecording& plain) {
    std::map<PlainRecording::Site, PlainRecording::Cost> found;
    for (const SharedSite& site : recording.shared) {
        if (site.kind == AccessKind::async_copy) continue;
        found[{site.kind, site.as_written.bytes, site.variable}] = {
            site.as_written.requests, site.as_written.wavefronts, site.as_written.ideal};
    }
    for (const GlobalSite& site : recording.global)
        found[{site.kind, site.bytes, ""}] = {site.requests, site.sectors, site.ideal};
    EXPECT_EQ(found.size(), plain.costs.size());
    const bool has_copies = std::ranges::any_of(
        recording.shared, [](const SharedSite& site) { return site.kind == AccessKind::async_copy; });
    for (const auto& [site, cost] : plain.costs) {
        // A load right before an asynchronous copy may be its source.
        if (has_copies && std::get<2>(site).empty()) continue;
        SCOPED_TRACE(std::string(name(std::get<0>(site))) + " of " + std::to_string(std::get<1>(site)) +
                     " bytes of " + std::get<2>(site));
        EXPECT_EQ(found[site].requests, cost.requests);
        EXPECT_EQ(found[site].units, cost.units);
        EXPECT_EQ(found[site].ideal, cost.ideal);
    }
}

class RecordingProperty : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordingProperty, EqualsAPlainRecording) {
    RecorderOptions options;
    options.banks = bank_model(GetParam());
    options.warp_size = options.banks.lanes;
    options.most_ms = 1e9;
    std::uint64_t racy = 0, empty = 0, beyond = 0, accesses = 0;
    const std::uint64_t programs = options.warp_size == 32 ? 600 : 150;
    for (std::uint64_t seed = 1; seed <= programs; ++seed) {
        SCOPED_TRACE("program " + std::to_string(seed));
        RandomProgram program(seed, static_cast<unsigned>(options.warp_size));
        AccessRecorder recorder(options);
        PlainRecording plain(options.banks);
        Both both(recorder, plain);
        program.run(both);
        const Recording recording = recorder.recording();
        if (recording.problems.size() == 100) continue;  // no more are kept
        expect_races(recording, plain);
        expect_uninitialised(recording, plain);
        expect_bounds(recording, plain);
        expect_costs(recording, plain);
        ASSERT_FALSE(::testing::Test::HasFailure());
        racy += !plain.racy.empty();
        empty += !plain.must_be_empty.empty();
        beyond += !plain.out_of_bounds.empty();
        accesses += plain.accesses_seen;
    }
    // Both kinds of programs are among them.
    for (const std::uint64_t some : {racy, empty, beyond}) {
        EXPECT_GT(some, programs / 20);
        EXPECT_LT(some, programs);
    }
    RecordProperty("accesses", std::to_string(accesses));
}

INSTANTIATE_TEST_SUITE_P(Warps, RecordingProperty, ::testing::Values("sm_90a", "gfx90a"),
                         [](const auto& arch) { return std::string(arch.param); });

}  // namespace
}  // namespace kiln::test
