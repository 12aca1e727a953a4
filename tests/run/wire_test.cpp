// SPDX-License-Identifier: Apache-2.0
//
// What is sent between processes comes back as it was, and bytes that are no message are rejected.
#include "run/wire.h"

#include <gtest/gtest.h>
#include <kiln/run.h>
#include <kiln/tools/accesses.h>

#include <limits>

namespace kiln {
namespace {

RunResult sample() {
    RunResult result;
    result.problem.sizes = {{"m", 3}, {"n", -4}};
    Tensor& tensor = result.problem.tensors.emplace_back();
    tensor.name = "x";
    tensor.extents = {3, 4};
    tensor.reference = "ref";
    tensor.exact = true;
    tensor.any_order = true;
    result.check = Check::sample;
    OutputCheck output;
    output.worst = std::numeric_limits<double>::infinity();
    output.first_wrong = OutputCheck::Wrong{{1, 2}, 1.5, 2.5, 0.25};
    output.contributions = Contributions{9, 8, "x", 7, 7.5};
    result.outputs_checked = {output, OutputCheck()};
    result.unstable = {"", "y"};
    result.dependent = {{"y", "scratch"}};
    result.time = TimeSummary{1, 2, 3, 4};
    result.build.registers = 7;
    result.outputs.emplace_back("y", std::vector<std::byte>{std::byte{1}, std::byte{255}});
    return result;
}

TEST(Wire, AResultComesBackAsItWas) {
    const std::string bytes = wire::written(sample());
    const auto back = wire::read<RunResult>(bytes);
    EXPECT_EQ(wire::written(back), bytes);
    EXPECT_EQ(back.problem.sizes, sample().problem.sizes);
    EXPECT_EQ(back.problem.tensors[0].reference, "ref");
    EXPECT_TRUE(back.problem.tensors[0].exact);
    EXPECT_TRUE(back.problem.tensors[0].any_order);
    EXPECT_EQ(back.check, Check::sample);
    EXPECT_EQ(back.outputs_checked[0].worst, std::numeric_limits<double>::infinity());
    EXPECT_EQ(back.outputs_checked[0].first_wrong->index, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(back.outputs_checked[0].contributions->input, "x");
    EXPECT_FALSE(back.outputs_checked[1].first_wrong.has_value());
    EXPECT_EQ(back.unstable, sample().unstable);
    EXPECT_EQ(back.dependent, sample().dependent);
    EXPECT_EQ(back.time->iterations, 4);
    EXPECT_FALSE(back.graph_time.has_value());
    EXPECT_EQ(back.build.registers, 7);
    EXPECT_EQ(back.outputs, sample().outputs);
}

TEST(Wire, ARecordingToo) {
    Recording recording;
    recording.shared.emplace_back().worst = {1, std::nullopt, 3};
    recording.global.emplace_back().place = {"a.cu", 4, "kiln/b.h:5"};
    recording.problems.emplace_back().count = 77;
    recording.elapsed_ms = 0.1;
    const auto back = wire::read<Recording>(wire::written(recording));
    EXPECT_EQ(back.shared[0].worst, recording.shared[0].worst);
    EXPECT_EQ(back.global[0].place, recording.global[0].place);
    EXPECT_EQ(back.problems[0].count, 77U);
    EXPECT_EQ(back.elapsed_ms, 0.1);
}

TEST(Wire, WhatIsCutShortOrTooLongIsRejected) {
    const std::string bytes = wire::written(sample());
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_THROW(wire::read<RunResult>(bytes.substr(0, size)), std::runtime_error) << size;
    EXPECT_THROW(wire::read<RunResult>(bytes + "x"), std::runtime_error);
}

}  // namespace
}  // namespace kiln
