// SPDX-License-Identifier: Apache-2.0
//
// Verification accepts what rounding allows, and finds what is wrong.
#include "cli/verify.h"

#include <gtest/gtest.h>
#include <kiln/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kiln::cli {
namespace {

struct Case {
    Shape shape;
    Dtype dtype;
};

std::string case_name(const ::testing::TestParamInfo<Case>& one) {
    const auto& [shape, dtype] = one.param;
    return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k) + "_" +
           std::string(name(dtype));
}

class Verification : public ::testing::TestWithParam<Case> {
  protected:
    /// A product as a GPU computes it: FP32 accumulation in the order of k.
    static std::vector<float> product(const Matrix& a, const Matrix& b) {
        std::vector<float> c(std::size_t(a.rows()) * std::size_t(b.columns()));
        std::vector<double> row(std::size_t(b.columns()));
        for (int i = 0; i < a.rows(); ++i) {
            float* const out = c.data() + std::size_t(i) * row.size();
            for (int p = 0; p < a.columns(); ++p) {
                b.widen(p, 0, b.columns(), row.data());
                const auto x = float(a.at(i, p));
                for (std::size_t j = 0; j < row.size(); ++j) out[j] += x * float(row[j]);
            }
        }
        return c;
    }

    const Shape shape = GetParam().shape;
    const Matrix a = Matrix::random(GetParam().dtype, shape.m, shape.k, 11);
    const Matrix b = Matrix::random(GetParam().dtype, shape.k, shape.n, 12);
    std::vector<float> c = product(a, b);
};

TEST_P(Verification, AcceptsARightResult) {
    const Verdict full = verify_full(a, b, c);
    EXPECT_TRUE(full.pass());
    EXPECT_EQ(full.checked, c.size());
    EXPECT_LE(full.max_error_over_bound, 1);
    const Verdict sample = verify_sample(a, b, c, 5);
    EXPECT_TRUE(sample.pass());
    EXPECT_LE(sample.max_error_over_bound, 1);
    EXPECT_LE(sample.max_abs_error, full.max_abs_error);
}

TEST_P(Verification, FullFindsOneElementJustBeyondItsBound) {
    // The bound, computed here on its own: K u (|A||B|) + u |reference|.
    const int i = shape.m - 1, j = shape.n / 2;
    double reference = 0, magnitude = 0;
    for (int p = 0; p < shape.k; ++p) {
        reference += a.at(i, p) * b.at(p, j);
        magnitude += std::abs(a.at(i, p) * b.at(p, j));
    }
    const double bound = (shape.k * magnitude + std::abs(reference)) / 16777216.0;
    float& element = c[std::size_t(i) * std::size_t(shape.n) + std::size_t(j)];
    const auto within = float(reference + 0.9 * bound);
    if (std::abs(double(within) - reference) <= bound) {  // a float may not lie that near
        element = within;
        EXPECT_TRUE(verify_full(a, b, c).pass());
    }
    element = float(reference + 3 * bound);
    const Verdict verdict = verify_full(a, b, c);
    EXPECT_FALSE(verdict.pass());
    EXPECT_EQ(verdict.wrong, 1U);
    ASSERT_TRUE(verdict.first_wrong);
    EXPECT_EQ(verdict.first_wrong->row, i);
    EXPECT_EQ(verdict.first_wrong->column, j);
    EXPECT_NEAR(verdict.first_wrong->bound, bound, 1e-9 * bound);
    EXPECT_GT(verdict.max_error_over_bound, 1);
}

TEST_P(Verification, FindsAnElementThatWasNeverWritten) {
    c[c.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(verify_full(a, b, c).pass());
    EXPECT_TRUE(std::isinf(verify_full(a, b, c).max_abs_error));
    const Verdict sample = verify_sample(a, b, c, 5);
    EXPECT_FALSE(sample.pass());
    EXPECT_EQ(sample.not_finite, 1U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Verification,
                         ::testing::Values(Case{{1, 1, 1}, Dtype::f16}, Case{{1, 1, 1}, Dtype::f32},
                                           Case{{17, 19, 23}, Dtype::bf16}, Case{{63, 65, 67}, Dtype::f32},
                                           Case{{130, 257, 300}, Dtype::f16},
                                           Case{{3, 4100, 5000}, Dtype::f32}),
                         case_name);

TEST_P(Verification, OfIntegersFindsOneProductThatIsMissing) {
    const Matrix x = Matrix::integers(GetParam().dtype, shape.m, shape.k, shape.k, 21);
    const Matrix y = Matrix::integers(GetParam().dtype, shape.k, shape.n, shape.k, 22);
    c = product(x, y);
    EXPECT_TRUE(verify_full(x, y, c).pass());
    EXPECT_TRUE(verify_sample(x, y, c, 5).pass());
    EXPECT_EQ(verify_full(x, y, c).max_abs_error, 0);
    const int i = shape.m / 2, j = shape.n - 1;
    c[std::size_t(i) * std::size_t(shape.n) + std::size_t(j)] -= float(x.at(i, shape.k / 3) * y.at(shape.k / 3, j));
    EXPECT_EQ(verify_full(x, y, c).wrong, 1U);
    EXPECT_EQ(verify_sample(x, y, c, 5).wrong_rows, 1U);
}

class SampleFinds : public Verification {};

TEST_P(SampleFinds, AWrongTile) {
    for (int i = 64; i < 128; ++i)
        for (int j = 128; j < 192; ++j) c[std::size_t(i) * std::size_t(shape.n) + std::size_t(j)] *= 0.5F;
    const Verdict verdict = verify_sample(a, b, c, 5);
    EXPECT_FALSE(verdict.pass());
    EXPECT_GT(verdict.wrong_rows, 0U) << "Freivalds' test alone should see it";
}

TEST_P(SampleFinds, SwappedRows) {
    const auto row = [&](int i) { return c.begin() + std::ptrdiff_t(i) * shape.n; };
    std::swap_ranges(row(100), row(101), row(201));
    const Verdict verdict = verify_sample(a, b, c, 5);
    EXPECT_FALSE(verdict.pass());
    EXPECT_EQ(verdict.wrong_rows, 2U);
}

TEST_P(SampleFinds, AWrongLastColumn) {
    for (int i = 0; i < shape.m; ++i) c[std::size_t(i) * std::size_t(shape.n) + std::size_t(shape.n) - 1] = 0;
    const Verdict verdict = verify_sample(a, b, c, 5);
    EXPECT_GT(verdict.wrong, 0U) << "the sample has elements of the last column";
}

INSTANTIATE_TEST_SUITE_P(Shapes, SampleFinds, ::testing::Values(Case{{256, 300, 200}, Dtype::f16}),
                         case_name);

TEST(Matrix, IsTheSameForTheSameSeedAndRoundedToItsType) {
    const Matrix one = Matrix::random(Dtype::f16, 300, 301, 7),
                 same = Matrix::random(Dtype::f16, 300, 301, 7);
    const Matrix other = Matrix::random(Dtype::f16, 300, 301, 8);
    EXPECT_TRUE(std::ranges::equal(one.bytes(), same.bytes()));
    EXPECT_FALSE(std::ranges::equal(one.bytes(), other.bytes()));
    double sum = 0, least = 1, most = -1;
    for (int i = 0; i < 300; ++i)
        for (int j = 0; j < 301; ++j) {
            const double value = one.at(i, j);
            EXPECT_EQ(value, double(float(half(float(value)))));
            sum += value;
            least = std::min(least, value);
            most = std::max(most, value);
        }
    EXPECT_LT(std::abs(sum / (300 * 301)), 0.02);
    EXPECT_GE(least, -1);
    EXPECT_LT(least, -0.99);
    EXPECT_LE(most, 1);
    EXPECT_GT(most, 0.99);
}

TEST(Matrix, WidensWhatTheLibraryConverts) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        const Matrix matrix = Matrix::random(dtype, 100, 100, 3);
        const auto* const words = reinterpret_cast<const std::uint16_t*>(matrix.bytes().data());
        for (int i = 0; i < 100 * 100; ++i) {
            half h;
            bfloat16 b;
            h.bits = b.bits = words[i];
            EXPECT_EQ(matrix.at(i / 100, i % 100), double(dtype == Dtype::f16 ? float(h) : float(b)));
        }
    }
}

TEST(Memory, ArithmeticDoesNotWrap) {
    constexpr int kMost = std::numeric_limits<int>::max();
    const Footprint footprint(Dtype::f32, {kMost, kMost, kMost});
    EXPECT_EQ(footprint.c, std::uint64_t{kMost} * kMost * 4);
    EXPECT_EQ(footprint.total(), std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(Footprint(Dtype::f16, {65536, 65536, 1}).c, std::uint64_t{1} << 34);
}

}  // namespace
}  // namespace kiln::cli
