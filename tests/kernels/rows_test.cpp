// SPDX-License-Identifier: Apache-2.0
//
// Kernels that hold rows in registers and shared memory (kiln/row.h): rows that end in either, that are full, too long
// or not aligned; and softmax of elements so large that products of them lose what sets them apart.
#include <cmath>

#include "library.h"

namespace kiln {
namespace {

// THREADS = 32 with 8 elements x (2 + 2) accesses hold rows of 1024, those of 4 x (2 + 2) 512.
constexpr int kCols[] = {8, 256, 504, 512, 520, 1000, 1001, 1024, 1032};

void expect_right_at_each_length(const char* name, const std::vector<Values>& variants) {
    test::HostLibrary library(5);
    for (const Values& values : variants) {
        const Variant variant = library.service().find(name).variant(values);
        for (const int cols : kCols) {
            const RunResult result = library.runner().run(variant, test::once({{"rows", 5}, {"cols", cols}}));
            EXPECT_TRUE(result.pass()) << variant.text() << " cols=" << cols << "\n"
                                       << test::failures_text(result);
        }
    }
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
