// SPDX-License-Identifier: Apache-2.0
//
// PyTorch as a comparator: what it is asked for, what it answers, and what is said where it is not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
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

TEST(BenchTorch, IsTimedBehindACacheThatWasReadAndWithoutItsHost) {
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
    EXPECT_THAT(result.error,
                HasSubstr("hold\nread zeros\nevent\ncopy\nevent\nhold\nread zeros\nevent\ncopy\nevent\n"))
        << "each call is queued while the device is held";
    EXPECT_THAT(result.error, Not(HasSubstr("unknown")));
}

TEST(BenchTorch, AnswersWheneverItIsAsked) {
    const FakeTorch fake;
    bench::TorchProcess torch(fake.setup(), kTorchLimit);
    KILN_REQUIRE_OR_SKIP("python3", torch.problem().empty(), torch.problem());
    EXPECT_EQ(torch.versions().at("PyTorch"), "0");
    for (int round = 0; round < 2; ++round) {
        const std::vector<bench::TorchImplementation> ways = torch.prepare("copy 16", kTorchLimit);
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

/// Arithmetic on lists of rows, for what the script computes on its own. error: of F.rms_norm
std::string with_arithmetic(double error) {
    return R"(
import math
class Tensor:
    name = "x"
    def __init__(self, rows): self.rows = rows
    def with_other(self, other, of):
        rows = other.rows if isinstance(other, Tensor) else [[other]]
        at = lambda i, j: rows[i % len(rows)][j % len(rows[i % len(rows)])]
        return Tensor([[of(x, at(i, j)) for j, x in enumerate(row)] for i, row in enumerate(self.rows)])
    def each(self, of): return Tensor([[of(x) for x in row] for row in self.rows])
    def __add__(self, other): return self.with_other(other, lambda x, y: x + y)
    def __sub__(self, other): return self.with_other(other, lambda x, y: x - y)
    def __mul__(self, other): return self.with_other(other, lambda x, y: x * y)
    def __truediv__(self, other): return self.with_other(other, lambda x, y: x / y)
    def __le__(self, other): return self.with_other(other, lambda x, y: x <= y)
    def __getitem__(self, rows): return Tensor(self.rows[rows])
    def to(self, dtype): return self
    def double(self): return self
    def abs(self): return self.each(abs)
    def square(self): return self.each(lambda x: x * x)
    def sqrt(self): return self.each(math.sqrt)
    def mean(self, dim, keepdim): return Tensor([[math.fsum(row) / len(row)] for row in self.rows])
    def all(self): return all(all(row) for row in self.rows)
drawn = []
def rand(*shape, **_):
    drawn.append(shape)
    rows, cols = shape if len(shape) == 2 else (1, shape[0])
    return Tensor([[(37 * i + 11 * j + 5 * len(drawn)) % 19 / 19 for j in range(cols)] for i in range(rows)])
def rms_norm(x, shape, weight, eps):
    return x / (x.square().mean(1, True) + eps).sqrt() * weight + )" +
           std::to_string(error) + R"(
isfinite = lambda x: x.each(math.isfinite)
compile = lambda function, dynamic: function
import torch._dynamo, torch.nn.functional
torch.nn.functional.rms_norm = rms_norm
)";
}

TEST(BenchTorch, NormalisesTheSumWithAResidual) {
    for (const double error : {0.0, 0.1}) {
        const FakeTorch fake(with_arithmetic(error));
        bench::TorchProcess torch(fake.setup(), kTorchLimit);
        KILN_REQUIRE_OR_SKIP("python3", torch.problem().empty(), torch.problem());
        for (const char* problem :
             {"rms_norm 5 17 half 0", "rms_norm 5 17 bfloat16 1", "rms_norm 2 3 float 1"}) {
            const std::vector<bench::TorchImplementation> ways = torch.prepare(problem, kTorchLimit);
            ASSERT_EQ(ways.size(), 2U) << problem;
            EXPECT_EQ(ways[0].name, "eager");
            EXPECT_EQ(ways[1].name, "torch.compile");
            for (const bench::TorchImplementation& way : ways) {
                EXPECT_EQ(way.error, "") << problem;
                EXPECT_EQ(way.right, error == 0) << problem;
            }
            EXPECT_EQ(torch.times_us(1, 2, kTorchLimit).size(), 2U);
        }
    }
}

TEST(BenchTorch, CompilesSeveralProblemsInProcessesOfTheirOwn) {
    const TemporaryDirectory folder;
    const std::filesystem::path log = folder.path() / "log";
    // Each process says which tensors it drew, so which problems it prepared, and how much it flushes.
    const FakeTorch fake(R"(
import os
def note(what):
    with open(")" + log.string() +
                         R"(", "a") as file: file.write("%s %d\n" % (what, os.getpid()))
def randint(low, high, shape, **_):
    note("drew %d" % shape[0])
    return Tensor("x")
def zeros(*shape, **_):
    if shape[0] != (): note("flushes %d" % shape[0])
    return Tensor("zeros")
)");
    bench::TorchSetup setup = fake.setup();
    setup.flush_bytes = 4096;
    bench::TorchProcess torch(std::move(setup), kTorchLimit);
    KILN_REQUIRE_OR_SKIP("python3", torch.problem().empty(), torch.problem());
    torch.compile_ahead({"copy 16", "no_such_problem 1", "copy 17"}, kTorchLimit);
    torch.compile_ahead({}, kTorchLimit);
    EXPECT_EQ(torch.prepare("copy 16", kTorchLimit).size(), 1U) << "it goes on";

    std::map<std::string, std::set<std::string>> drawn;
    std::multiset<std::string> flushed;
    std::istringstream lines(read_text_if_exists(log).value_or(""));
    for (std::string what, size, process; lines >> what >> size >> process;) {
        if (what == "drew") drawn[size].insert(process);
        if (what == "flushes") flushed.insert(size);
    }
    EXPECT_EQ(drawn["16"].size(), 2U) << "by the process that compiles, then by the one that is timed";
    ASSERT_EQ(drawn["17"].size(), 1U);
    EXPECT_FALSE(drawn["16"].contains(*drawn["17"].begin())) << "each in a process of its own";
    EXPECT_EQ(flushed, (std::multiset<std::string>{"1", "1", "1", "1024"}));
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
