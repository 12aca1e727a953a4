// SPDX-License-Identifier: Apache-2.0
//
// Arrays of more than 2^31 elements, where indices of 32 bits would wrap. Each needs 3 to 18 GB on the device and
// about as much here.
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/run.h>

#include "require.h"

namespace kiln {
namespace {

constexpr std::int64_t kLarge = (std::int64_t{1} << 31) + 11;

struct Large {
    std::string kernel;
    Values values;
    Sizes sizes;
};

void PrintTo(const Large& item, std::ostream* out) { *out << item.kernel; }

class LargeOnGpu : public testing::TestWithParam<Large> {};

TEST_P(LargeOnGpu, IsRightPast32BitIndices) {
    std::string reason;
    KILN_REQUIRE_OR_SKIP("gpu", !Device::list(Backend::cuda, &reason).empty(), reason);
    ServiceOptions options;
    options.backend = Backend::cuda;
    Service service(options);
    Runner runner(service);
    RunOptions run;
    run.sizes = GetParam().sizes;
    run.check = Check::sample;
    run.time = false;
    const Template of = service.find(GetParam().kernel);
    if (!of.runs_on(service.backend(), service.target().arch)) GTEST_SKIP() << "not on this device";
    const Variant variant = of.variant(GetParam().values);
    const Problem problem = variant.problem(run.sizes);
    std::int64_t largest = 0;
    for (const Tensor& tensor : problem.tensors) largest = std::max(largest, tensor.count());
    EXPECT_GT(largest, std::int64_t{1} << 31);
    if (service.device().free_bytes() < static_cast<std::uint64_t>(problem.bytes) + (std::uint64_t{1} << 30))
        GTEST_SKIP() << "the device has too little memory";
    const RunResult result = runner.run(variant, run);
    for (const std::string& failure : result.failures()) ADD_FAILURE() << failure;
}

// 46349 and 46351 are prime, and their product is above 2^31; multiples of 8 are read in vectors.
INSTANTIATE_TEST_SUITE_P(
    Kernels, LargeOnGpu,
    testing::Values(Large{"copy", {}, {{"n", kLarge}}},
                    Large{"sum_shuffle", {{"T", "half"}, {"VEC", 8}}, {{"n", kLarge}}},
                    Large{"sum_tree", {{"T", "half"}}, {{"n", kLarge}}},
                    Large{"histogram", {}, {{"n", 2 * kLarge + 1}}},
                    Large{"column_sum", {{"T", "half"}, {"VEC", 8}}, {{"rows", 46349}, {"cols", 46352}}},
                    Large{"column_sum",
                          {{"T", "half"}, {"VEC", 8}, {"ANY_ROWS", true}},
                          {{"rows", 46351}, {"cols", 46349}}},
                    Large{"softmax", {}, {{"rows", kLarge / 4096 + 1}, {"cols", 4096}}},
                    Large{"layer_norm", {}, {{"rows", kLarge / 4096 + 1}, {"cols", 4096}}},
                    Large{"transpose_tiled", {{"T", "half"}, {"VEC", 8}}, {{"rows", 46352}, {"cols", 46360}}},
                    Large{"transpose_narrow", {{"T", "half"}}, {{"rows", kLarge / 11 + 1}, {"cols", 11}}},
                    Large{"gemm_tiled", {}, {{"m", 46349}, {"n", 46351}, {"k", 5}}},
                    Large{"gemm_fp32", {}, {{"m", 46349}, {"n", 46351}, {"k", 5}}},
                    Large{"gemm_wgmma", {}, {{"m", 46349}, {"n", 46352}, {"k", 8}}},
                    Large{"gemm_wgmma_any", {}, {{"m", 46349}, {"n", 46351}, {"k", 5}}}),
    [](const auto& item) {
        return item.param.kernel + (item.param.values.contains("ANY_ROWS") ? "_any_rows" : "");
    });

}  // namespace
}  // namespace kiln
