// SPDX-License-Identifier: Apache-2.0
//
// The variants of gemm_wgmma that differ in who does what, and gemm_wgmma_any, compiled for Hopper: no spills, no
// matrix instructions one after the other, and no fence of all memory where blocks of a cluster only tell each
// other that a stage is free.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/service.h>

#include <string>
#include <utility>
#include <vector>

#include "compile/compiler.h"
#include "compiler_fixtures.h"
#include "require.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WgmmaRoles : public testing::Test {
  protected:
    void SetUp() override {
        const std::string missing = test::missing_nvrtc();
        KILN_REQUIRE_OR_SKIP("nvrtc", missing.empty(), missing);
    }
    static Service hopper() {
        ServiceOptions options;
        options.backend = Backend::cuda;
        options.arch = "sm_90a";
        options.compile_only = true;
        options.cache.enabled = false;
        return Service(options);
    }
};

TEST_F(WgmmaRoles, CompileWithoutWarningsSpillsOrStack) {
    Service service = hopper();
    const std::vector<std::pair<std::string, Values>> cases = {
        {"gemm_wgmma", {{"PINGPONG", true}, {"BN", 192}, {"CLUSTER_N", 2}}},
        {"gemm_wgmma", {{"PINGPONG", true}, {"BN", 128}, {"STAGES", 6}, {"TMA_STORE", false}}},
        {"gemm_wgmma", {{"BM", 192}, {"BN", 192}, {"STAGES", 3}}},
        {"gemm_wgmma", {{"BM", 64}, {"BN", 192}, {"STAGES", 3}, {"BLOCKS_PER_SM", 2}, {"TMA_STORE", false}}},
        {"gemm_wgmma", {{"BM", 64}, {"BN", 256}, {"STAGES", 5}, {"T", "bfloat16"}}},
        {"gemm_wgmma", {{"SPLIT_K", 4}, {"TMA_STORE", false}}},
        {"gemm_wgmma", {{"BIAS", 1}, {"RESIDUAL", true}}},
        {"gemm_wgmma", {{"BIAS", 2}, {"RESIDUAL", true}, {"PINGPONG", true}, {"OUT", "half"}}},
        {"gemm_wgmma_any", {}},
        {"gemm_wgmma_any", {{"BM", 64}, {"BN", 256}, {"STAGES", 3}}},
        {"gemm_wgmma_any", {{"SPLIT_K", 4}, {"SPLIT_CLUSTERS", 3}, {"TRANS_B", true}}},
        {"attention_wgmma", {}},
        {"attention_wgmma", {{"HEAD_DIM", 64}, {"BM", 192}, {"STAGES", 4}, {"CAUSAL", true}}},
        {"attention_wgmma", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}}},
    };
    for (const auto& [name, values] : cases) {
        const Variant variant = service.find(name).variant(values);
        SCOPED_TRACE(variant.text());
        const std::string log = service.compile(variant).binary.log;
        EXPECT_THAT(log, AllOf(HasSubstr("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"),
                               Not(HasSubstr("warning")), Not(HasSubstr("C75"))));
    }
}

// A release at the scope of the cluster compiles to a fence of all memory, with which shared tiles were slower than
// separate ones.
TEST_F(WgmmaRoles, BlocksThatShareTilesSignalEachOtherWithoutAFence) {
    Service service = hopper();
    for (const Values& values : {Values{{"CLUSTER_M", 2}}, Values{{"CLUSTER_N", 2}}}) {
        const std::string ptx = service.ptx(service.find("gemm_wgmma").variant(values));
        EXPECT_THAT(ptx, AllOf(HasSubstr("mapa.shared::cluster"), HasSubstr("barrier.cluster.arrive.relaxed"),
                               Not(HasSubstr("mbarrier.arrive.release.cluster"))));
    }
}

TEST_F(WgmmaRoles, WhatDoesNotGoTogetherIsRejected) {
    Service service = hopper();
    for (const Values& values :
         {Values{{"PINGPONG", true}, {"BM", 256}}, Values{{"SPLIT_K", 2}},
          Values{{"CLUSTER_M", 4}, {"CLUSTER_N", 2}},
          Values{{"SPLIT_K", 2}, {"TMA_STORE", false}, {"CLUSTER_M", 2}}, Values{{"BLOCKS_PER_SM", 2}}})
        EXPECT_THROW((void)service.find("gemm_wgmma").variant(values), VariantError);
}

}  // namespace
}  // namespace kiln
