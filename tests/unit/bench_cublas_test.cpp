// SPDX-License-Identifier: Apache-2.0
//
// What cublasLt is asked for next to a GEMM of Kiln: element types, transposed operands, the epilogue, and how far its result
// may be off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include <cmath>
#include <span>

#include "base/file.h"
#include "bench/comparator_run.h"
#include "bench/cublas.h"
#include "bench_rows.h"

namespace kiln {
namespace {

using bench::ProductPlan;
using test::row_with;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Sizes kSizes = {{"m", 5}, {"n", 37}, {"k", 24}};

/// On the host, with a cache of its own.
class BenchCublas : public ::testing::Test {
  protected:
    BenchCublas() : options_(options_with(folder_)), benchmark_(options_) {}

    static BenchOptions options_with(const TemporaryDirectory& folder) {
        BenchOptions options;
        options.service.backend = Backend::host;
        options.service.cache.directory = folder.path() / "cache";
        options.quick = true;
        return options;
    }
    bench::VerifiedLaunch launch_of(const Values& values) { return {benchmark_, variant(values), kSizes}; }
    Variant variant(const Values& values) { return benchmark_.service().find("gemm_skinny").variant(values); }

    TemporaryDirectory folder_;
    BenchOptions options_;
    bench::Benchmark benchmark_;
};

TEST_F(BenchCublas, ComputesTheEpilogueOfTheVariant) {
    struct Case {
        int bias, activation;
        cublas::Epilogue epilogue;
        bool is_approximate;
    };
    for (const Case& one :
         {Case{0, 0, cublas::kEpilogueDefault, false}, Case{1, 0, cublas::kEpilogueBias, false},
          Case{0, 1, cublas::kEpilogueRelu, false}, Case{1, 1, cublas::kEpilogueReluBias, false},
          Case{0, 2, cublas::kEpilogueGelu, true}, Case{1, 2, cublas::kEpilogueGeluBias, true}}) {
        const bench::VerifiedLaunch kernel =
            launch_of({{"OUT", "bfloat16"}, {"BIAS", one.bias}, {"ACTIVATION", one.activation}});
        const ProductPlan plan = bench::product_plan(kernel);
        EXPECT_EQ(plan.epilogue, one.epilogue);
        EXPECT_EQ(plan.type, cublas::kFloat16);
        EXPECT_EQ(plan.result_type, cublas::kBfloat16);
        EXPECT_TRUE(plan.b_is_transposed);
        EXPECT_EQ(plan.bias, one.bias == 0 ? nullptr : kernel.tensor("bias").data());
        EXPECT_EQ(plan.tolerance > 0, one.is_approximate);
    }
}

TEST_F(BenchCublas, IsNotAskedForAnEpilogueThatItLacks) {
    for (const Values& values : {Values{{"BIAS", 2}}, Values{{"ACTIVATION", 3}}, Values{{"RESIDUAL", true}},
                                 Values{{"ALPHA", 0.5F}}})
        EXPECT_THROW(bench::product_plan(launch_of(values)), UsageError) << variant(values).text();
}

// cublasLt's GELU is the approximation by tanh, which is up to 4.74e-4 off.
TEST_F(BenchCublas, GeluByTanhIsRightWithinItsToleranceAlone) {
    const Values gelu = {{"BIAS", 1}, {"ACTIVATION", 2}};
    const bench::VerifiedLaunch sums = launch_of({{"BIAS", 1}});
    BenchRow row = row_with(1, {});
    bench::ComparatorRun run(benchmark_, row, {variant(gelu), "model"}, kSizes);
    const ProductPlan plan = bench::product_plan(run.kernel());
    const GuardedTensor& result = run.result_like("c");
    const auto count = static_cast<std::size_t>(result.tensor().count());
    double error = 0;  // added to each result
    const auto by_tanh = [&] {
        sums.launch();
        benchmark_.stream().synchronize();
        const std::span from(static_cast<const float*>(sums.tensor("c").data()), count);
        const std::span to(static_cast<float*>(result.data()), count);
        for (std::size_t i = 0; i < count; ++i) {
            const double x = from[i];
            to[i] = static_cast<float>(
                0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) + error);
        }
    };
    run.add("approximate", "", by_tanh, result, {}, plan.tolerance);
    EXPECT_THAT(row.failures, ::testing::IsEmpty());
    run.add("exact", "", by_tanh, result, {});
    EXPECT_THAT(row.failures, ElementsAre(HasSubstr("exact's c is wrong")));
    error = 2 * plan.tolerance;
    run.add("wrong", "", by_tanh, result, {}, plan.tolerance);
    EXPECT_THAT(row.failures, ElementsAre(HasSubstr("exact"), HasSubstr("wrong's c is wrong")));
}

}  // namespace
}  // namespace kiln
