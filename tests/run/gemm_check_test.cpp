// SPDX-License-Identifier: Apache-2.0
//
// Checking C = A * B in FP64 accepts what rounding allows, and finds what is wrong; which kernels are GEMMs.
#include "run/gemm_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "run/inputs.h"
#include "run_support.h"

namespace kiln {
namespace {

struct Case {
    int m, n, k;
    const char* type;
};

std::string case_name(const ::testing::TestParamInfo<Case>& one) {
    const auto& [m, n, k, type] = one.param;
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + "_" + type;
}

/// Elements of a type, and the operand that they are.
struct Matrix {
    Matrix(const std::string& name, const char* type, int rows, int columns, Data data, int k)
        : bytes([&] {
              Tensor tensor;
              tensor.name = name;
              tensor.type = type;
              tensor.element_bytes = tensor.type == "float" ? 4 : 2;
              tensor.extents = {rows, columns};
              tensor.pattern = Pattern::factor;
              tensor.pattern_size = k;
              std::vector<std::byte> made(tensor.size_bytes());
              make_elements(tensor, data, 11, 0, made);
              return made;
          }()),
          operand(type, rows, columns, bytes.data()) {}

    std::vector<std::byte> bytes;
    GemmOperand operand;
};

class Verification : public ::testing::TestWithParam<Case> {
  protected:
    /// C as a GPU computes it: FP32 accumulation in the order of k.
    std::vector<float> product(const GemmOperand& x, const GemmOperand& y) const {
        std::vector<float> result(std::size_t(m) * std::size_t(n));
        std::vector<double> row(static_cast<std::size_t>(n));
        for (int i = 0; i < m; ++i) {
            float* const out = result.data() + std::size_t(i) * row.size();
            for (int p = 0; p < k; ++p) {
                y.widen(p, 0, n, row.data());
                const auto factor = float(x.at(i, p));
                for (std::size_t j = 0; j < row.size(); ++j) out[j] += factor * float(row[j]);
            }
        }
        return result;
    }
    GemmCheck::ReadRows rows() const {
        return [this](std::int64_t first, std::span<float> out) {
            std::copy_n(c.begin() + first * n, out.size(), out.begin());
        };
    }
    static bool pass(const OutputCheck& check) {
        return check.wrong == 0 && check.wrong_rows.value_or(0) == 0;
    }
    OutputCheck full() const { return GemmCheck(a, b).full(rows()); }
    OutputCheck sample() const { return GemmCheck(a, b).sampled(rows(), GemmCheck::kSample, 5, true); }
    float& element(int i, int j) { return c[std::size_t(i) * std::size_t(n) + std::size_t(j)]; }

    const int m = GetParam().m, n = GetParam().n, k = GetParam().k;
    const Matrix left = Matrix("a", GetParam().type, m, k, Data::random, k);
    const Matrix right = Matrix("b", GetParam().type, k, n, Data::random, k);
    const GemmOperand &a = left.operand, &b = right.operand;
    std::vector<float> c = product(a, b);
};

TEST_P(Verification, AcceptsARightResult) {
    EXPECT_TRUE(pass(full()));
    EXPECT_EQ(full().checked, c.size());
    EXPECT_LE(full().worst, 1);
    EXPECT_TRUE(pass(sample()));
    EXPECT_LE(sample().worst, 1);
    EXPECT_LE(sample().max_abs_error, full().max_abs_error);
}

TEST_P(Verification, FullFindsOneElementJustBeyondItsBound) {
    // The bound, computed here on its own: K u (|A||B|) + u |reference|.
    const int i = m - 1, j = n / 2;
    double reference = 0, magnitude = 0;
    for (int p = 0; p < k; ++p) {
        reference += a.at(i, p) * b.at(p, j);
        magnitude += std::abs(a.at(i, p) * b.at(p, j));
    }
    const double bound = (k * magnitude + std::abs(reference)) / 16777216.0;
    const auto within = float(reference + 0.9 * bound);
    if (std::abs(double(within) - reference) <= bound) {  // a float may not lie that near
        element(i, j) = within;
        EXPECT_TRUE(pass(full()));
    }
    element(i, j) = float(reference + 3 * bound);
    const OutputCheck check = full();
    EXPECT_EQ(check.wrong, 1U);
    ASSERT_TRUE(check.first_wrong);
    EXPECT_EQ(check.first_wrong->index, (std::vector<std::int64_t>{i, j}));
    EXPECT_NEAR(check.first_wrong->bound, bound, 1e-9 * bound);
    EXPECT_GT(check.worst, 1);
}

TEST_P(Verification, FindsAnElementThatWasNeverWritten) {
    c[c.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(pass(full()));
    EXPECT_TRUE(std::isinf(full().max_abs_error));
    EXPECT_FALSE(pass(sample()));
    EXPECT_EQ(sample().wrong_rows, 1U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Verification,
                         ::testing::Values(Case{1, 1, 1, "half"}, Case{1, 1, 1, "float"},
                                           Case{17, 19, 23, "bfloat16"}, Case{63, 65, 67, "float"},
                                           Case{130, 257, 300, "half"}, Case{3, 4100, 5000, "float"}),
                         case_name);

TEST_P(Verification, OfIntegersFindsOneProductThatIsMissing) {
    const Matrix x("a", GetParam().type, m, k, Data::contributions, k),
        y("b", GetParam().type, k, n, Data::contributions, k);
    const GemmCheck check(x.operand, y.operand);
    c = product(x.operand, y.operand);
    EXPECT_TRUE(pass(check.full(rows())));
    EXPECT_TRUE(pass(check.sampled(rows(), GemmCheck::kSample, 5, true)));
    EXPECT_EQ(check.full(rows()).max_abs_error, 0);
    const int i = m / 2, j = n - 1;
    element(i, j) -= float(x.operand.at(i, k / 3) * y.operand.at(k / 3, j));
    EXPECT_EQ(check.full(rows()).wrong, 1U);
    EXPECT_EQ(check.sampled(rows(), GemmCheck::kSample, 5, true).wrong_rows, 1U);
}

class SampleFinds : public Verification {};

TEST_P(SampleFinds, AWrongTile) {
    for (int i = 64; i < 128; ++i)
        for (int j = 128; j < 192; ++j) element(i, j) *= 0.5F;
    EXPECT_GT(sample().wrong_rows, 0U) << "Freivalds' test alone should see it";
}

TEST_P(SampleFinds, SwappedRows) {
    const auto row = [&](int i) { return c.begin() + std::ptrdiff_t(i) * n; };
    std::swap_ranges(row(100), row(101), row(201));
    EXPECT_EQ(sample().wrong_rows, 2U);
}

TEST_P(SampleFinds, AWrongLastColumn) {
    for (int i = 0; i < m; ++i) element(i, n - 1) = 0;
    EXPECT_GT(sample().wrong, 0U) << "the sample has elements of the last column";
}

INSTANTIATE_TEST_SUITE_P(Shapes, SampleFinds, ::testing::Values(Case{256, 300, 200, "half"}), case_name);

TEST(GemmOperand, WidensWhatTheLibraryConverts) {
    for (const char* type : {"half", "bfloat16"}) {
        const Matrix matrix("a", type, 100, 100, Data::random, 1);
        const auto* const words = reinterpret_cast<const std::uint16_t*>(matrix.bytes.data());
        for (int i = 0; i < 100 * 100; ++i) {
            half h;
            bfloat16 b;
            h.bits = b.bits = words[i];
            EXPECT_EQ(matrix.operand.at(i / 100, i % 100),
                      double(std::string(type) == "half" ? float(h) : float(b)));
        }
    }
}

std::string gemm_text(const std::string& lines, const std::string& arguments) {
    return "// f: for tests.\n//\n//@ kernel f\n//@ block 1\n//@ grid 1\n" + lines +
           "#include \"kiln/device.h\"\n\nextern \"C\" __global__ void f(" + arguments + ") {}\n";
}

std::optional<Problem> problem_of(const std::string& lines, const std::string& arguments,
                                  const Sizes& sizes = {}) {
    return gemm_problem(Template::parse(gemm_text(lines, arguments), "f.cu").variant(), sizes);
}

constexpr const char* kArguments = "int m, int n, int k, const kiln::half* a, const kiln::half* b, float* c";

TEST(GemmProblem, IsDeterminedByTheDeclarationOfTheKernel) {
    const auto plain =
        problem_of("", "int rows, int columns, int depth, const float* x, const float* y, float* z",
                   {{"m", 5}, {"n", 6}, {"depth", 7}});
    ASSERT_TRUE(plain.has_value());
    EXPECT_EQ(plain->sizes, (Sizes{{"rows", 5}, {"columns", 6}, {"depth", 7}}));
    EXPECT_EQ(plain->tensors[1].extents, (std::vector<std::int64_t>{7, 6}));
    EXPECT_EQ(plain->flops, 2 * 5 * 6 * 7);
    EXPECT_EQ(plain->bytes, 4 * (5 * 7 + 7 * 6 + 5 * 6));
    EXPECT_FALSE(problem_of("", "int m, int n, int k, const float* a, const float* b, double* c"));
    EXPECT_FALSE(problem_of("", "int m, int n, const float* a, const float* b, float* c"));
    EXPECT_THROW(problem_of("", kArguments, {{"batch", 2}}), VariantError);
}

TEST(GemmProblem, TakesSizesByTheirNames) {
    const auto found = problem_of("", "int n, int m, int k, const float* a, const float* b, float* c",
                                  {{"m", 5}, {"n", 6}, {"k", 7}});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->sizes, (Sizes{{"m", 5}, {"n", 6}, {"k", 7}}));
    EXPECT_EQ(found->tensors[0].extents, (std::vector<std::int64_t>{5, 7}));
    EXPECT_EQ(found->tensors[1].extents, (std::vector<std::int64_t>{7, 6}));
    EXPECT_EQ(found->tensors[2].extents, (std::vector<std::int64_t>{5, 6}));
    EXPECT_TRUE(problem_of("", "int m, int columns, int depth, const float* a, const float* b, float* c"));
    EXPECT_FALSE(problem_of("", "int k, int rows, int columns, const float* a, const float* b, float* c"));
    EXPECT_FALSE(problem_of("", "int m, int n, int k, const float* b, const float* a, float* c"));
}

TEST(GemmProblem, OfWhatATemplateDeclaresOtherwiseIsNone) {
    const std::string sizes = "//@ size m = 4\n//@ size n = 5\n//@ size k = 6\n//@ input a [m, k]\n";
    EXPECT_TRUE(problem_of(sizes + "//@ input b [k, n]\n//@ output c [m, n]\n", kArguments));
    EXPECT_TRUE(
        problem_of(sizes + "//@ input b [k, n]\n//@ output c [m, n] by gemm_reference\n", kArguments));
    EXPECT_FALSE(problem_of(sizes + "//@ input b [n, k]\n//@ output c [m, n]\n", kArguments))
        << "B is transposed";
    EXPECT_FALSE(
        problem_of(sizes + "//@ input b [k, n]\n//@ output c [m, n] by other_reference\n", kArguments));
    EXPECT_FALSE(problem_of(sizes + "//@ input b [k, n]\n//@ inout c [m, n]\n", kArguments));
}

}  // namespace
}  // namespace kiln
