// SPDX-License-Identifier: Apache-2.0
//
// gemm_wgmma on the host: its barriers, descriptors, swizzles and edges at sizes around those of its tiles,
// with the threads in several orders.
#include <gtest/gtest.h>
#include <kiln/run.h>

#include <memory>
#include <string>

#include "expect_right.h"
#include "scoped_variable.h"
#include "shared_cache.h"

namespace kiln {
namespace {

void expect_right(Service& service, const Values& values, const Sizes& sizes, Data data) {
    RunOptions options;
    options.sizes = sizes;
    options.data = data;
    test::expect_right_with(service, "gemm_wgmma", values, options);
}

constexpr struct {
    int m, n, k;
} kSizes[] = {{1, 8, 8}, {127, 64, 64}, {128, 72, 72}, {129, 128, 56}, {257, 200, 128}, {300, 136, 264}};

TEST(HostWgmmaGemm, IsRightAtSizesAroundItsTiles) {
    const auto service = test::shared_host_service();
    for (const auto& [m, n, k] : kSizes)
        expect_right(*service, {{"BN", 64}, {"STAGES", 2}}, {{"m", m}, {"n", n}, {"k", k}}, Data::integers);
}

TEST(HostWgmmaGemm, IsRightInEveryKindOfVariant) {
    const auto service = test::shared_host_service();
    const Sizes sizes = {{"m", 300}, {"n", 264}, {"k", 200}};
    expect_right(*service, {}, sizes, Data::random);
    expect_right(*service, {{"T", "bfloat16"}, {"BN", 192}, {"STAGES", 3}}, sizes, Data::random);
    expect_right(*service, {{"BM", 256}, {"BN", 128}, {"RASTER_GROUP", 1}}, sizes, Data::integers);
    expect_right(*service, {{"BM", 256}, {"BN", 64}, {"TMA_STORE", false}, {"STAGES", 5}}, sizes,
                 Data::integers);
}

// Which leave through shared memory, a box of each warp's, behind the stages and before the mbarriers.
TEST(HostWgmmaGemm, StoresRowsOfCOfAnyLength) {
    const auto service = test::shared_host_service();
    const Values rows = {{"TRANS_B", true}, {"TMA_STORE", false}};
    for (Values values :
         {Values{{"BM", 192}, {"BN", 128}, {"STAGES", 3}}, Values{{"BM", 256}, {"BN", 64}, {"STAGES", 3}},
          Values{{"BN", 64}, {"STAGES", 3}, {"PINGPONG", true}, {"OUT", "half"}, {"BIAS", 1}},
          Values{{"BM", 64}, {"BN", 64}, {"STAGES", 3}, {"BLOCKS_PER_SM", 2}, {"RESIDUAL", true}},
          Values{{"BN", 64}, {"STAGES", 3}, {"CLUSTER_M", 2}, {"CLUSTER_N", 2}}}) {
        values.insert(rows.begin(), rows.end());
        for (const int n : {265, 1, 66})
            expect_right(*service, values, {{"m", 520}, {"n", n}, {"k", 72}}, Data::integers);
    }
}

TEST(HostWgmmaGemm, IsRightInAnyOrderOfItsThreads) {
    for (int seed = 0; seed < 6; ++seed) {
        const test::ScopedVariable variable("KILN_HOST_SEED", std::to_string(seed));
        SCOPED_TRACE("seed " + std::to_string(seed));
        const auto service = test::shared_host_service();
        for (const bool tma_store : {false, true})
            expect_right(*service, {{"BN", 64}, {"STAGES", 2}, {"TMA_STORE", tma_store}},
                         {{"m", 270}, {"n", 136}, {"k", 264}}, Data::integers);
    }
}

}  // namespace
}  // namespace kiln
