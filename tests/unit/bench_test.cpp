// SPDX-License-Identifier: Apache-2.0
//
// What is made of measurements: spreads, what must hold, geometric means, PyTorch's lines, pictures; names of suites
// and comparators that there are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/tools/bench.h>

#include <chrono>
#include <thread>

#include "base/process.h"
#include "bench/chip_state.h"
#include "bench/comparator_run.h"
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
    BenchMean& mean = suite.means.emplace_back();
    mean.with = "CUB";
    mean.ratio = mean.least = 0.5;
    mean.rows = 1;
    mean.must = 1.0;
    mean.aim = 1.02;
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

float32, int32, float16, bfloat16 = "float32", "int32", "float16", "bfloat16"
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

/// A folder with that PyTorch in it, in place of the one that is installed.
class FakeTorch {
  public:
    explicit FakeTorch(const std::string& more = "") {
        const auto torch = directory_.path() / "torch";
        std::filesystem::create_directories(torch / "nn");
        write_text(torch / "__init__.py", kFakeTorch + more);
        write_text(torch / "nn/__init__.py", "");
        write_text(torch / "nn/functional.py", "");
    }
    std::pair<std::string, std::string> variable() const {
        return {"PYTHONPATH", directory_.path().string()};
    }
    bench::TorchSetup setup() const {
        bench::TorchSetup setup;
        setup.quick = true;
        setup.flush_bytes = 4096;
        setup.environment = {variable()};
        return setup;
    }

  private:
    TemporaryDirectory directory_;
};

constexpr std::chrono::seconds kTorchLimit{60};

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

constexpr const char* kFakeNvml = R"(
static int handle;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
    *device = &handle;
    return id[5] == '3' ? 0 : 6;
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
    const char* version = "580.1";
    for (unsigned i = 0; i < size && i < 6; ++i) text[i] = version[i];
    return 0;
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
    *mhz = type == 1 ? 1980 : type == 2 ? 3201 : 0;
    return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
    *celsius = 41;
    return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    *milliwatts = 123456;
    return 0;
}
)";

TEST(BenchChip, ClocksAndPowerAreThoseOfTheDeviceOfThatBusId) {
    const TemporaryDirectory directory;
    write_text(directory.path() / "nvml.c", kFakeNvml);
    const std::string library = (directory.path() / "libnvml.so").string();
    ProcessRequest request;
    request.arguments = {"g++",   "-x", "c",     "-shared",
                         "-fPIC", "-o", library, (directory.path() / "nvml.c").string()};
    const ProcessResult built = run_process(request);
    KILN_REQUIRE_OR_SKIP("host", built.succeeded(), built.error);
    const bench::ChipMonitor monitor("0000:3b:00.0", {library});
    EXPECT_EQ(monitor.driver(), "580.1");
    const std::optional<ChipState> chip = monitor.read();
    ASSERT_TRUE(chip);
    EXPECT_EQ(chip->sm_mhz, 1980);
    EXPECT_EQ(chip->memory_mhz, 3201);
    EXPECT_DOUBLE_EQ(chip->watts, 123.456);
    EXPECT_EQ(chip->celsius, 41);
    EXPECT_FALSE(bench::ChipMonitor("0000:4b:00.0", {library}).read());
    EXPECT_FALSE(bench::ChipMonitor("0000:3b:00.0", {"/nowhere/libnvml.so"}).read());
    EXPECT_FALSE(bench::ChipMonitor("", {library}).read());
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
    EXPECT_THAT(message({"gemm-f16.larg"}, {}), HasSubstr("did you mean gemm-f16.large"));
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

TEST_F(BenchRun, AWisdomFileThatCantBeUsedIsTold) {
    const std::filesystem::path file = folder_.path() / "wisdom.txt";
    write_text(file, "no wisdom at all\n");
    const test::ScopedVariable wisdom("KILN_WISDOM", file.string());
    std::string told;
    options_.service.on_warning = [&](std::string_view text) { told += text; };
    bench::Benchmark(options_).choose({"layer_norm"}, {}, {{"rows", 3}, {"cols", 64}});
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

TEST_F(BenchRun, APartWhoseTimeIsUpTellsWhatItLacksAndALaterRunAddsIt) {
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

BenchReport report_of(const std::string& run, const std::string& date, std::vector<BenchRow> rows) {
    BenchReport report;
    report.device = "NVIDIA H200";
    report.runs.emplace_back();
    report.runs[0].id = run;
    report.runs[0].date = date;
    report.parts.push_back({"memory.sums", run, 1, {}, {}, {}});
    BenchSuite suite;
    suite.name = "memory";
    for (BenchRow& row : rows) row.run = run;
    suite.rows = std::move(rows);
    bench::add_mean(suite, "CUB", 1.0);
    report.suites = {suite};
    return report;
}

TEST(BenchMerge, TheLaterRowCountsAndMeansAreMadeAnew) {
    BenchRow one = row_with(1, {ratio_to("CUB", 0.5)}), two = row_with(1, {ratio_to("CUB", 2)});
    two.problem = "another problem";
    BenchRow again = row_with(3, {ratio_to("CUB", 8)}), broken = two;
    broken.failures = {"no memory"};
    BenchReport first = report_of("a", "2026-11-22T10:00:00Z", {one, two});
    first.parts[0].missing = {"a third problem"};
    const BenchReport later = report_of("b", "2026-11-22T11:00:00Z", {again, broken});
    for (const auto& order : {std::vector{first, later}, std::vector{later, first}}) {
        const BenchReport all = merged_bench(order);
        ASSERT_EQ(all.suites.size(), 1U);
        ASSERT_EQ(all.suites[0].rows.size(), 2U);
        for (const BenchRow& row : all.suites[0].rows)
            EXPECT_EQ(row.run, row.problem == "a problem" ? "b" : "a") << "the later one, unless it failed";
        ASSERT_EQ(all.suites[0].means.size(), 1U);
        EXPECT_DOUBLE_EQ(all.suites[0].means[0].ratio, 4);
        EXPECT_EQ(all.suites[0].means[0].must, 1.0);
        EXPECT_EQ(all.runs.size(), 2U);
        EXPECT_EQ(all.runs[0].id, "a");
        EXPECT_THAT(all.missing(), ::testing::Contains("memory.sums: a third problem"));
        EXPECT_THAT(all.missing(), ::testing::Contains("gemm-f16.large"));
        EXPECT_TRUE(all.pass());
    }
}

TEST(BenchMerge, WhatCantBeComparedIsRefused) {
    const BenchReport one = report_of("a", "2026-11-22T10:00:00Z", {});
    BenchReport other = one, quick = one;
    other.device = "NVIDIA H100";
    quick.runs[0].quick = true;
    EXPECT_THROW(merged_bench({one, other}), UsageError);
    EXPECT_THROW(merged_bench({one, quick}), UsageError);
}

}  // namespace
}  // namespace kiln
