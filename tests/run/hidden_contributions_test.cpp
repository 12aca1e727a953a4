// SPDX-License-Identifier: Apache-2.0
//
// Bounds that hide a missing contribution are reported, those that do not are not.
#include <cmath>

#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::IsEmpty;

class RunContributions : public Run {
  protected:
    /// Sums of the columns or rows of x, with one element of each left out where `skipped` is below cols.
    static std::string summing(const std::string& reference, const std::string& sizes,
                               long long skipped = -1) {
        return line_template("//@ size n = " + sizes +
                                 "\n//@ size cols = 20000\n//@ input x [n, cols]\n//@ output y [n] by " +
                                 reference + "\n",
                             "int n, int cols, const float* x, float* y",
                             "if (i >= n) return;\n    float sum = 0;\n    for (int j = 0; j < cols; ++j)\n"
                             "        if (j != " +
                                 std::to_string(skipped) + ") sum += x[i * cols + j];\n    y[i] = sum;");
    }
    void add_row_sum(const std::string& name, const std::string& bound,
                     const std::string& value = "sum.value()", const std::string& pattern = "term cols") {
        add_template(name, reference_template(name, "int cols, const float* x",
                                              "kiln::FloatSum sum;\n"
                                              "    for (int j = 0; j < cols; ++j) sum.add(x[e * cols + j]);\n"
                                              "    expected[i] = " +
                                                  value + ";\n    bound[i] = " + bound + ";",
                                              "//@ data x " + pattern + "\n"));
    }
    std::optional<Contributions> contributions(const std::string& text) {
        const RunResult result = run(text, once());
        EXPECT_THAT(result.failures(), IsEmpty());
        return result.contributions_checked.at(0).contributions;
    }
};

TEST_F(RunContributions, ABoundThatHidesThemIsReported) {
    add_row_sum("plain_reference", "kiln::gamma<float>(cols) * sum.magnitude()");
    const auto found = contributions(summing("plain_reference", "5"));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->tried, 5U * 8);
    EXPECT_GT(found->hidden, 10U);
    EXPECT_EQ(found->input, "x");
    EXPECT_GE(found->change, 1);
    EXPECT_LE(found->change, found->bound);
    // That is so: a kernel that leaves out such a one passes.
    EXPECT_TRUE(run(summing("plain_reference", "5", 19999), once()).pass());
}

TEST_F(RunContributions, BoundsOfZeroHideNothing) {
    add_row_sum("exact_reference", "sum.is_exact() ? 0 : kiln::gamma<float>(cols) * sum.magnitude()");
    EXPECT_FALSE(contributions(summing("exact_reference", "5")).has_value());
    EXPECT_FALSE(run(summing("exact_reference", "5", 19999), once()).pass());
}

TEST_F(RunContributions, SmallBoundsHideNothingEither) {
    add_row_sum("rounded_reference", "0.4");
    const auto found = contributions(summing("rounded_reference", "100"));
    ASSERT_TRUE(found.has_value());
    EXPECT_GT(found->tried, 300U);
    EXPECT_EQ(found->hidden, 0U);
}

TEST_F(RunContributions, ElementsWithoutABoundAreNotLookedAt) {
    add_row_sum("loose_reference", "e % 2 == 0 ? 1 / 0.0 : 0.4");
    EXPECT_EQ(contributions(summing("loose_reference", "6")).value().tried, 3U * 8);
}

TEST_F(RunContributions, WhatIsNoSumOfTheInputsElementsIsNotGuessedAt) {
    add_row_sum("odd_reference", "0.4", "sum.value()", "term cols + 1");
    EXPECT_FALSE(contributions(summing("odd_reference", "5")).has_value());
}

// The columns of A and the rows of B.
TEST_F(RunContributions, FactorsOfProductsAreLeftOutOfBoth) {
    add_template(
        "product_reference",
        reference_template("product_reference", "int n, int k, const float* a, const float* b",
                           "double sum = 0, magnitude = 0;\n"
                           "    for (int p = 0; p < k; ++p) {\n"
                           "        const double term = kiln::wide(a[e / n * k + p]) * b[p * n + e % n];\n"
                           "        sum += term; magnitude += fabs(term);\n    }\n"
                           "    expected[i] = sum; bound[i] = SCALE * kiln::gamma<float>(k) * magnitude;",
                           "//@ param SCALE int in 1, 1000 = 1\n//@ data a factor k\n//@ data b factor k\n"));
    const std::string text = line_template(
        "//@ param SCALE int in 1, 1000 = 1\n//@ size n = 7\n//@ size k = 500\n//@ input a [n, k]\n//@ input "
        "b [k, n]\n"
        "//@ output y [n, n] by product_reference\n",
        "int n, int k, const float* a, const float* b, float* y",
        "if (i >= n) return;\n    for (int j = 0; j < n; ++j) {\n        float sum = 0;\n"
        "        for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];\n        y[i * n + j] = "
        "sum;\n    }");
    for (const int scale : {1, 1000}) {
        const RunResult result = run(text, once(), {{"SCALE", scale}});
        EXPECT_THAT(result.failures(), IsEmpty());
        const auto found = result.contributions_checked.at(0).contributions;
        ASSERT_TRUE(found.has_value());
        EXPECT_EQ(found->tried, 49U * 8 * 2);
        EXPECT_EQ(found->hidden > found->tried / 2, scale == 1000) << found->hidden;
    }
}

}  // namespace
}  // namespace kiln::test
