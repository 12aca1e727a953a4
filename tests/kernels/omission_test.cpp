// SPDX-License-Identifier: Apache-2.0
//
// The check finds a kernel that leaves something out: each template, right as it is, on inputs of which the first, a
// middle or the last part contributes nothing, is found wrong by the reference of the inputs as they were, at its test
// sizes and at sizes at which random data hide it. And it finds nothing else: with many seeds every template is right.
#include "library.h"
#include "omitting_launch.h"

namespace kiln {
namespace {

struct Item {
    const char* name;
    Values values;
    Sizes sizes;        ///< also those of tests
    std::int64_t step;  ///< of k, keys or columns: about a tile
};

void PrintTo(const Item& item, std::ostream* out) {
    *out << item.name;
    for (const auto& [name, value] : item.values) *out << " " << name << "=" << value.text();
    for (const auto& [name, size] : item.sizes) *out << " " << name << "=" << size;
}

std::string item_name(const testing::TestParamInfo<Item>& info) {
    std::string name = info.param.name;
    for (const auto& [parameter, value] : info.param.values) name += "_" + parameter + value.text();
    for (const auto& [size, value] : info.param.sizes) name += "_" + size + std::to_string(value);
    return name;
}

/// Sequences have all of their tokens.
void fill_lengths(Problem& problem) {
    for (Tensor& tensor : problem.tensors)
        if (tensor.name == "lengths") tensor.low = tensor.high;
}

class Omission : public testing::TestWithParam<Item> {};

TEST_P(Omission, IsFound) {
    const Item& item = GetParam();
    test::HostLibrary library;
    Service& service = library.service();
    const Variant variant = service.find(item.name).variant(item.values);
    test::OmittingLaunch launch(service, service, variant, item.sizes, true, 1, fill_lengths);
    EXPECT_EQ(launch.wrong({}), 0u) << "nothing is missing";
    const auto all = test::mutations(launch.problem(), item.step);
    EXPECT_FALSE(all.empty());
    for (const test::Mutation& one : all)
        EXPECT_GT(launch.wrong(one.losses, one.compared), 0u) << one.what << " missing";
}

INSTANTIATE_TEST_SUITE_P(
    AtTestSizes, Omission,
    testing::Values(
        Item{"gemm_async", {}, {}, 16}, Item{"gemm_batched", {}, {}, 16}, Item{"gemm_buffered", {}, {}, 16},
        Item{"gemm_few_columns", {}, {}, 128}, Item{"gemm_few_rows", {}, {}, 8},
        Item{"gemm_fp32", {}, {}, 16}, Item{"gemm_mma", {}, {}, 16}, Item{"gemm_mma_batched", {}, {}, 16},
        Item{"gemm_naive", {}, {}, 16}, Item{"gemm_skinny", {}, {}, 64}, Item{"gemm_square", {}, {}, 16},
        Item{"gemm_tiled", {}, {}, 16}, Item{"gemm_wgmma", {}, {}, 64}, Item{"gemm_wgmma_any", {}, {}, 64},
        Item{"sum_naive", {}, {}, 1}, Item{"sum_shuffle", {}, {}, 1}, Item{"sum_tree", {}, {}, 1},
        Item{"column_sum", {}, {}, 1}, Item{"column_sum_naive", {}, {}, 1},
        Item{"column_sum_tile", {}, {}, 1}, Item{"softmax", {}, {}, 16}, Item{"softmax_naive", {}, {}, 16},
        Item{"rms_norm", {}, {}, 16}, Item{"rms_norm_naive", {{"RESIDUAL", true}}, {}, 16},
        Item{"layer_norm", {}, {}, 16}, Item{"layer_norm_naive", {}, {}, 16}, Item{"attention", {}, {}, 16},
        Item{"attention_mma", {}, {}, 16}, Item{"attention_mma", {{"HEAD_DIM", 96}}, {}, 16},
        Item{"attention_mma", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}}, {}, 16},
        Item{"attention_mma", {{"SPLIT_KEYS", 4}}, {{"keys", 331}}, 16},
        Item{"attention_mma", {{"HEAD_DIM", 256}}, {}, 16}, Item{"attention_naive", {}, {}, 16},
        Item{"attention_wgmma", {}, {}, 16}, Item{"attention_packed_wgmma", {}, {}, 16},
        Item{"attention_packed_naive", {}, {}, 16}, Item{"decode_mma", {}, {}, 4},
        Item{"decode_naive", {}, {}, 4}, Item{"decode_paged", {}, {}, 4},
        Item{"decode_persistent", {}, {}, 4}),
    item_name);

// Where random data with a bound on every rounding hide it: a k of 8192, a quarter of a sum or all of it, a tile's P V of
// 16384 keys, 2048 of 32768 tokens.
INSTANTIATE_TEST_SUITE_P(
    AtLargeSizes, Omission,
    testing::Values(
        Item{"gemm_tiled", {}, {{"m", 33}, {"n", 40}, {"k", 8192}}, 32},
        Item{"gemm_mma", {{"T", "bfloat16"}}, {{"m", 33}, {"n", 40}, {"k", 8192}}, 32},
        Item{"sum_shuffle", {}, {{"n", 1 << 24}}, 1},
        Item{"column_sum", {}, {{"rows", 100003}, {"cols", 40}}, 1},
        Item{"softmax", {}, {{"rows", 64}, {"cols", 4096}}, 16},
        Item{"layer_norm", {}, {{"rows", 64}, {"cols", 4096}}, 16},
        Item{"attention_mma", {}, {{"batch", 1}, {"group", 1}, {"queries", 64}, {"keys", 16384}}, 64},
        Item{"decode_paged", {}, {{"batch", 1}, {"max_length", 32768}, {"splits", 8}}, 128},
        Item{"decode_mma", {}, {{"batch", 1}, {"max_length", 32768}}, 128}),
    item_name);

// A right kernel passes whatever the seed: the bounds are no tighter than what they bound.
class Seeds : public testing::TestWithParam<std::string> {};

void expect_right_with_seeds(const std::string& name, std::uint64_t first, std::uint64_t last) {
    test::HostLibrary library;
    const AnyKernel kernel = library.service().build(library.service().find(name).variant());
    for (std::uint64_t seed = first; seed <= last; ++seed) {
        RunOptions options = test::once({}, Data::random, seed);
        options.keep_results = false;
        const RunResult result = library.runner().run(kernel, options);
        EXPECT_TRUE(result.pass()) << "seed " << seed << ": " << test::failures_text(result);
    }
}

TEST_P(Seeds, AFewAreRight) { expect_right_with_seeds(GetParam(), 1000, 1002); }
TEST_P(Seeds, TwoHundredAreRight) { expect_right_with_seeds(GetParam(), 1, 200); }

INSTANTIATE_TEST_SUITE_P(Kernels, Seeds, testing::ValuesIn(test::runnable_templates()),
                         [](const auto& item) { return std::string(item.param); });

}  // namespace
}  // namespace kiln
