// SPDX-License-Identifier: Apache-2.0
//
// Kernels that hold rows in registers and shared memory (kiln/row.h): rows that end in either, that are full, too long
// or not aligned; and softmax of elements so large that products of them lose what sets them apart.
#include <array>
#include <cmath>
#include <span>

#include "library.h"

namespace kiln {
namespace {

// THREADS = 32 with 8 elements x (2 + 2) accesses hold rows of 1024, those of 4 x (2 + 2) 512.
constexpr int kCols[] = {8, 256, 504, 512, 520, 1000, 1001, 1024, 1032};

void expect_right_at_each_length(const char* name, const std::vector<Values>& variants,
                                 std::span<const int> lengths = kCols, int skew = 0) {
    test::HostLibrary library(5);
    for (const Values& values : variants) {
        const Variant variant = library.service().find(name).variant(values);
        for (const int cols : lengths) {
            RunOptions options = test::once({{"rows", 5}, {"cols", cols}});
            options.skew = skew;
            const RunResult result = library.runner().run(variant, options);
            EXPECT_TRUE(result.pass()) << variant.text() << " cols=" << cols << " skew=" << skew << "\n"
                                       << test::failures_text(result);
        }
    }
}

// Rows that begin at any element, within a vector and over several, up to what fits with both ends cut: 1017 and 509.
void expect_right_from_any_element(const char* name, const std::vector<Values>& variants) {
    constexpr int kLengths[] = {1, 2, 7, 8, 9, 255, 509, 510, 761, 1001, 1017, 1018};
    for (const int skew : {0, 1, 6}) expect_right_at_each_length(name, variants, kLengths, skew);
}

TEST(RowsInRegisters, SoftmaxIsRightWhereverTheyEnd) {
    expect_right_at_each_length(
        "softmax",
        {{{"THREADS", 32}, {"VEC", 8}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"ROWS", 2}, {"RECOMPUTE", true}},
         {{"T", "float"}, {"THREADS", 32}, {"VEC", 4}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"RECOMPUTE", true}},
         {{"T", "bfloat16"}, {"THREADS", 32}, {"VEC", 8}, {"ITEMS", 4}, {"ROWS", 4}}});
}

TEST(RowsInRegisters, LayerNormIsRightWhereverTheyEnd) {
    expect_right_at_each_length(
        "layer_norm", {{{"THREADS", 32}, {"VEC", 8}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"ROWS", 2}},
                       {{"T", "float"}, {"THREADS", 32}, {"VEC", 4}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}},
                       {{"T", "bfloat16"}, {"THREADS", 32}, {"VEC", 8}, {"ITEMS", 4}, {"ROWS", 4}}});
}

TEST(RowsOfAnyAlignment, SoftmaxIsRight) {
    expect_right_from_any_element(
        "softmax",
        {{{"ANY_ROWS", true},
          {"THREADS", 32},
          {"VEC", 8},
          {"ITEMS", 2},
          {"SMEM_ITEMS", 2},
          {"ROWS", 2},
          {"RECOMPUTE", true}},
         {{"ANY_ROWS", true}, {"T", "float"}, {"THREADS", 32}, {"VEC", 4}, {"ITEMS", 4}, {"ROWS", 4}}});
}

TEST(RowsOfAnyAlignment, LayerNormIsRight) {
    expect_right_from_any_element(
        "layer_norm",
        {{{"ANY_ROWS", true}, {"THREADS", 32}, {"VEC", 8}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"ROWS", 2}},
         {{"ANY_ROWS", true}, {"T", "bfloat16"}, {"THREADS", 16}, {"VEC", 4}, {"ITEMS", 8}, {"ROWS", 8}}});
}

TEST(RowsOfAnyAlignment, RmsNormIsRight) {
    expect_right_from_any_element(
        "rms_norm",
        {{{"ANY_ROWS", true}, {"THREADS", 32}, {"VEC", 8}, {"ITEMS", 4}, {"RESIDUAL", true}, {"ROWS", 2}},
         {{"ANY_ROWS", true}, {"T", "float"}, {"THREADS", 32}, {"VEC", 4}, {"ITEMS", 4}}});
}

// Pieces of rows that begin and end within 16 bytes, the last with fewer rows; rows as long as a piece holds, and longer.
void expect_right_in_pieces(const char* name, const std::vector<Values>& variants) {
    constexpr int kLengths[] = {1, 2, 8, 9, 31, 32, 33, 63, 64, 65};
    for (const int skew : {0, 1, 6}) expect_right_at_each_length(name, variants, kLengths, skew);
}

TEST(RowsInPieces, SoftmaxIsRight) {
    expect_right_in_pieces(
        "softmax",
        {{{"STAGED", true}, {"THREADS", 8}, {"ROWS", 4}, {"VEC", 1}, {"ITEMS", 8}},
         {{"STAGED", true}, {"THREADS", 4}, {"ROWS", 16}, {"VEC", 8}, {"ITEMS", 2}, {"RECOMPUTE", true}},
         {{"STAGED", true}, {"T", "float"}, {"THREADS", 64}, {"ROWS", 2}, {"VEC", 1}, {"ITEMS", 1}}});
}

TEST(RowsInPieces, LayerNormIsRight) {
    expect_right_in_pieces(
        "layer_norm",
        {{{"STAGED", true}, {"THREADS", 8}, {"ROWS", 4}, {"VEC", 1}, {"ITEMS", 8}},
         {{"STAGED", true}, {"T", "float"}, {"THREADS", 16}, {"ROWS", 2}, {"VEC", 2}, {"ITEMS", 2}}});
}

TEST(RowsInPieces, RmsNormIsRight) {
    expect_right_in_pieces(
        "rms_norm",
        {{{"STAGED", true}, {"THREADS", 8}, {"ROWS", 4}, {"VEC", 1}, {"ITEMS", 8}, {"RESIDUAL", true}},
         {{"STAGED", true}, {"T", "bfloat16"}, {"THREADS", 4}, {"ROWS", 16}, {"VEC", 4}, {"ITEMS", 4}}});
}

// Rows of x and y that are cut at different columns, which whole accesses can't take.
TEST(RowsOfAnyAlignment, OfAddressesThatDifferAreRight) {
    using SoftmaxFn = void(long long rows, int cols, const float* x, float* y);
    test::HostLibrary library;
    const auto softmax = library.service().build<SoftmaxFn>(library.service().find("softmax").variant(
        {{"T", "float"}, {"VEC", 4}, {"THREADS", 32}, {"ANY_ROWS", true}}));
    constexpr std::size_t kRows = 3, kLength = 37;
    for (const std::size_t of_x : {0, 1, 3}) {
        for (const std::size_t of_y : {0, 1, 2}) {
            alignas(16) std::array<float, kRows * kLength + 8> x{}, y{};
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 11) * 0.5F;
            y.fill(-1);
            softmax(library.service().stream(), kRows, kLength, x.data() + of_x, y.data() + of_y);
            library.service().stream().synchronize();
            for (std::size_t row = 0; row < kRows; ++row) {
                double sum = 0;
                for (std::size_t i = 0; i < kLength; ++i) sum += std::exp(x[of_x + row * kLength + i]);
                for (std::size_t i = 0; i < kLength; ++i)
                    EXPECT_NEAR(y[of_y + row * kLength + i], std::exp(x[of_x + row * kLength + i]) / sum,
                                1e-6)
                        << of_x << " " << of_y << ": " << row << ", " << i;
            }
            for (std::size_t i = 0; i < of_y; ++i) EXPECT_EQ(y[i], -1);
            for (std::size_t i = of_y + kRows * kLength; i < y.size(); ++i) EXPECT_EQ(y[i], -1);
        }
    }
}

// In registers and read twice, the differences of neighbouring floats count.
TEST(RowsInRegisters, SoftmaxOfLargeElementsLosesNothing) {
    using SoftmaxFn = void(long long rows, int cols, const float* x, float* y);
    test::HostLibrary library;
    const auto softmax = library.service().build<SoftmaxFn>(
        library.service().find("softmax").variant({{"T", "float"}, {"VEC", 4}, {"THREADS", 32}}));
    for (const int cols : {64, 65}) {
        const auto count = static_cast<std::size_t>(cols);
        std::vector<float> x(count), y(count);
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
            x[i] = 10000 + static_cast<float>(i % 13) * 0.25F;
            sum += std::exp(static_cast<double>(x[i]) - 10000);
        }
        softmax(library.service().stream(), 1, cols, x.data(), y.data());
        library.service().stream().synchronize();
        for (std::size_t i = 0; i < count; ++i) {
            const double expected = std::exp(static_cast<double>(x[i]) - 10000) / sum;
            EXPECT_NEAR(y[i], expected, expected * 0x1p-18) << "element " << i << " of " << cols;
        }
    }
}

}  // namespace
}  // namespace kiln
