// SPDX-License-Identifier: Apache-2.0
//
// AccessRecorder against a recording that merges nothing, over random kernels: the same races, the same reads of what
// nobody wrote, the same accesses out of bounds, the same requests, wavefronts and sectors.
#include <gtest/gtest.h>
#include <kiln/tools/accesses.h>

#include "compare_recordings.h"
#include "random_program.h"

namespace kiln::test {
namespace {

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
