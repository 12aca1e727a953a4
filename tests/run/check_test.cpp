// SPDX-License-Identifier: Apache-2.0
//
// What a run finds: right results pass, and each kind of wrong one is told as what it is.
#include <cmath>
#include <limits>

#include "format/format.h"
#include "rejected.h"
#include "run/element.h"
#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunCheck : public Run {};

TEST_F(RunCheck, ARightKernelPasses) {
    RunOptions options;
    options.iterations = 4;
    const RunResult result = run_doubling(kRight, options);
    EXPECT_TRUE(result.pass());
    EXPECT_THAT(result.failures(), IsEmpty());
    EXPECT_EQ(result.check, Check::full);
    ASSERT_EQ(result.outputs_checked.size(), 1U);
    const OutputCheck& y = result.outputs_checked[0];
    EXPECT_EQ(y.tensor, "y");
    EXPECT_EQ(y.elements, 1000U);
    EXPECT_EQ(y.checked, 1000U);
    EXPECT_EQ(y.wrong, 0U);
    EXPECT_EQ(y.unwritten, 0U);
    ASSERT_TRUE(result.time.has_value());
    EXPECT_EQ(result.time->iterations, 4);
    EXPECT_EQ(result.problem.flops, 1000);
    EXPECT_EQ(result.problem.bytes, 8000);
    EXPECT_NEAR(*result.gflops(), 1000 / result.time->median_ms / 1e6, 1e-9);
    EXPECT_NEAR(*result.gbps(), 8000 / result.time->median_ms / 1e6, 1e-9);
    EXPECT_THAT(result.outputs, IsEmpty());
}

TEST_F(RunCheck, TheGreatestErrorIsReported) {
    // Off by half of the bound at one element.
    const RunResult result =
        run_doubling("if (i < n) y[i] = 2 * x[i] * (i == 7 ? 1.00000024f : 1.0f);", once());
    EXPECT_TRUE(result.pass());
    EXPECT_GT(result.outputs_checked[0].worst, 0.2);
    EXPECT_LT(result.outputs_checked[0].worst, 0.8);
    EXPECT_GT(result.outputs_checked[0].max_abs_error, 0);
}

TEST_F(RunCheck, TheFirstWrongElementIsReported) {
    const RunResult result = run_doubling("if (i < n) y[i] = (i == 41 || i == 700 ? 3 : 2) * x[i];", once());
    EXPECT_FALSE(result.pass());
    const OutputCheck& y = result.outputs_checked[0];
    ASSERT_EQ(y.wrong, 2U);
    ASSERT_TRUE(y.first_wrong.has_value());
    EXPECT_THAT(y.first_wrong->index, ElementsAre(41));
    EXPECT_NEAR(y.first_wrong->found, 1.5 * y.first_wrong->expected, 1e-6);
    EXPECT_GT(y.worst, 1e5);
    EXPECT_THAT(result.failures(),
                ElementsAre(HasSubstr("2 of 1000 checked elements of y are wrong, the first at [41]")));
}

TEST_F(RunCheck, WhatRandomDataHideIsFoundWithContributions) {
    // A sum over the first three quarters: of random signs the rest is less than the bound of a sum in float.
    add_template(
        "some_sum_reference",
        reference_template("some_sum_reference", "int n, const float* x",
                           "kiln::FloatSum sum;\n    for (int j = 0; j < n; ++j) sum.add(x[j]);\n"
                           "    expected[i] = sum.value();\n"
                           "    bound[i] = sum.is_exact() ? 0 : kiln::gamma<float>(n) * sum.magnitude();",
                           "//@ data x term n\n"));
    const auto summing = [](const std::string& last) {
        return line_template("//@ size n = 300000\n//@ input x [n]\n//@ output y [1] by some_sum_reference\n",
                             "int n, const float* x, float* y",
                             "if (i != 0) return; float sum = 0; for (int j = 0; j < " + last +
                                 "; ++j) sum += x[j]; *y = sum;");
    };
    const RunResult right = run(summing("n"), once());
    EXPECT_TRUE(right.pass());
    ASSERT_EQ(right.contributions_checked.size(), 1U);
    EXPECT_EQ(right.contributions_checked[0].data, Data::contributions);
    EXPECT_EQ(right.contributions_checked[0].max_abs_error, 0);

    RunOptions random_only = once();
    random_only.check_contributions = false;
    EXPECT_TRUE(run(summing("n / 4 * 3"), random_only).pass()) << "random data would do here";
    const RunResult wrong = run(summing("n / 4 * 3"), once());
    EXPECT_EQ(wrong.outputs_checked[0].wrong, 0U);
    EXPECT_EQ(wrong.contributions_checked[0].wrong, 1U);
    EXPECT_THAT(wrong.failures(), ElementsAre(HasSubstr("make each contribution visible")));
    EXPECT_FALSE(run(summing("n - 1"), once()).pass());
}

// A reference gives doubles.
TEST_F(RunCheck, IntegersThatADoubleCantTellAreAnError) {
    const auto shifted = [](const std::string& bits, const std::string& lines) {
        return line_template("//@ size n = 40\n//@ input x [n] in 0..39\n//@ output y [n] by " + lines + "\n",
                             "int n, const long long* x, long long* y",
                             "if (i < n) y[i] = (1ll << " + bits + ") + x[i];");
    };
    const auto reference = [&](const std::string& name, const std::string& bits, const std::string& bound) {
        add_template(name, reference_template(name, "const long long* x",
                                              "expected[i] = double((1ll << " + bits +
                                                  ") + x[e] + 50); bound[i] = " + bound + ";"));
    };
    reference("exact_reference", "60", "0");
    reference("small_reference", "51", "0");
    reference("loose_reference", "60", "256");
    EXPECT_THAT(rejected<UsageError>([&] { run(shifted("60", "exact_reference exact"), once()); }),
                AllOf(HasSubstr("y can't be checked"), HasSubstr("1152921504606846976 is expected at [0]"),
                      HasSubstr("below 2^53"), HasSubstr("a bound of at least 256")));
    EXPECT_THROW(run(shifted("60", "exact_reference"), once()), UsageError);
    EXPECT_EQ(run(shifted("51", "small_reference exact"), once()).outputs_checked[0].wrong, 40U);
    EXPECT_TRUE(run(shifted("60", "loose_reference"), once()).pass());
}

TEST_F(RunCheck, AnIndexHasOneNumberPerExtent) {
    add_doubling_reference();
    const RunResult result = run(
        line_template("//@ size n = 60\n//@ input x [n]\n//@ output y [3, 4, n / 12] by doubling_reference\n",
                      "int n, const float* x, float* y", "if (i < n) y[i] = (i == 33 ? -2 : 2) * x[i];"),
        once());
    ASSERT_TRUE(result.outputs_checked[0].first_wrong.has_value());
    EXPECT_THAT(result.outputs_checked[0].first_wrong->index, ElementsAre(1, 2, 3));
}

TEST_F(RunCheck, AWriteBehindTheEndIsReported) {
    const RunResult result = run_doubling("if (i < n) y[i] = 2 * x[i]; else if (i == n) y[i] = 0;", once());
    EXPECT_THAT(result.overrun, ElementsAre(Overrun{"y", false, 0}));
    EXPECT_EQ(result.outputs_checked[0].wrong, 0U);
    EXPECT_THAT(result.failures(), ElementsAre("The kernel wrote right after the end of y."));
}

TEST_F(RunCheck, AWriteBeforeTheStartIsReported) {
    // 4 bytes, 3 KiB from the tensor: within the page that lies before it.
    const RunResult result = run_doubling("if (i < n) y[i] = 2 * x[i]; if (i == 0) y[-769] = 1;", once());
    EXPECT_THAT(result.overrun, ElementsAre(Overrun{"y", true, 768 * sizeof(float)}));
    EXPECT_THAT(result.failures(), ElementsAre("The kernel wrote before the start of y, 3072 bytes away."));
    const RunResult input =
        run_doubling("if (i < n) y[i] = 2 * x[i]; if (i == 0) const_cast<float*>(x)[n + 1000] = 1;", once());
    EXPECT_THAT(input.overrun, ElementsAre(Overrun{"x", false, 1000 * sizeof(float)}));
}

TEST_F(RunCheck, ACopyOfAnotherTensorsGuardIsReported) {
    for (const std::string place : {"n + 20", "-9"})
        EXPECT_THAT(
            run_doubling("if (i < n) y[i] = 2 * x[i]; if (i == 0) y[" + place + "] = x[" + place + "];",
                         once())
                .overrun,
            testing::SizeIs(1))
            << place;
}

TEST_F(RunCheck, ASumWithWhatLiesBehindAnInputIsWrong) {
    EXPECT_FALSE(run_doubling("if (i < n) y[i] = 2 * x[i] + (i == 5 ? x[n] : 0);", once()).pass());
}

TEST_F(RunCheck, AnUnwrittenElementIsReported) {
    const RunResult result = run_doubling("if (i < n && i != 12) y[i] = 2 * x[i];", once());
    EXPECT_EQ(result.outputs_checked[0].unwritten, 1U);
    ASSERT_EQ(result.outputs_checked[0].wrong, 1U);
    EXPECT_THAT(result.outputs_checked[0].first_wrong->index, ElementsAre(12));
    EXPECT_THAT(result.failures(),
                ::testing::Contains(HasSubstr("1 of 1000 elements of y were never written")));
}

TEST_F(RunCheck, AnUnwrittenElementThatNobodyComparesIsReportedToo) {
    const RunResult result = run(line_template("//@ size n = 100\n//@ output y [n]\n", "int n, float* y",
                                               "if (i < n && i != 12) y[i] = 1;"),
                                 once());
    EXPECT_EQ(result.outputs_checked[0].checked, 0U);
    EXPECT_EQ(result.outputs_checked[0].unwritten, 1U);
    EXPECT_FALSE(result.pass());
}

TEST_F(RunCheck, AChangedInputIsReported) {
    const RunResult result = run_doubling(
        "if (i < n) y[i] = 2 * x[i];\n    if (i == n - 1) const_cast<float*>(x)[i] = 9;", once());
    EXPECT_THAT(result.changed, ElementsAre("x"));
    EXPECT_FALSE(result.pass());
}

TEST_F(RunCheck, ANanIsWrongWhereNoneIsExpected) {
    const RunResult result =
        run_doubling("if (i < n) y[i] = i == 3 ? 0.0f / (x[i] - x[i]) : 2 * x[i];", once());
    const OutputCheck& y = result.outputs_checked[0];
    ASSERT_EQ(y.wrong, 1U);
    EXPECT_EQ(y.unwritten, 0U);  // it is another NaN than the poison
    EXPECT_TRUE(std::isnan(y.first_wrong->found));
    EXPECT_TRUE(std::isinf(y.worst));
}

TEST_F(RunCheck, TensorsThatAreNotAlignedAreGuardedOnBothSides) {
    RunOptions skewed = once();
    skewed.skew = 3;
    EXPECT_TRUE(run_doubling(kRight, skewed).pass());
    const auto is_skewed =
        "if (i < n) y[i] = reinterpret_cast<unsigned long long>(y) % 16 == 12 ? 2 * x[i] : 0;";
    EXPECT_TRUE(run_doubling(is_skewed, skewed).pass());
    EXPECT_FALSE(run_doubling(is_skewed, once()).pass());
    EXPECT_THAT(run_doubling("if (i < n) y[i] = 2 * x[i]; if (i == 0) y[-3] = 1;", skewed).overrun,
                ElementsAre(Overrun{"y", true, 2 * sizeof(float)}));
    EXPECT_THAT(run_doubling("if (i <= n) y[i] = i < n ? 2 * x[i] : 1;", skewed).overrun,
                ElementsAre(Overrun{"y", false, 0}));
    skewed.skew = 65;
    EXPECT_THAT(rejected<UsageError>([&] { run_doubling(kRight, skewed); }), HasSubstr("65 elements"));
}

TEST_F(RunCheck, NansAndInfinitiesAreRightWhereTheyAreExpected) {
    add_template("odd_reference",
                 reference_template("odd_reference", "",
                                    "expected[i] = e == 0 ? 0.0 / 0.0 : e == 1 ? 1 / 0.0 : 1;\n"
                                    "    bound[i] = 0;",
                                    ""));
    const auto odd = [](const std::string& body) {
        return line_template(
            "//@ size n = 4\n//@ output y [n] by odd_reference\n", "int n, float* y",
            "const float zero = static_cast<float>(n - 4);\n    if (i < n) y[i] = " + body + ";");
    };
    const RunResult right = run(odd("i == 0 ? zero / zero : i == 1 ? 1 / zero : 1"), once());
    EXPECT_TRUE(right.pass());
    EXPECT_EQ(right.outputs_checked[0].checked, 4U);
    EXPECT_EQ(right.outputs_checked[0].not_finite, 2U) << "that they are right says little";
    EXPECT_EQ(run(odd("i == 1 ? 1 / zero : 1"), once()).outputs_checked[0].wrong, 1U);
    EXPECT_EQ(run(odd("i == 0 ? zero / zero : i == 1 ? -1 / zero : 1"), once()).outputs_checked[0].wrong, 1U);
    EXPECT_EQ(run(odd("i == 0 ? zero / zero : 1 / zero"), once()).outputs_checked[0].wrong, 2U);
}

TEST_F(RunCheck, AnInfiniteBoundLeavesAnElementUnchecked) {
    add_template(
        "loose_reference",
        reference_template("loose_reference", "", "expected[i] = 1;\n    bound[i] = e < 10 ? 1 / 0.0 : 0;"));
    const RunResult result = run(line_template("//@ size n = 40\n//@ output y [n] by loose_reference\n",
                                               "int n, float* y", "if (i < n) y[i] = i < 10 ? 5 : 1;"),
                                 once());
    EXPECT_TRUE(result.pass());
    EXPECT_EQ(result.outputs_checked[0].checked, 30U);
}

TEST_F(RunCheck, ABoundThatIsNoNumberHoldsNothing) {
    add_template("void_reference",
                 reference_template("void_reference", "", "expected[i] = 1;\n    bound[i] = 0.0 / 0.0;"));
    EXPECT_FALSE(run(line_template("//@ size n = 4\n//@ output y [n] by void_reference\n", "int n, float* y",
                                   "if (i < n) y[i] = 2;"),
                     once())
                     .pass());
}

TEST_F(RunCheck, AnElementThatTheReferenceLeavesOutIsWrong) {
    add_template("lazy_reference",
                 reference_template("lazy_reference", "", "if (e % 2 == 0) expected[i] = bound[i] = 0;"));
    // 0 is what the memory of `expected` happens to hold.
    const std::string zeros = line_template("//@ size n = 40\n//@ output y [n] by lazy_reference exact\n",
                                            "int n, float* y", "if (i < n) y[i] = 0;");
    for (const Data data : {Data::random, Data::integers}) {
        RunOptions options = once();
        options.data = data;
        const RunResult result = run(zeros, options);
        EXPECT_EQ(result.outputs_checked[0].wrong, 20U) << name(data);
        EXPECT_THAT(result.failures(), ElementsAre(HasSubstr("for which the reference gives no bound")));
    }
}

TEST_F(RunCheck, ABoundBelowZeroHoldsNothing) {
    add_template("minus_reference",
                 reference_template("minus_reference", "",
                                    "expected[i] = 1;\n    bound[i] = e == 0 ? -1 / 0.0 : -1e-3;"));
    for (const std::string value : {"1", "2"})
        EXPECT_THAT(run(line_template("//@ size n = 4\n//@ output y [n] by minus_reference exact\n",
                                      "int n, float* y", "if (i < n) y[i] = " + value + ";"),
                        once())
                        .failures(),
                    ElementsAre(AllOf(HasSubstr("4 of 4 checked elements of y are wrong"),
                                      HasSubstr("for which the reference gives a negative bound"))))
            << value;
}

TEST_F(RunCheck, OverflowToInfinityIsTheRightRounding) {
    add_template("large_reference",
                 reference_template("large_reference", "",
                                    "expected[i] = e == 0 ? 65519 : e == 1 ? 65520 : -1e9;\n"
                                    "    bound[i] = 0;"));
    const auto large = [](const std::string& first) {
        return line_template(
            "//@ size n = 3\n//@ output y [n] by large_reference exact\n", "int n, kiln::half* y",
            "if (i < n) y[i] = kiln::half(i == 0 ? " + first + " : i == 1 ? 65520.0f : -1e9f);");
    };
    RunOptions options = once();
    options.data = Data::integers;
    const RunResult right = run(large("65519.0f"), options);
    EXPECT_TRUE(right.pass());
    EXPECT_EQ(right.outputs_checked[0].not_finite, 2U);
    EXPECT_EQ(run(large("65521.0f"), options).outputs_checked[0].wrong, 1U);
}

TEST_F(RunCheck, ExactMeansEqualOnIntegersOnly) {
    add_doubling_reference();
    const std::string slightly_off = doubling("if (i < n) y[i] = 2 * x[i] * 1.00000024f;");
    EXPECT_TRUE(run(slightly_off, once()).pass());
    RunOptions integers = once();
    integers.data = Data::integers;
    const RunResult result = run(slightly_off, integers);
    ASSERT_FALSE(result.pass());
    EXPECT_THAT(result.failures()[0], HasSubstr(" exactly."));
    EXPECT_TRUE(run(doubling(kRight), integers).pass());
}

TEST_F(RunCheck, IntegersAreEqualWhereExactIsDeclaredWhateverTheData) {
    add_template("counting_reference", reference_template("counting_reference", "const int* x",
                                                          "expected[i] = 2.0 * x[e];\n    bound[i] = 3;"));
    const auto counting = [](const std::string& words, const std::string& body) {
        return line_template(
            "//@ size n = 1000\n//@ input x [n] in 0..9\n//@ output y [n] by counting_reference" + words +
                "\n",
            "int n, const int* x, int* y", body);
    };
    const std::string off = "if (i < n) y[i] = 2 * x[i] + (i == 500);";
    EXPECT_TRUE(run(counting("", off), once()).pass()) << "it is within the bound";
    const RunResult result = run(counting(" exact", off), once());
    ASSERT_FALSE(result.pass());
    EXPECT_EQ(result.outputs_checked[0].wrong, 1U);
    EXPECT_TRUE(run(counting(" exact", kRight), once()).pass());
}

TEST_F(RunCheck, ASampleFindsAWrongLastElement) {
    add_doubling_reference();
    RunOptions options = once({{"n", 300001}});
    options.check = Check::sample;
    const RunResult result = run(doubling("if (i < n) y[i] = (i == n - 1 ? 3 : 2) * x[i];"), options);
    EXPECT_EQ(result.check, Check::sample);
    const OutputCheck& y = result.outputs_checked[0];
    EXPECT_GE(y.checked, 60000U);
    EXPECT_LE(y.checked, 70000U);
    ASSERT_EQ(y.wrong, 1U);
    EXPECT_THAT(y.first_wrong->index, ElementsAre(300000));
    EXPECT_TRUE(run(doubling(kRight), options).pass());
}

TEST_F(RunCheck, ASampleHasAsManyElementsAsAskedFor) {
    add_doubling_reference();
    RunOptions options = once({{"n", 300001}});
    options.check = Check::sample;
    options.sample_elements = 2000;
    const RunResult some = run(doubling(kRight), options);
    EXPECT_EQ(some.check, Check::sample);
    EXPECT_GE(some.outputs_checked[0].checked, 2000U);
    EXPECT_LE(some.outputs_checked[0].checked, 2300U);
    options.sample_elements = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(run(doubling(kRight), options).outputs_checked[0].checked, 300001U);
    options.sample_elements = 0;
    EXPECT_THAT(rejected<UsageError>([&] { run(doubling(kRight), options); }),
                HasSubstr("sample_elements is 0"));
}

TEST_F(RunCheck, ThereIsATimedLaunchAndNoNegativeNumberOfOthers) {
    add_doubling_reference();
    const auto problem = [&](std::optional<int> warm_up, std::optional<int> iterations) {
        RunOptions options = once({{"n", 100}});
        options.time = true;
        options.warm_up = warm_up;
        options.iterations = iterations;
        return rejected<UsageError>([&] { run(doubling(kRight), options); });
    };
    EXPECT_EQ(
        problem(0, 0),
        "RunOptions::iterations must be an integer from 1 to 1000000; 0 is too small, the nearest is 1.");
    EXPECT_THAT(problem(0, -1), HasSubstr("iterations must be an integer from 1 to 1000000; -1 is"));
    EXPECT_THAT(problem(0, 1'000'001), HasSubstr("1000001 is too large, the nearest is 1000000."));
    EXPECT_THAT(problem(-1, 1), HasSubstr("RunOptions::warm_up must be an integer from 0 to 1000000; -1 is"));
    EXPECT_THAT(rejected<UsageError>([] { static_cast<void>(summarise({})); }), HasSubstr("no times"));
    Service service({.backend = Backend::host, .cache = std::nullopt});
    for (const auto& [warm_up, iterations] : {std::pair(-1, 1), std::pair(0, 0), std::pair(0, -1)})
        EXPECT_THAT(rejected<UsageError>([&] {
                        static_cast<void>(time_launches(service.device(), service.stream(), warm_up,
                                                        iterations, [] {}, {}));
                    }),
                    HasSubstr("must be an integer from"));
}

TEST_F(RunCheck, ASampleFindsAnyUnwrittenElement) {
    add_doubling_reference();
    RunOptions options = once({{"n", 300001}});
    options.check = Check::sample;
    // 123457 lies at no edge.
    const RunResult result = run(doubling("if (i < n && i != 123457) y[i] = 2 * x[i];"), options);
    EXPECT_EQ(result.outputs_checked[0].unwritten, 1U);
    EXPECT_FALSE(result.pass());
}

TEST_F(RunCheck, FullComparesEveryElementOverManyChunks) {
    add_doubling_reference();
    RunOptions options = once({{"n", 700001}});
    options.check = Check::full;
    const RunResult result = run(doubling("if (i < n) y[i] = (i == 654321 ? 3 : 2) * x[i];"), options);
    EXPECT_EQ(result.outputs_checked[0].checked, 700001U);
    ASSERT_EQ(result.outputs_checked[0].wrong, 1U);
    EXPECT_THAT(result.outputs_checked[0].first_wrong->index, ElementsAre(654321));
}

TEST_F(RunCheck, WithoutACheckNothingIsCompared) {
    RunOptions options = once();
    options.check = Check::none;
    const RunResult result = run_doubling("if (i < n) y[i] = 7;", options);
    EXPECT_TRUE(result.pass());
    EXPECT_THAT(result.outputs_checked, IsEmpty());
    EXPECT_EQ(result.check, Check::none);
}

TEST_F(RunCheck, AnUnwrittenElementThatWouldBeRightIsFound) {
    const auto text = [&](const std::string& type, long long value, const std::string& condition) {
        const std::string literal = std::to_string(value),
                          name = formatted("is_{}", value < 0 ? -value : value);
        const std::string bound = type == "long long" ? "1024" : "0";  // a double holds no such numbers
        add_template(name, reference_template(
                               name, "", "expected[i] = " + literal + ";\n    bound[i] = " + bound + ";"));
        return line_template("//@ size n = 1000\n//@ output y [n] by " + name + "\n",
                             "int n, " + type + "* y", "if (i < n" + condition + ") y[i] = " + literal + ";");
    };
    for (const auto& [type, value] :
         {std::pair("unsigned char", 0xa5LL), std::pair("signed char", 0xa5LL - 0x100),
          std::pair("unsigned short", 0xa5a5LL), std::pair("short", 0xa5a5LL - 0x10000),
          std::pair("unsigned", 0xa5a5a5a5LL), std::pair("int", 0xa5a5a5a5LL - 0x100000000),
          std::pair("long long", -0x5a5a5a5a5a5a5a5bLL), std::pair("unsigned char", 0x5aLL),
          std::pair("unsigned", 0x5aLL)}) {
        SCOPED_TRACE(type);
        const bool is_poison = value != 0x5a;  // else those elements are wrong
        const bool is_wide = type == std::string("unsigned");
        for (const bool time : {false, true}) {
            RunOptions options = once();
            options.time = time;
            EXPECT_THAT(run(text(type, value, ""), options).failures(), IsEmpty());
            const RunResult result = run(text(type, value, " && i != 3 && i != 500"), options);
            EXPECT_FALSE(result.pass());
            EXPECT_THAT(result.unstable, IsEmpty());
            EXPECT_EQ(result.outputs_checked[0].wrong, is_poison ? 0U : 2U);
            EXPECT_EQ(result.outputs_checked[0].unwritten, is_poison || is_wide ? 2U : 0U);
        }
    }
}

TEST_F(RunCheck, AKernelThatIsRightOnlyOnceIsFoundWithoutTimedLaunches) {
    add_doubling_reference();
    const auto text = [](const std::string& role, const std::string& state) {
        return line_template("//@ size n = 31\n//@ input x [n]\n//@ " + role + " by doubling_reference\n" +
                                 "//@ scratch state [1]\n",
                             "int n, const float* x, float* y, int* state",
                             "const bool again = state[0] == 1;\n    __syncthreads();\n"
                             "    if (i == 0) state[0] = " +
                                 state + ";\n    if (i < n) y[i] = (again ? 3 : 2) * x[i];");
    };
    for (const char* role : {"output y [n]", "inout y [n]"}) {
        EXPECT_THAT(run(text(role, "0"), once()).failures(), IsEmpty()) << role;
        EXPECT_THAT(run(text(role, "1"), once()).unstable, ElementsAre("y")) << role;
        RunOptions timed = once();
        timed.time = true;
        EXPECT_THAT(run(text(role, "1"), timed).unstable, ElementsAre("y")) << role;
    }
    // What has no reference may differ, such as a time.
    const auto timed = line_template(
        "//@ size n = 31\n//@ input x [n]\n//@ output y [n] by doubling_reference\n"
        "//@ output cycles [1]\n//@ scratch state [1]\n",
        "int n, const float* x, float* y, float* cycles, int* state",
        "if (i == 0) cycles[0] = static_cast<float>(++state[0] % 128);\n"
        "    if (i < n) y[i] = 2 * x[i];");
    RunOptions options = once();
    for (const bool time : {false, true}) {
        options.time = time;
        EXPECT_THAT(run(timed, options).failures(), IsEmpty()) << time;
    }
}

TEST_F(RunCheck, ScratchThatIsToBeLeftZeroedIsLookedAt) {
    add_doubling_reference();
    const auto counting = [](const std::string& at_the_end) {
        return line_template(
            "//@ size n = 31\n//@ input x [n]\n//@ output y [n] by doubling_reference\n"
            "//@ scratch count [1] = 0\n",
            "int n, const float* x, float* y, unsigned* count",
            "if (i < n) y[i] = (count[0] == 0 ? 2 : 3) * x[i];\n    __syncthreads();\n"
            "    if (i == 0) count[0] = " +
                at_the_end + ";");
    };
    EXPECT_TRUE(run(counting("0"), {}).pass());
    const RunResult dirty = run(counting("1"), once());
    EXPECT_THAT(dirty.not_zeroed, ElementsAre("count"));
    EXPECT_THAT(dirty.unstable, IsEmpty());
    EXPECT_EQ(dirty.outputs_checked[0].wrong, 0U);
    // The first launch was right, the next is not.
    EXPECT_THAT(run(counting("1"), {}).unstable, ElementsAre("y"));
}

TEST_F(RunCheck, OtherScratchIsPoisonedAndMayBeLeftAsItIs) {
    add_doubling_reference();
    const auto text = [](const std::string& body) {
        return line_template(
            "//@ size n = 31\n//@ input x [n]\n//@ output y [n] by doubling_reference\n"
            "//@ scratch s [n]\n",
            "int n, const float* x, float* y, float* s", body);
    };
    EXPECT_TRUE(run(text("if (i < n) { s[i] = x[i]; y[i] = 2 * s[i]; }"), {}).pass());
    EXPECT_FALSE(run(text("if (i < n) y[i] = 2 * x[i] + s[i] * 0;"), once()).pass());
}

TEST_F(RunCheck, AnInoutIsCheckedAgainstWhatItWas) {
    add_template("add_reference",
                 reference_template("add_reference", "const float* y, const int* x",
                                    "expected[i] = kiln::wide(y[e]) + x[e];\n    bound[i] = 1e-5;"));
    const auto text = [](const std::string& body) {
        return line_template("//@ size n = 100\n//@ input x [n] in 1..9\n//@ inout y [n] by add_reference\n",
                             "int n, const int* x, float* y", body);
    };
    RunOptions options;
    options.keep_results = true;
    const RunResult result = run(text("if (i < n) y[i] += x[i];"), options);
    EXPECT_THAT(result.failures(), IsEmpty());
    EXPECT_THAT(result.unstable, IsEmpty());
    EXPECT_EQ(result.outputs.size(), 1U);
    EXPECT_FALSE(run(text("if (i < n) y[i] -= x[i];"), once()).pass());
}

TEST_F(RunCheck, AReferenceTakesTheVariantsValuesAndSizes) {
    add_template("power_reference",
                 reference_template(
                     "power_reference", "long long n, const T* x",
                     "double power = 1;\n    for (int p = 0; p < POWER; ++p) power *= kiln::wide(x[e]);\n"
                     "    expected[i] = power + n;\n    bound[i] = 1e-3 * n;",
                     "//@ param T type in half, float = half\n//@ param POWER int in 1..4 = 1\n"));
    const std::string text = line_template(
        "//@ param T type in half, float = float\n//@ param POWER int in 1..4 = 1\n//@ param OTHER int in "
        "1..2 = 1\n"
        "//@ size n = 100\n//@ input x [n]\n//@ output y [n] by power_reference\n",
        "int n, const T* x, float* y",
        "float power = 1;\n    for (int p = 0; p < POWER && i < n; ++p) power *= static_cast<float>(x[i]);\n"
        "    if (i < n) y[i] = power + n;");
    for (const char* type : {"half", "float"})
        EXPECT_TRUE(run(text, once(), {{"T", type}, {"POWER", 3}}).pass()) << type;
    EXPECT_TRUE(run(text, once({{"n", 1}}), {{"POWER", 2}}).pass());
}

TEST_F(RunCheck, ATensorThatTheVariantDoesNotHaveIsNullInKernelAndReference) {
    add_template("add_reference",
                 reference_template("add_reference", "const float* x, const float* one, const float* other",
                                    "expected[i] = kiln::wide(x[e]) + (one != nullptr ? 1 : 0) + (other != "
                                    "nullptr ? kiln::wide(other[e]) : 0);\n    bound[i] = 1e-5;"));
    const Template of =
        service().parse(line_template("//@ param OTHER bool = false\n//@ size n = 31\n//@ input x [n]\n//@ "
                                      "output y [n] by add_reference\n"
                                      "//@ input one [n] if !OTHER && OTHER\n//@ input other [n] if OTHER\n",
                                      "int n, const float* x, float* y, const float* one, const float* other",
                                      "if (i < n) y[i] = x[i] + (one != nullptr ? 1.0f : 0.0f) + (other != "
                                      "nullptr ? other[i] : 0.0f);"),
                        "tested.cu");
    for (const bool other : {false, true}) {
        const RunResult result = Runner(service()).run(of.variant({{"OTHER", other}}), {});
        EXPECT_THAT(result.failures(), IsEmpty());
        EXPECT_EQ(result.problem.tensors.size(), other ? 3U : 2U);
    }
}

TEST_F(RunCheck, AReferenceThatDoesNotAllowTheValuesIsRejected) {
    add_template("few_reference", reference_template("few_reference", "", "expected[i] = bound[i] = 0;",
                                                     "//@ param POWER int in 1..2 = 1\n"));
    const std::string text = line_template(
        "//@ param POWER int in 1..4 = 1\n//@ size n = 100\n//@ output y [n] by few_reference\n",
        "int n, float* y", "if (i < n) y[i] = 0;");
    EXPECT_TRUE(run(text, once(), {{"POWER", 2}}).pass());
    EXPECT_THAT(
        rejected<TemplateError>([&] {
            run(text, once(), {{"POWER", 3}});
        }),
        AllOf(HasSubstr("few_reference can't be the reference of tested POWER=3"), HasSubstr("1..2")));
}

TEST(Element, RoundingIsToNearestEvenAndOnce) {
    EXPECT_EQ(rounded<half>(1 + 0x1p-11), 1);
    EXPECT_EQ(rounded<half>(1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);  // by way of float it would be 1
    EXPECT_EQ(rounded<half>(1 + 3 * 0x1p-11), 1 + 0x1p-9);
    EXPECT_EQ(rounded<half>(0x1p-25), 0);
    EXPECT_EQ(rounded<half>(0x1.8p-25), 0x1p-24);
    EXPECT_EQ(rounded<half>(65519.99), 65504);
    EXPECT_EQ(rounded<half>(-65520), -INFINITY);
    EXPECT_EQ(rounded<bfloat16>(1 + 0x1p-8), 1);
    EXPECT_EQ(rounded<bfloat16>(1 + 0x1p-8 + 0x1p-50), 1 + 0x1p-7);
    EXPECT_EQ(rounded<float>(1 + 0x1p-24 + 0x1p-52), 1 + 0x1p-23);
    EXPECT_EQ(rounded<float>(1e39), INFINITY);
    EXPECT_EQ(rounded<double>(0.1), 0.1);
    for (int bits = 0; bits < 0x10000; ++bits) {
        half value;
        value.bits = static_cast<std::uint16_t>(bits);
        const double exact = wide(value);
        if (!std::isnan(exact)) {
            ASSERT_EQ(rounded<half>(exact), exact) << bits;
        }
    }
}

TEST(Element, PoisonIsANanOfItsOwn) {
    const auto poisoned = []<class T>(T) {
        const std::uint32_t word = poison_word<T>(Poison::first), words[2] = {word, word};
        T value;
        std::memcpy(static_cast<void*>(&value), words, sizeof value);
        EXPECT_TRUE(is_poison(value));
        return wide(value);
    };
    for (const char* type : {"half", "bfloat16", "float", "double"}) {
        EXPECT_TRUE(std::isnan(with_element(type, poisoned))) << type;
        // What arithmetic gives on NVIDIA, AMD and x86.
        with_element(type, []<class T>(T) {
            for (const std::uint64_t bits :
                 {0x7fffULL, 0x7e00ULL, 0xfe00ULL, 0x7fc0ULL, 0x7fffffffULL, 0x7fc00000ULL, 0xffc00000ULL,
                  0x7fffffffffffffffULL, 0x7ff8000000000000ULL, 0xfff8000000000000ULL}) {
                T value;
                std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
                EXPECT_FALSE(is_poison(value)) << bits;
            }
        });
    }
    EXPECT_THAT(rejected<UsageError>([] { with_element("float4", [](auto) {}); }), HasSubstr("'float4'"));
}

TEST(Element, PoisonsAreHighAndLow) {
    for (const char* type :
         {"half", "bfloat16", "float", "double", "bool", "signed char", "unsigned char", "short",
          "unsigned short", "int", "unsigned int", "long long", "unsigned long long"})
        with_element(type, [&]<class T>(T) {
            const auto value = [](Poison poison) {
                const std::uint32_t word = poison_word<T>(poison), words[2] = {word, word};
                T element;
                std::memcpy(static_cast<void*>(&element), words, sizeof element);
                return wide(element);
            };
            const double high = value(Poison::high), low = value(Poison::low);
            if constexpr (is_float<T>) {
                EXPECT_GT(high, 5e4) << type;
                EXPECT_LT(low, -5e4) << type;
            } else {
                const auto most = static_cast<double>(std::numeric_limits<T>::max());
                EXPECT_GT(high, 0.99 * most) << type;
                EXPECT_LT(low, std::is_signed_v<T> ? -0.99 * most : 1e-300) << type;
            }
            EXPECT_TRUE(std::isfinite(high) && std::isfinite(low)) << type;
            // An element of which a kernel writes only some bytes shows, too.
            const std::uint32_t first = poison_word<T>(Poison::first);
            for (int byte = 0; byte < 32; byte += 8) {
                EXPECT_NE(first >> byte & 0xff, poison_word<T>(Poison::high) >> byte & 0xff) << type;
                EXPECT_NE(first >> byte & 0xff, poison_word<T>(Poison::low) >> byte & 0xff) << type;
            }
        });
}

TEST_F(RunCheck, TheReferenceNeedNotKnowHowTheOutputIsRounded) {
    // Its bound is of the number before that, and leaves nothing to it.
    const std::string parameters =
        "//@ param T type in half, bfloat16, float = half\n//@ param E int in 0, 16, 120 = 0\n";
    add_template("third_reference",
                 reference_template("third_reference", "const float* x",
                                    "expected[i] = ldexp(kiln::wide(x[e]) / 3, -E);\n"
                                    "    bound[i] = 0x1p-22 * fabs(expected[i]) + 0x1p-149;",
                                    parameters));
    const auto third = [&](const std::string& value, const Values& values) {
        return run(line_template(parameters + "//@ size n = 5000\n//@ input x [n]\n"
                                              "//@ output y [n] by third_reference\n",
                                 "int n, const float* x, T* y",
                                 "const float third = x[i < n ? i : 0] / 3 * "
                                 "(E == 0 ? 1.0f : E == 16 ? 0x1p-16f : 0x1p-120f);\n"
                                 "    if (i < n) y[i] = T(" +
                                     value + ");"),
                   once(), values);
    };
    for (const int exponent : {0, 16, 120}) {
        for (const char* const type : {"half", "bfloat16", "float"}) {
            const RunResult right = third("third", {{"T", type}, {"E", exponent}});
            EXPECT_TRUE(right.pass()) << type << " " << exponent;
            EXPECT_LE(right.outputs_checked[0].worst, 1);
        }
        const RunResult narrow = third("float(kiln::bfloat16(third))", {{"T", "float"}, {"E", exponent}});
        EXPECT_GT(narrow.outputs_checked[0].wrong, 4900U) << exponent;
        const RunResult cut = third("__uint_as_float(__float_as_uint(third) & 0xffff0000u)",
                                    {{"T", "bfloat16"}, {"E", exponent}});
        EXPECT_GT(cut.outputs_checked[0].wrong, 2000U) << "cut off, not rounded to nearest: " << exponent;
    }
}

TEST_F(RunCheck, NothingIsLaunchedForNothing) {
    add_doubling_reference();
    std::string text = doubling("y[i] = 5;");
    text.replace(text.find("ceil_div(n + 1, 32)"), 19, "ceil_div(n, 32)");
    RunOptions options;
    options.sizes = {{"n", 0}};
    options.graph = true;
    const RunResult result = run(text, options);
    EXPECT_THAT(result.failures(), IsEmpty());
    EXPECT_EQ(result.outputs_checked[0].elements, 0U);
    EXPECT_EQ(result.problem.flops, 0);
}

}  // namespace
}  // namespace kiln::test
