// SPDX-License-Identifier: Apache-2.0
//
// The small parts: words, statistics, loops, the report's figures.
#include "cli/text_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/timing.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/parallel.h"
#include "cli/gemm_report.h"
#include "cli/option_values.h"
#include "cli/program.h"

namespace kiln::cli {
namespace {

std::string refusal(std::string_view text, std::uint64_t min, std::uint64_t max) {
    try {
        parse_whole("--m", text, min, max);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(Words, Integers) {
    EXPECT_EQ(parse_whole("--m", "1", 1, 10), 1U);
    EXPECT_EQ(parse_whole("--m", "18446744073709551615", 0, std::numeric_limits<std::uint64_t>::max()),
              std::numeric_limits<std::uint64_t>::max());
    EXPECT_NE(refusal("0", 1, 10).find("too small, the nearest is 1"), std::string::npos);
    EXPECT_NE(refusal("-3", 1, 10).find("too small, the nearest is 1"), std::string::npos);
    EXPECT_NE(refusal("11", 1, 10).find("too large, the nearest is 10"), std::string::npos);
    EXPECT_NE(refusal("99999999999999999999999", 1, 10).find("too large"), std::string::npos);
    for (const char* text : {"", "x", "1e9", "1.5", " 1", "1 ", "0x10", "+1", "-"})
        EXPECT_NE(refusal(text, 0, 10).find("--m must be an integer from 0 to 10"), std::string::npos)
            << text;
}

TEST(Words, NearMisses) {
    EXPECT_EQ(nearest("sede", {"seed", "device"}), "seed");
    EXPECT_EQ(nearest("PAD_A", {"pad", "pad-a"}), "pad-a");
    EXPECT_EQ(nearest("zzz", {"seed", "m", "n"}), "");
    EXPECT_EQ(nearest("x", {"m", "n"}), "");
}

TEST(Words, Enumerations) {
    EXPECT_EQ(enumerate({}), "");
    EXPECT_EQ(enumerate({"a"}), "a");
    EXPECT_EQ(enumerate({"a", "b", "c"}), "a, b or c");
    EXPECT_EQ(bytes_text(8256), "8256 bytes");
    EXPECT_EQ(bytes_text(3.5 * 1024 * 1024), "3.5 MiB");
}

TEST(Times, MedianOfOddAndEvenNumbers) {
    const TimeSummary odd = summarise({3, 1, 2});
    EXPECT_EQ(odd.min_ms, 1);
    EXPECT_EQ(odd.median_ms, 2);
    EXPECT_EQ(odd.max_ms, 3);
    EXPECT_EQ(odd.iterations, 3);
    EXPECT_EQ(summarise({4, 1, 2, 3}).median_ms, 2.5);
    EXPECT_EQ(summarise({7}).median_ms, 7);
}

TEST(Times, HostIterationsFitTwoSeconds) {
    EXPECT_EQ(host_iterations(0.001), 20);
    EXPECT_EQ(host_iterations(200), 10);
    EXPECT_EQ(host_iterations(60000), 3);
}

TEST(Parallel, CoversEveryIndexOnce) {
    for (const std::int64_t count : {0, 1, 7, 1000}) {
        std::vector<std::atomic<int>> visits(std::size_t(count) + 1);
        parallel_for(count, 3, [&](std::int64_t begin, std::int64_t end) {
            for (; begin < end; ++begin) ++visits[std::size_t(begin)];
        });
        for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(visits[std::size_t(i)], 1);
    }
}

TEST(Parallel, RethrowsWhatABodyThrows) {
    EXPECT_THROW(parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("no"); }),
                 std::runtime_error);
}

RunReport some_report() {
    const std::string text =
        "// f: for tests.\n//\n//@ kernel f\n//@ param BM int in 32, 64 = 64\n//@ param FAST bool = "
        "true\n//@ block 1\n"
        "//@ grid 1\n#include \"kiln/device.h\"\n\nextern \"C\" __global__ void f(int m, int n, int k, const "
        "kiln::half* a, const kiln::half* b, float* c) {}\n";
    RunReport report{Template::parse(text, "f.cu").variant(), Backend::host, "a device", "x86-64", {}};
    report.options.gemm = true;
    report.result.problem = *gemm_problem(report.variant, {{"m", 1000}, {"n", 2000}, {"k", 500}});
    return report;
}

TEST(Figures, ComeFromTheMedian) {
    RunReport report = some_report();
    report.result.time = TimeSummary{1, 2, 3, 20};
    EXPECT_DOUBLE_EQ(*report.result.gflops(), 2.0 * 1000 * 2000 * 500 / 2e-3 / 1e9);
    EXPECT_DOUBLE_EQ(*report.result.gbps(),
                     (2.0 * 1000 * 500 + 2.0 * 500 * 2000 + 4.0 * 1000 * 2000) / 2e-3 / 1e9);
    report.result.time->median_ms = 0;
    EXPECT_FALSE(report.result.gflops());
}

TEST(Figures, AnErrorThatIsNotFiniteIsNullInJson) {
    RunReport report = some_report();
    OutputCheck output;
    output.tensor = "c";
    output.max_abs_error = INFINITY;
    output.wrong_rows = 3;
    report.result.outputs_checked = {output};
    report.result.check = Check::freivalds;
    const auto json = nlohmann::json::parse(gemm_json(report));
    EXPECT_TRUE(json["max_abs_error"].is_null());
    EXPECT_EQ(json["pass"], false);
    EXPECT_EQ(json["verified"], "sample");
    EXPECT_EQ(json["check"], "freivalds");
    EXPECT_EQ(json["variant"]["BM"], 64);
    EXPECT_EQ(json["variant"]["FAST"], true);
    EXPECT_EQ(json["dtype"], "f16");
    EXPECT_EQ(json["shape"]["n"], 2000);
    EXPECT_THAT(report.result.failures(), ::testing::ElementsAre("3 rows of c fail Freivalds' test."));
}

TEST(Figures, MessagesWithBytesThatAreNoTextAreStillJson) {
    EXPECT_NO_THROW(EXPECT_FALSE(nlohmann::json::parse(error_json("usage", "\xff\xfe"))["error"].empty()));
}

TEST(Figures, TableAlignsNumbersOnTheRight) {
    EXPECT_EQ(table({{"KEY", "SIZE", "NAME"}, {"a", "7 KiB", "x"}, {"bc", "12 KiB", ""}}, {1}),
              "  KEY    SIZE  NAME\n  a     7 KiB  x\n  bc   12 KiB\n");
}

TEST(Figures, WrappedBreaksAtSpaces) {
    EXPECT_EQ(wrapped("one two three", 2, 0), "one two three");
    EXPECT_EQ(wrapped("one two three", 2, 9), "one two\n  three");
    EXPECT_EQ(wrapped("one two three", 2, 10), "one two\n  three");
    EXPECT_EQ(wrapped("a/very/long/path here", 2, 9), "a/very/long/path\n  here");
    EXPECT_EQ(wrapped("here a/very/long/path", 2, 9), "here\n  a/very/long/path");
    EXPECT_EQ(wrapped("word", 9, 4), "word");
    EXPECT_EQ(wrapped("", 2, 9), "");
}

}  // namespace
}  // namespace kiln::cli
