// SPDX-License-Identifier: Apache-2.0
//
// What is made of measurements: spreads, what must hold, geometric means, PyTorch's lines, pictures; names of suites
// and comparators that there are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/bench.h>
#include <kiln/error.h>

#include "base/process.h"
#include "bench/contest.h"
#include "bench/helper/sources.h"
#include "bench/suites.h"
#include "bench/torch.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BenchRow row_with(double median, const std::vector<BenchComparison>& comparisons) {
    BenchRow row;
    row.problem = "a problem";
    row.unit = "us";
    row.kiln = BenchSpread{median, median, median, 1};
    row.comparisons = comparisons;
    return row;
}

BenchComparison ratio_to(const std::string& with, double ratio, std::optional<double> must = {},
                         std::optional<double> aim = {}) {
    BenchComparison one;
    one.with = with;
    one.ratio = ratio;
    one.must = must;
    one.aim = aim;
    return one;
}

TEST(BenchSpread, HasTheMedianOfAnyNumberOfSamples) {
    EXPECT_EQ(spread_of({3, 1, 2}).median, 2);
    EXPECT_EQ(spread_of({4, 1, 2, 10}).median, 3);
    EXPECT_EQ(spread_of({4, 1, 2, 10}).min, 1);
    EXPECT_EQ(spread_of({4, 1, 2, 10}).max, 10);
    EXPECT_EQ(spread_of({7}).count, 1);
}

TEST(BenchRow, MeetsWhatEachComparisonMust) {
    EXPECT_EQ(row_with(1, {ratio_to("x", 0.1)}).meets_must(), std::nullopt);
    EXPECT_EQ(row_with(1, {ratio_to("x", 0.9, 0.9, 1.1)}).meets_must(), true);
    EXPECT_EQ(row_with(1, {ratio_to("x", 0.9, 0.9, 1.1)}).meets_aim(), false);
    EXPECT_EQ(row_with(1, {ratio_to("x", 2, 1), ratio_to("y", 0.89, 0.9)}).meets_must(), false);
}

TEST(BenchRow, StaysWithinAnAbsoluteLimit) {
    BenchRow row = row_with(1.4, {});
    row.most_must = 1.5;
    row.most_aim = 0.8;
    EXPECT_EQ(row.meets_must(), true);
    EXPECT_EQ(row.meets_aim(), false);
    row.most_must = 1.3;
    EXPECT_EQ(row.meets_must(), false);
}

TEST(BenchReport, TellsWhatIsMissedAndWhatIsWrong) {
    BenchReport report;
    BenchSuite suite;
    suite.name = "memory";
    suite.rows = {row_with(1, {ratio_to("CUB", 0.5, 1.0), ratio_to("copy", 0.95, 0.93)})};
    suite.means = {{"CUB", 0.5, 0.5, 1, 1.0, 1.02}};
    report.suites = {suite};
    EXPECT_THAT(report.missed(), ElementsAre("memory: a problem: 0.5 of CUB, and it must be 1",
                                             "memory: geometric mean 0.5 of CUB, and it must be 1"));
    EXPECT_TRUE(report.pass()) << "slow is not wrong";
    report.suites[0].rows[0].comparisons[0].verified = false;
    EXPECT_FALSE(report.pass()) << "the comparator's result counts too";
    report.suites[0].rows[0].comparisons[0].verified = true;
    EXPECT_TRUE(report.pass());
    report.suites[0].rows[0].failures = {"it failed"};
    EXPECT_FALSE(report.pass());
}

TEST(BenchMean, IsGeometricOverTheRowsThatHaveTheComparator) {
    BenchSuite suite;
    suite.rows = {row_with(1, {ratio_to("x", 0.5), ratio_to("y", 7)}), row_with(1, {}),
                  row_with(1, {ratio_to("x", 2)})};
    bench::add_mean(suite, "x", 0.95, 1.05);
    bench::add_mean(suite, "nobody");
    ASSERT_EQ(suite.means.size(), 1U);
    EXPECT_DOUBLE_EQ(suite.means[0].ratio, 1);
    EXPECT_EQ(suite.means[0].least, 0.5);
    EXPECT_EQ(suite.means[0].rows, 2);
    EXPECT_EQ(suite.means[0].must, 0.95);
}

TEST(BenchTorch, LinesBecomeFigures) {
    std::string version, unavailable;
    const bench::TorchFigures figures = bench::parse_torch(
        "PyTorch 2.11.0, CUDA 13.0\n"
        "softmax 3 4\ttorch\t1.5\t2.25\t3.5\t11\tRIGHT\tsoftmax\n"
        "attention 1 2 3 64 0\tcuDNN\t1\t2\t3\t5\tWRONG\tcuDNN 91000\n"
        "attention 1 2 3 64 0\tFlashAttention\terror\tno such kernel\n"
        "cut short\ttorch\t1\t2\n",
        version, unavailable);
    EXPECT_EQ(version, "PyTorch 2.11.0, CUDA 13.0");
    EXPECT_EQ(unavailable, "");
    const bench::TorchFigure& softmax = figures.by_problem.at("softmax 3 4").at(0);
    EXPECT_EQ(softmax.us.median, 2.25);
    EXPECT_EQ(softmax.us.count, 11);
    EXPECT_TRUE(softmax.right);
    const std::vector<bench::TorchFigure>& attention = figures.by_problem.at("attention 1 2 3 64 0");
    ASSERT_EQ(attention.size(), 2U);
    EXPECT_FALSE(attention[0].right);
    EXPECT_EQ(attention[1].error, "no such kernel");
    EXPECT_THAT(figures.by_problem.at("cut short").at(0).error, HasSubstr("cut short"));
}

TEST(BenchTorch, AFigureOfItsNameIsHeldToTheAimAndAnErrorIsANote) {
    std::string version, unavailable;
    const bench::TorchFigures figures = bench::parse_torch(
        "p\tcuDNN\t1\t2\t3\t5\tRIGHT\t\np\tFlashAttention\t1\t4\t5\t5\tRIGHT\t\np\tthird\terror\tout of "
        "memory\n",
        version, unavailable);
    BenchRow row = row_with(2, {});
    bench::add_torch(row, figures, "p", "cuDNN", 0.75, 1.05);
    bench::add_torch(row, figures, "another problem", "cuDNN", 0.75, 1.05);
    ASSERT_EQ(row.comparisons.size(), 2U);
    EXPECT_EQ(row.comparisons[0].ratio, 1);
    EXPECT_EQ(row.comparisons[0].must, 0.75);
    EXPECT_EQ(row.comparisons[1].ratio, 2);
    EXPECT_EQ(row.comparisons[1].must, std::nullopt);
    EXPECT_THAT(row.notes, ElementsAre("third failed: out of memory"));
    EXPECT_THAT(row.failures, ::testing::IsEmpty()) << "it is not Kiln that failed";
}

TEST(BenchTorch, SaysWhyItIsNotThere) {
    std::string version, unavailable;
    const bench::TorchFigures figures =
        bench::parse_torch("unavailable\tNo module named 'torch'\n", version, unavailable);
    EXPECT_EQ(unavailable, "No module named 'torch'");
    EXPECT_TRUE(figures.by_problem.empty());
}

/// A stand-in for PyTorch, which tells on standard error what is asked of the device, in order.
constexpr const char* kFakeTorch = R"(
import sys, types

def tell(*words):
    print(*words, file=sys.stderr)

class Tensor:
    def __init__(self, name):
        self.name = name
    def copy_(self, other):
        tell("copy")
        return self
    def __getattr__(self, what):  # any other call writes, for all that is known
        return lambda *_, **__: tell("unknown", what)

class Event:
    def __init__(self, **_):
        pass
    def record(self):
        tell("event")
    def elapsed_time(self, end):
        return 0.5

class Generator:
    def __init__(self, **_):
        pass
    def manual_seed(self, seed):
        pass

class no_grad:
    def __enter__(self):
        pass
    def __exit__(self, *_):
        pass

def zeros(*shape, **_):
    tell("zeros", *shape)
    return Tensor("zeros")

def sum(tensor, dim, out):
    tell("read", tensor.name)

float32, int32, float16 = "float32", "int32", "float16"
__version__ = "0"
version = types.SimpleNamespace(cuda="0")
device = lambda *_: None
randint = lambda *_, **__: Tensor("x")
empty_like = lambda _: Tensor("y")
equal = lambda *_: True
cuda = types.SimpleNamespace(is_available=lambda: True, set_device=lambda _: None, synchronize=lambda: None,
                             empty_cache=lambda: None, Event=Event,
                             get_device_properties=lambda _: types.SimpleNamespace(L2_cache_size=1 << 20))
)";

TEST(BenchTorch, IsTimedBehindACacheThatWasReadAndNotWritten) {
    const TemporaryDirectory directory;
    const auto torch = directory.path() / "torch";
    std::filesystem::create_directories(torch / "nn");
    write_text(torch / "__init__.py", kFakeTorch);
    write_text(torch / "nn/__init__.py", "");
    write_text(torch / "nn/functional.py", "");
    ProcessRequest request;
    request.arguments = {"python3", "-c", std::string(bench::kTorchBench), "0", "quick", "4096"};
    request.environment = {{"PYTHONPATH", directory.path().string()}};
    request.input = "copy 16\n";
    const ProcessResult result = run_process(request);
    KILN_REQUIRE_OR_SKIP("python3", result.started, result.start_error);
    ASSERT_TRUE(result.succeeded()) << result.error;
    EXPECT_THAT(result.output, HasSubstr("copy 16\ttorch copy\t500.0000\t500.0000\t500.0000\t"));
    EXPECT_THAT(result.error, HasSubstr("zeros 1024\n")) << "the bytes that Kiln reads";
    EXPECT_THAT(result.error, HasSubstr("read zeros\nevent\ncopy\nevent\nread zeros\nevent\ncopy\nevent\n"));
    EXPECT_THAT(result.error, Not(HasSubstr("unknown")));
}

TEST(BenchPicture, ShowsRowsComparatorsAndMeans) {
    BenchReport report;
    report.device = "NVIDIA <H200>";
    BenchSuite suite;
    suite.name = "skinny";
    suite.rows = {row_with(1, {ratio_to("cublasLt", 1.25, 1.2)}), row_with(1, {ratio_to("copy", 0.5)}),
                  row_with(1, {})};
    suite.rows[2].problem = "without a ratio";
    bench::add_mean(suite, "cublasLt");
    const std::string picture = bench_picture(report, suite);
    for (const char* text :
         {"<svg", "cublasLt", "copy", "1.25", "geometric mean to cublasLt 1.250", "&lt;H200&gt;"})
        EXPECT_THAT(picture, HasSubstr(text));
    EXPECT_THAT(picture, Not(HasSubstr("without a ratio")));
    suite.rows.clear();
    EXPECT_THAT(bench_picture(report, suite), HasSubstr("</svg>"));
}

TEST(BenchNames, ThatThereAreNotAreRefusedWithTheNearest) {
    const auto message = [](const std::vector<std::string>& suites,
                            const std::optional<std::vector<std::string>>& compare) -> std::string {
        BenchOptions options;
        options.service.backend = Backend::host;
        options.suites = suites;
        options.compare = compare;
        try {
            run_bench(options);
        } catch (const UsageError& error) {
            return error.what();
        }
        return "no error";
    };
    EXPECT_THAT(message({"gemm-f61"}, {}), HasSubstr("did you mean gemm-f16"));
    EXPECT_THAT(message({}, {}), HasSubstr("name a suite"));
    EXPECT_THAT(message({"jit"}, {{"cubals"}}), HasSubstr("did you mean cublas"));
}

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
    add_template(
        "decode_paged",
        changed("decode_paged",
                "    const int length = lengths[sequence];\n    T* const out = o + item * (GROUP * HEAD);\n",
                "    T* const out = o + item * (GROUP * HEAD);\n"
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

// Behind the kernel that makes caches cold it would have a head start.
TEST_F(BenchRun, NoVariantThatBeginsEarlyIsTimedAlone) {
    add_template("layer_norm", changed("layer_norm", "DEPENDENT bool = false", "DEPENDENT bool = true"));
    bench::Workbench workbench(options_);
    const Variant variant = workbench.choose({"layer_norm"}, {}, {{"rows", 3}, {"cols", 64}}).variant;
    ASSERT_THAT(workbench.service().find("layer_norm").variant().text(), HasSubstr("DEPENDENT=true"));
    EXPECT_THAT(variant.text(), HasSubstr("DEPENDENT=false"));
    EXPECT_THAT(bench::with_overlap(variant, true).text(), HasSubstr("DEPENDENT=true"));
}

TEST_F(BenchRun, AWisdomFileThatCantBeUsedIsTold) {
    const std::filesystem::path file = folder_.path() / "wisdom.txt";
    write_text(file, "no wisdom at all\n");
    const test::ScopedVariable wisdom("KILN_WISDOM", file.string());
    std::string told;
    options_.service.on_warning = [&](std::string_view text) { told += text; };
    bench::Workbench(options_).choose({"layer_norm"}, {}, {{"rows", 3}, {"cols", 64}});
    EXPECT_THAT(told, HasSubstr("wisdom.txt"));
}

TEST_F(BenchRun, ANamedComparatorThatALateSuiteLacksIsToldBeforeAnythingIsMeasured) {
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
    bench::Workbench workbench(options_);
    BenchRow row = row_with(1, {});
    const Sizes sizes = {{"rows", 3}, {"cols", 32}};
    bench::Contest contest(workbench, row, workbench.choose({"transpose_tiled"}, {}, sizes), sizes);
    const GuardedTensor& result = contest.result_like("out");
    contest.add("a library", "", [] { throw DeviceError("it can't do that", "call", 1); }, result, {});
    contest.add("nothing", "", [] {}, result, {});
    contest.time();
    EXPECT_THAT(row.notes, ElementsAre(HasSubstr("a library failed: it can't do that")));
    EXPECT_EQ(row.verified, true);
    ASSERT_EQ(row.comparisons.size(), 1U);
    EXPECT_EQ(row.comparisons[0].verified, false);
    EXPECT_THAT(row.failures, ElementsAre(HasSubstr("nothing's out is wrong")));
}

TEST_F(BenchRun, AComparatorThatTurnsOutToBeMissingIsANoteOrWhereItWasNamedAFailure) {
    BenchSuite suite;
    bench::Workbench(options_).missing(suite, "cub", "nvcc failed");
    EXPECT_THAT(suite.notes, ElementsAre("cub is not compared with: nvcc failed"));
    EXPECT_THAT(suite.failures, ::testing::IsEmpty());
    options_.compare = {{"cub"}};
    bench::Workbench(options_).missing(suite, "cub", "nvcc failed");
    EXPECT_THAT(suite.failures, ElementsAre("cub is not compared with: nvcc failed"));
}

}  // namespace
}  // namespace kiln
