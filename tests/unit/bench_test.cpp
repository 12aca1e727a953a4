// SPDX-License-Identifier: Apache-2.0
//
// What is made of measurements: spreads, what must hold, geometric means, merged reports, pictures; names of suites and
// comparators that there are not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/tools/bench.h>

#include <chrono>
#include <thread>

#include "base/process.h"
#include "bench/chip_state.h"
#include "bench/comparator_run.h"
#include "bench/suites.h"
#include "bench/torch.h"
#include "bench_rows.h"
#include "rejected.h"
#include "require.h"
#include "scoped_variable.h"

namespace kiln {
namespace {

using test::ratio_to;
using test::row_with;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
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

TEST(BenchReport, ReportsWhatIsMissedAndWhatIsWrong) {
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

TEST(BenchNames, ThatThereAreNotAreRejectedWithTheNearest) {
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

TEST(BenchMerge, AWrongResultCountsUntilALaterOneIsRight) {
    BenchRow right = row_with(1, {ratio_to("CUB", 2)}), wrong = right, failed = right;
    wrong.verified = false;
    wrong.failures = {"Kiln's y is wrong"};
    failed.failures = {"no memory"};
    failed.verified.reset();
    const BenchReport first = report_of("a", "2026-11-22T10:00:00Z", {right}),
                      second = report_of("b", "2026-11-22T11:00:00Z", {wrong}),
                      third = report_of("c", "2026-11-22T12:00:00Z", {failed}),
                      last = report_of("d", "2026-11-22T13:00:00Z", {right});
    EXPECT_FALSE(merged_bench({first, second}).pass());
    EXPECT_FALSE(merged_bench({second, first}).pass());
    EXPECT_FALSE(merged_bench({first, second, third}).pass()) << "what is not measured says nothing";
    EXPECT_TRUE(merged_bench({last, first, second, third}).pass());
}

TEST(BenchMerge, WhatCantBeComparedIsRejected) {
    const BenchReport one = report_of("a", "2026-11-22T10:00:00Z", {});
    BenchReport other = one, quick = one;
    other.device = "NVIDIA H100";
    quick.runs[0].quick = true;
    EXPECT_THROW(merged_bench({one, other}), UsageError);
    EXPECT_THROW(merged_bench({one, quick}), UsageError);
    BenchReport generic = one, accelerated = one;
    generic.arch = "sm_90";
    accelerated.arch = "sm_90a";
    EXPECT_THAT(test::rejected<UsageError>([&] {
                    merged_bench({generic, accelerated});
                }),
                HasSubstr("NVIDIA H200 with kernels for sm_90 and for sm_90a"));
    EXPECT_NO_THROW(merged_bench({one, generic})) << "it is not known";
}

TEST(BenchMerge, SecondsOfAPartCountOnce) {
    BenchReport monday = report_of("a", "2026-11-22T10:00:00Z", {row_with(1, {ratio_to("CUB", 2)})}),
                tuesday = report_of("b", "2026-11-23T10:00:00Z", {row_with(1, {ratio_to("CUB", 2)})});
    monday.parts[0].seconds = 7;
    monday.suites[0].seconds = 7.5;  // a part that had nothing to do is not among them
    tuesday.parts[0].seconds = tuesday.suites[0].seconds = 2;
    const auto seconds = [](const std::vector<BenchReport>& reports) {
        return merged_bench(reports).suites.at(0).seconds;
    };
    EXPECT_EQ(seconds({monday, monday}), 7.5);
    EXPECT_EQ(seconds({monday, tuesday}), 9.5);
    // It went on with Monday's.
    BenchReport resumed = merged_bench({monday, tuesday});
    EXPECT_EQ(seconds({tuesday, resumed, monday}), 9.5);
}

}  // namespace
}  // namespace kiln
