// SPDX-License-Identifier: Apache-2.0
//
// The check finds a kernel that leaves something out, at the sizes of kiln bench (tests/kernels/omission_test.cpp does it
// at small ones): of the first, the last and a middle part of k, of columns, terms, keys, values and pages each is missed.
// With three seeds the right kernel passes.
#include <gtest/gtest.h>
#include <kiln/error.h>

#include "base/file.h"
#include "gemm_fixture.h"
#include "omitting_launch.h"

namespace kiln::test {
namespace {

struct LargeItem {
    const char* label;
    const char* name;
    Values values;
    Sizes sizes;
    std::int64_t step;  ///< of k, columns, keys or pages: about a tile
    std::uint64_t seeds = 3;
};

void PrintTo(const LargeItem& item, std::ostream* out) { *out << item.label; }

class OmissionOnGpu : public testing::TestWithParam<LargeItem> {};

void fill_lengths(Problem& problem) {
    for (Tensor& tensor : problem.tensors)
        if (tensor.name == "lengths") tensor.low = tensor.high;
}

TEST_P(OmissionOnGpu, IsFound) {
    KILN_NEEDS_GPU();
    static const TemporaryDirectory directory;
    const auto service = gpu_service(directory.path() / "cache");
    const LargeItem& item = GetParam();
    const Template of = service->find(item.name);
    if (!of.runs_on(service->backend(), service->target().arch)) GTEST_SKIP() << "not on this device";
    const Variant variant = of.variant(item.values);
    if (service->device().free_bytes() <
        static_cast<std::uint64_t>(variant.problem(item.sizes).bytes) * 5 / 4)
        GTEST_SKIP() << "the device has too little memory";
    ReferenceService references(*service);
    for (std::uint64_t seed = 1; seed <= item.seeds; ++seed) {
        OmittingLaunch launch(*service, references.get(), variant, item.sizes, false, seed, fill_lengths);
        EXPECT_EQ(launch.wrong({}), 0u) << "nothing is missing, seed " << seed;
        if (seed > 1) continue;
        const auto all = mutations(launch.problem(), item.step);
        EXPECT_FALSE(all.empty());
        for (const Mutation& one : all)
            EXPECT_GT(launch.wrong(one.losses, one.compared), 0u) << one.what << " missing";
    }
}

Sizes product(std::int64_t m, std::int64_t n, std::int64_t k) { return {{"m", m}, {"n", n}, {"k", k}}; }
Sizes rows(std::int64_t count, std::int64_t cols) { return {{"rows", count}, {"cols", cols}}; }
Sizes tokens(std::int64_t heads, std::int64_t count) {
    return {{"batch", 1}, {"kv_heads", heads}, {"group", 1}, {"queries", count}, {"keys", count}};
}
Sizes cache(std::int64_t batch, std::int64_t length) {
    return {{"batch", batch}, {"kv_heads", 8}, {"max_length", length}};
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, OmissionOnGpu,
    testing::Values(
        LargeItem{"wgmma_half_8192", "gemm_wgmma", {{"T", "half"}}, product(8192, 8192, 8192), 64},
        LargeItem{"wgmma_bfloat16_2048", "gemm_wgmma", {{"T", "bfloat16"}}, product(4096, 7168, 2048), 64},
        LargeItem{"wgmma_any", "gemm_wgmma_any", {}, product(2049, 4095, 1023), 64},
        LargeItem{"mma", "gemm_mma", {}, product(4096, 4096, 4096), 32},
        LargeItem{"fp32", "gemm_fp32", {}, product(4096, 4096, 4096), 16},
        LargeItem{"skinny", "gemm_skinny", {}, product(16, 8192, 8192), 64},
        LargeItem{"tiled", "gemm_tiled", {}, product(1024, 1024, 1024), 32},
        LargeItem{"mma_batched", "gemm_mma_batched", {}, product(1024, 1024, 1024), 32},
        LargeItem{"sum", "sum_shuffle", {}, {{"n", std::int64_t{1} << 28}}, 1},
        LargeItem{
            "sum_of_2_31", "sum_shuffle", {{"T", "half"}, {"VEC", 8}}, {{"n", std::int64_t{1} << 31}}, 1, 1},
        LargeItem{"column_sum", "column_sum", {}, rows(65536, 4096), 1},
        LargeItem{"softmax_1024", "softmax", {}, rows(131072, 1024), 8},
        LargeItem{"softmax_65536", "softmax", {}, rows(2048, 65536), 64},
        LargeItem{"layer_norm_1024", "layer_norm", {}, rows(131072, 1024), 8},
        LargeItem{"layer_norm_65536", "layer_norm", {}, rows(2048, 65536), 64},
        LargeItem{"attention_wgmma_64", "attention_wgmma", {{"HEAD_DIM", 64}}, tokens(32, 16384), 128},
        LargeItem{"attention_wgmma_128_causal",
                  "attention_wgmma",
                  {{"HEAD_DIM", 128}, {"CAUSAL", true}, {"T", "bfloat16"}},
                  tokens(16, 16384),
                  128},
        LargeItem{"attention_mma", "attention_mma", {{"HEAD_DIM", 128}}, tokens(16, 4096), 64},
        LargeItem{"decode_mma", "decode_mma", {}, cache(16, 32768), 2048},
        LargeItem{"decode_persistent", "decode_persistent", {}, cache(16, 8192), 512},
        LargeItem{"decode_paged", "decode_paged", {}, cache(16, 32768), 2048}),
    [](const auto& item) { return std::string(item.param.label); });

}  // namespace
}  // namespace kiln::test
