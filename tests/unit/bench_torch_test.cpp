// SPDX-License-Identifier: Apache-2.0
//
// PyTorch as a comparator: what it is asked for, what it answers, and what is said where it is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <chrono>

#include "base/process.h"
#include "bench/helper/sources.h"
#include "bench/torch.h"
#include "fake_torch.h"
#include "require.h"

namespace kiln {
namespace {

using test::FakeTorch;
using test::kTorchLimit;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchTorch, IsTimedBehindACacheThatWasReadAndNotWritten) {
    const FakeTorch fake;
    ProcessRequest request;
    request.arguments = {"python3", "-c", std::string(bench::kTorchBench), "0", "quick", "4096"};
    request.environment = {fake.variable()};
    request.input = "prepare copy 16\ntime 0 2\n";
    const ProcessResult result = run_process(request);
    KILN_REQUIRE_OR_SKIP("python3", result.started, result.start_error);
    ASSERT_TRUE(result.succeeded()) << result.error;
    EXPECT_EQ(result.output,
              "version\tPyTorch\t0\nversion\tPyTorch's CUDA\t0\nend\nway\ttorch copy\tRIGHT\t\nend\n"
              "times\t500.0000\t500.0000\nend\n");
    EXPECT_THAT(result.error, HasSubstr("zeros 1024\n")) << "the bytes that Kiln reads";
    EXPECT_THAT(result.error, HasSubstr("read zeros\nevent\ncopy\nevent\nread zeros\nevent\ncopy\nevent\n"));
    EXPECT_THAT(result.error, Not(HasSubstr("unknown")));
}

TEST(BenchTorch, AnswersWheneverItIsAsked) {
    const FakeTorch fake;
    bench::TorchProcess torch(fake.setup(), kTorchLimit);
    KILN_REQUIRE_OR_SKIP("python3", torch.problem().empty(), torch.problem());
    EXPECT_EQ(torch.versions().at("PyTorch"), "0");
    for (int round = 0; round < 2; ++round) {
        const std::vector<bench::TorchWay> ways = torch.prepare("copy 16", kTorchLimit);
        ASSERT_EQ(ways.size(), 1U);
        EXPECT_EQ(ways[0].name, "torch copy");
        EXPECT_TRUE(ways[0].right);
        EXPECT_EQ(ways[0].error, "");
        EXPECT_THAT(torch.times_us(0, 3, kTorchLimit), ElementsAre(500, 500, 500));
        EXPECT_THAT(torch.times_us(0, 1, kTorchLimit), ElementsAre(500));
    }
    EXPECT_THROW(torch.times_us(7, 1, kTorchLimit), Error);
    EXPECT_THAT(torch.prepare("no_such_problem 1", kTorchLimit).at(0).error, HasSubstr("no_such_problem"));
}

TEST(BenchTorch, SaysWhyItIsNotThere) {
    const FakeTorch blind("\ncuda.is_available = lambda: False\n");
    EXPECT_THAT(bench::TorchProcess(blind.setup(), kTorchLimit).problem(), HasSubstr("sees no CUDA device"));
    const FakeTorch broken("\nraise ImportError('it is\\nbroken')\n");
    EXPECT_EQ(bench::TorchProcess(broken.setup(), kTorchLimit).problem(), "it is broken");
    const FakeTorch ending("\nimport os\nos._exit(3)\n");
    EXPECT_THAT(bench::TorchProcess(ending.setup(), kTorchLimit).problem(),
                HasSubstr("exited with status 3"));
}

TEST(BenchTorch, AProblemThatEndsItLeavesTheOthers) {
    const FakeTorch fake(
        "\nimport os\ndef randint(low, high, shape, **_):\n    if shape[0] == 13: os._exit(3)\n    return "
        "Tensor('x')\n");
    bench::TorchProcess torch(fake.setup(), kTorchLimit);
    KILN_REQUIRE_OR_SKIP("python3", torch.problem().empty(), torch.problem());
    try {
        torch.prepare("copy 13", kTorchLimit);
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("exited with status 3"));
    }
    EXPECT_EQ(torch.prepare("copy 16", kTorchLimit).size(), 1U);
}

}  // namespace
}  // namespace kiln
