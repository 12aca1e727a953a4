// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of benchmarks on the host: what a stop, a failure and a comparator that is missing leave, what is verified, and
// how launches of several libraries alternate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/tools/bench.h>

#include <chrono>
#include <thread>

#include "base/process.h"
#include "bench/comparator_run.h"
#include "bench/suites.h"
#include "bench_rows.h"
#include "fake_torch.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using test::FakeTorch;
using test::kTorchLimit;
using test::row_with;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// On the host, with a cache of its own.
class BenchRun : public ::testing::Test {
  protected:
    BenchRun() {
        options_.service.backend = Backend::host;
        options_.service.cache.directory = folder_.path() / "cache";
        options_.service.template_directories = {folder_.path()};
        options_.quick = true;
    }
    /// In place of the one that is shipped.
    void add_template(const std::string& name, const std::string& text) const {
        write_text(folder_.path() / (name + ".cu"), text);
    }

    /// In its place one that has no variant.
    void refuse(const std::string& name) const {
        add_template(name, "// " + name + ": for tests.\n//\n//@ kernel " + name +
                               "\n//@ param N int in 1, 2 = 1\n//@ require N == 3 \"never\"\n//@ block 32\n"
                               "//@ grid 1\n#include \"kiln/device.h\"\n\nextern \"C\" __global__ void " +
                               name + "(int n) {}\n");
    }
    /// The text of a template that is shipped, with one thing changed.
    static std::string changed(const std::string& name, const std::string& old, const std::string& by) {
        const std::filesystem::path root = std::getenv("KILN_TEST_SOURCE_DIR");
        std::string text = read_text_if_exists(root / "kernels_src" / (name + ".cu")).value_or("");
        const std::size_t at = text.find(old);
        EXPECT_NE(at, std::string::npos) << name << " has changed";
        return at == std::string::npos ? text : text.replace(at, old.size(), by);
    }

    TemporaryDirectory folder_;
    BenchOptions options_;
};

TEST_F(BenchRun, AStopKeepsTheRowsBeforeIt) {
    std::stop_source source;
    options_.suites = {"skinny", "gemm-f32"};
    options_.stop = source.get_token();
    options_.on_row = [&](const BenchReport& so_far) {
        EXPECT_EQ(so_far.suites.at(0).rows.size(), 1U);
        source.request_stop();
    };
    const BenchReport report = run_bench(options_);
    EXPECT_TRUE(report.interrupted);
    ASSERT_EQ(report.suites.size(), 1U);
    ASSERT_EQ(report.suites[0].rows.size(), 1U);
    EXPECT_EQ(report.suites[0].rows[0].verified, true);
    EXPECT_GT(report.suites[0].seconds, 0);
}

TEST_F(BenchRun, ASuiteThatFailsLeavesTheOthers) {
    options_.suites = {"host", "skinny"};
    options_.child = {"/bin/false"};
    const BenchReport report = run_bench(options_);
    ASSERT_EQ(report.suites.size(), 2U);
    EXPECT_THAT(report.suites[0].failures, ElementsAre(HasSubstr("the measuring process 'host'")));
    EXPECT_EQ(report.suites[1].rows.at(0).verified, true);
    EXPECT_FALSE(report.pass());
    EXPECT_FALSE(report.interrupted);
}

TEST_F(BenchRun, WhatFailedInAnotherSuiteOrIsNotMeasuredAgainStays) {
    for (const char* name : {"decode_mma", "decode_persistent", "decode_paged"}) refuse(name);
    options_.suites = {"decode", "host"};
    options_.child = {"/bin/false"};
    const BenchReport failed = run_bench(options_);
    options_.before = failed;
    options_.suites = {"skinny"};
    const BenchReport other = run_bench(options_);
    ASSERT_EQ(other.suites.size(), 3U);
    EXPECT_EQ(other.suites[0].rows.at(0).failures.size(), 1U);
    EXPECT_EQ(other.suites[1].failures.size(), 1U);
    EXPECT_FALSE(other.pass());
    // Also where a run that would measure them is stopped before.
    std::stop_source stop;
    options_.before = other;
    options_.suites = {"gemm-f32", "decode", "host"};
    options_.stop = stop.get_token();
    options_.on_row = [&](const BenchReport&) { stop.request_stop(); };
    const BenchReport stopped = run_bench(options_);
    EXPECT_TRUE(stopped.interrupted);
    EXPECT_EQ(stopped.suites[0].rows.at(0).failures.size(), 1U);
    EXPECT_THAT(stopped.suites[1].failures, ElementsAre(HasSubstr("host.gemm: the measuring process")));
    options_.stop = {};
    options_.on_row = nullptr;
    // What is left out is named, and nothing is added where nothing is left to do.
    options_.before = other;
    options_.suites = {"decode", "skinny"};
    options_.part_limit = std::chrono::seconds(0);
    const BenchReport left = run_bench(options_);
    EXPECT_THAT(left.missing(), ::testing::Contains(HasSubstr("decode.")));
    options_.part_limit = std::chrono::seconds(480);
    // Until they are measured again.
    for (const char* name : {"decode_mma", "decode_persistent", "decode_paged"})
        std::filesystem::remove(folder_.path() / (std::string(name) + ".cu"));
    options_.before = other;
    options_.suites = {"decode"};
    const BenchReport again = run_bench(options_);
    ASSERT_EQ(again.suites.at(0).rows.size(), 1U);
    EXPECT_EQ(again.suites[0].rows[0].verified, true);
    EXPECT_EQ(again.suites[0].rows[0].run, again.runs.back().id);
    EXPECT_FALSE(again.pass()) << "the other one still failed";
    options_.before = again;
    EXPECT_EQ(run_bench(options_).parts.size(), again.parts.size()) << "nothing is left to do";
}

TEST_F(BenchRun, AProblemThatNoTemplateTakesIsAFailureOfItsRow) {
    for (const char* name : {"decode_mma", "decode_persistent", "decode_paged"}) refuse(name);
    options_.suites = {"decode"};
    const BenchReport report = run_bench(options_);
    EXPECT_THAT(report.suites.at(0).failures, ::testing::IsEmpty());
    ASSERT_EQ(report.suites[0].rows.size(), 1U);
    EXPECT_EQ(report.suites[0].rows[0].failures.size(), 1U);
}

// A kernel that is right where nobody has written its output, and wrong when it follows itself.
TEST_F(BenchRun, ChainsAreVerifiedAsTheyAreTimed) {
    for (const char* name : {"gemm_wgmma", "gemm_wgmma_any", "gemm_mma", "gemm_tiled", "layer_norm"})
        refuse(name);
    add_template("decode_paged",
                 changed("decode_paged",
                         "    const int length = lengths[sequence];\n    T* const out = o + item * "
                         "(GQA_GROUP * HEAD_DIM);\n",
                         "    T* const out = o + item * (GQA_GROUP * HEAD_DIM);\n"
                         "    const bool again = float(out[0]) == float(out[0]);\n"
                         "    const int length = again ? lengths[sequence] / 2 : lengths[sequence];\n"));
    options_.suites = {"graphs"};
    const BenchReport report = run_bench(options_);
    const BenchRow& row = report.suites.at(0).rows.back();
    ASSERT_THAT(row.problem, HasSubstr("launches of decode_paged"));
    EXPECT_EQ(row.verified, false);
    EXPECT_THAT(row.failures, ElementsAre(HasSubstr("one by one: Kiln's o is wrong"),
                                          HasSubstr("as a graph: Kiln's o is wrong")));
    EXPECT_TRUE(row.kiln) << "it is timed nevertheless";
}

TEST_F(BenchRun, WhatWasTimedIsVerifiedToo) {
    for (const char* name : {"decode_mma", "decode_persistent"}) refuse(name);
    add_template("decode_paged",
                 changed("decode_paged",
                         "    const int length = lengths[sequence];\n    T* const out = o + item * "
                         "(GQA_GROUP * HEAD_DIM);\n",
                         "    T* const out = o + item * (GQA_GROUP * HEAD_DIM);\n"
                         "    const bool again = float(out[0]) == float(out[0]);\n"
                         "    const int length = again ? lengths[sequence] / 2 : lengths[sequence];\n"));
    options_.suites = {"decode"};
    const BenchReport report = run_bench(options_);
    const BenchRow& row = report.suites.at(0).rows.at(0);
    EXPECT_EQ(row.verified, false);
    EXPECT_THAT(row.failures, ElementsAre(HasSubstr("after the timed launches")));
}

// A kernel that is wrong where queries are as large as no random ones.
TEST_F(BenchRun, IsVerifiedOnInputsThatHideNothing) {
    for (const char* name : {"decode_mma", "decode_persistent"}) refuse(name);
    add_template(
        "decode_paged",
        changed("decode_paged", "    const int length = lengths[sequence];\n",
                "    const float first = float(q[item * (GQA_GROUP * HEAD_DIM)]);\n"
                "    const int length = first * first > 9 ? lengths[sequence] / 2 : lengths[sequence];\n"));
    options_.suites = {"decode"};
    const BenchReport report = run_bench(options_);
    const BenchRow& row = report.suites.at(0).rows.at(0);
    EXPECT_EQ(row.verified, false);
    EXPECT_THAT(row.failures, ElementsAre(HasSubstr("make each contribution visible")));
}

// Behind the kernel that makes caches cold it would have a head start.
TEST_F(BenchRun, NoVariantThatBeginsEarlyIsTimedAlone) {
    add_template("layer_norm", changed("layer_norm", "PDL        bool = false", "PDL        bool = true"));
    bench::Benchmark benchmark(options_);
    const Variant variant = benchmark.choose({"layer_norm"}, {}, {{"rows", 3}, {"cols", 64}}).variant;
    ASSERT_THAT(benchmark.service().find("layer_norm").variant().text(), HasSubstr("PDL=true"));
    EXPECT_THAT(variant.text(), HasSubstr("PDL=false"));
    EXPECT_THAT(bench::with_overlap(variant, true).text(), HasSubstr("PDL=true"));
}

TEST_F(BenchRun, AWisdomFileThatCantBeUsedIsReported) {
    const std::filesystem::path file = folder_.path() / "wisdom.txt";
    write_text(file, "no wisdom at all\n");
    const test::ScopedVariable wisdom("KILN_WISDOM", file.string());
    std::string told;
    options_.service.on_warning = [&](std::string_view text) { told += text; };
    bench::Benchmark(options_).choose({"layer_norm"}, {}, {{"rows", 3}, {"cols", 64}});
    EXPECT_THAT(told, HasSubstr("wisdom.txt"));
}

TEST_F(BenchRun, ANamedComparatorThatALateSuiteLacksIsReportedBeforeAnythingIsMeasured) {
    options_.suites = {"skinny", "memory"};
    options_.compare = {{"cub"}};
    int phases = 0;
    options_.on_phase = [&](std::string_view, std::string_view) { ++phases; };
    try {
        run_bench(options_);
        FAIL() << "nothing was thrown";
    } catch (const UsageError& error) {
        EXPECT_STREQ(error.what(), "--compare cub: it needs a CUDA device");
    }
    EXPECT_EQ(phases, 0);
}

TEST_F(BenchRun, AComparatorThatFailsLeavesKilnsFigures) {
    bench::Benchmark benchmark(options_);
    BenchRow row = row_with(1, {});
    const Sizes sizes = {{"rows", 3}, {"cols", 32}};
    bench::ComparatorRun run(benchmark, row, benchmark.choose({"transpose_tiled"}, {}, sizes), sizes);
    const GuardedTensor& result = run.result_like("out");
    run.add("a library", "", [] { throw DeviceError("it can't do that", "call", 1); }, result, {});
    run.add("nothing", "", [] {}, result, {});
    run.time();
    EXPECT_THAT(row.notes, ElementsAre(HasSubstr("a library failed: it can't do that")));
    EXPECT_EQ(row.verified, true);
    ASSERT_EQ(row.comparisons.size(), 1U);
    EXPECT_EQ(row.comparisons[0].verified, false);
    EXPECT_THAT(row.failures, ElementsAre(HasSubstr("nothing's out is wrong")));
}

TEST_F(BenchRun, AComparatorThatTurnsOutToBeMissingIsANoteOrWhereItWasNamedAFailure) {
    BenchSuite suite;
    bench::Benchmark(options_).missing(suite, "cub", "nvcc failed");
    EXPECT_THAT(suite.notes, ElementsAre("cub is not compared with: nvcc failed"));
    EXPECT_THAT(suite.failures, ::testing::IsEmpty());
    options_.compare = {{"cub"}};
    bench::Benchmark(options_).missing(suite, "cub", "nvcc failed");
    EXPECT_THAT(suite.failures, ElementsAre("cub is not compared with: nvcc failed"));
}

// The better of several is what Kiln is held to.
TEST_F(BenchRun, OfSeveralWaysTheFastestIsComparedWith) {
    bench::Benchmark benchmark(options_);
    BenchRow row = row_with(1, {});
    const Sizes sizes = {{"rows", 3}, {"cols", 32}};
    bench::ComparatorRun run(benchmark, row, benchmark.choose({"transpose_tiled"}, {}, sizes), sizes);
    const auto sleeping = [](int ms) {
        return [ms] { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
    };
    run.add_verified("slow", "", sleeping(20), true, {});
    run.add_verified("fast", "by luck", sleeping(5), true, {});
    run.add_verified("other", "", sleeping(1), true, {});
    run.join("both", {"slow", "fast"}, {0.5, 2.0});
    run.time();
    ASSERT_EQ(row.comparisons.size(), 3U);
    EXPECT_EQ(row.comparisons[0].with, "both");
    EXPECT_EQ(row.comparisons[0].detail, "fast, by luck");
    EXPECT_EQ(row.comparisons[0].must, 0.5);
    EXPECT_EQ(row.comparisons[1].with, "slow");
    EXPECT_EQ(row.comparisons[1].must, std::nullopt);
    EXPECT_EQ(row.comparisons[2].with, "other");
}

TEST_F(BenchRun, PyTorchsLaunchesAlternateWithKilnsByRounds) {
    const FakeTorch fake;
    bench::TorchProcess torch(fake.setup(), kTorchLimit);
    KILN_REQUIRE_OR_SKIP("python3", torch.problem().empty(), torch.problem());
    bench::Benchmark benchmark(options_);
    BenchRow row = row_with(1, {});
    const Sizes sizes = {{"rows", 3}, {"cols", 32}};
    bench::ComparatorRun run(benchmark, row, benchmark.choose({"transpose_tiled"}, {}, sizes), sizes);
    run.add_torch(torch, "copy 16", {{"torch copy", {0.1, {}}}});
    run.time();
    ASSERT_EQ(row.comparisons.size(), 1U);
    EXPECT_EQ(row.comparisons[0].with, "torch copy");
    EXPECT_EQ(row.comparisons[0].must, 0.1);
    EXPECT_EQ(row.comparisons[0].time->median, 500);
    EXPECT_EQ(row.comparisons[0].time->count, 12) << "4 rounds of 3";
    EXPECT_EQ(row.kiln->count, 12);
    EXPECT_THAT(row.notes, ::testing::IsEmpty());
}

TEST_F(BenchRun, APartWhoseTimeIsUpReportsWhatItLacksAndALaterRunAddsIt) {
    options_.suites = {"skinny.4096", "gemm-mma.small", "gemm-mma.large"};
    options_.part_limit = std::chrono::seconds(0);
    const BenchReport none = run_bench(options_);
    ASSERT_EQ(none.parts.size(), 3U);
    EXPECT_EQ(none.parts[1].name, "gemm-mma.small");
    EXPECT_THAT(none.parts[1].missing, ElementsAre("half 33 x 40 x 24"));
    EXPECT_THAT(none.missing(), ::testing::Contains("skinny.4096: half 1 x 40 x 72"));
    EXPECT_THAT(none.missing(), ::testing::Contains("memory.softmax"));
    EXPECT_THAT(none.missing(), Not(::testing::Contains("gemm-mma.large"))) << "it has no problem here";

    options_.part_limit = std::chrono::seconds(480);
    options_.suites = {"skinny"};
    options_.before = none;
    const BenchReport some = run_bench(options_);
    EXPECT_THAT(some.missing(), Not(::testing::Contains("skinny.4096: half 1 x 40 x 72")));
    EXPECT_THAT(some.missing(), ::testing::Contains("gemm-mma.small: half 33 x 40 x 24"));

    options_.suites = {"skinny", "gemm-mma"};
    options_.before = some;
    int rows = 0;
    options_.on_phase = [&](std::string_view suite, std::string_view what) {
        EXPECT_EQ(suite, "gemm-mma") << "skinny is there";
        rows += what == "half 33 x 40 x 24";
    };
    const BenchReport all = run_bench(options_);
    EXPECT_EQ(rows, 1);
    EXPECT_EQ(all.runs.size(), 3U);
    const BenchRow& first = all.suites.at(0).rows.at(0);
    const BenchRow& second = all.suites.at(1).rows.at(0);
    EXPECT_NE(first.run, second.run);
    EXPECT_EQ(first.part, "4096");
    EXPECT_EQ(first.sizes, (Sizes{{"m", 1}, {"n", 40}, {"k", 72}}));
    for (const auto& run : all.runs) {
        EXPECT_THAT(run.date, ::testing::MatchesRegex("....-..-..T..:..:..Z"));
        EXPECT_THAT(run.machine, HasSubstr(" x "));
    }
}

}  // namespace
}  // namespace kiln
