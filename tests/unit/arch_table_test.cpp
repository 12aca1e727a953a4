// SPDX-License-Identifier: Apache-2.0
//
// The table of architectures: a few figures from the vendors' documents, suffixes, and rules that hold for
// every line. Also the bounds check that device binaries get before a driver reads them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/arch_facts.h"
#include "device/driver.h"

namespace kiln {
namespace {

TEST(ArchTable, CudaFigures) {
    struct {
        const char* arch;
        std::int64_t optin, shared, threads, blocks;
    } const expected[] = {
        {"sm_75", 65536, 65536, 1024, 16},    {"sm_80", 166912, 167936, 2048, 32},
        {"sm_86", 101376, 102400, 1536, 16},  {"sm_89", 101376, 102400, 1536, 24},
        {"sm_90", 232448, 233472, 2048, 32},  {"sm_100", 232448, 233472, 2048, 32},
        {"sm_120", 101376, 102400, 1536, 24},
    };
    for (const auto& each : expected) {
        const auto limits = arch_limits(Backend::cuda, each.arch);
        ASSERT_TRUE(limits) << each.arch;
        EXPECT_EQ(limits->shared_bytes_per_block_optin, each.optin) << each.arch;
        EXPECT_EQ(limits->shared_bytes_per_multiprocessor, each.shared) << each.arch;
        EXPECT_EQ(limits->threads_per_multiprocessor, each.threads) << each.arch;
        EXPECT_EQ(limits->blocks_per_multiprocessor, each.blocks) << each.arch;
        EXPECT_EQ(limits->shared_bytes_per_block, 49152) << each.arch;
        EXPECT_EQ(limits->blocks_per_cluster, *cuda_arch_number(each.arch) < 90 ? 1 : 8) << each.arch;
        EXPECT_EQ(limits->warp_size, 32) << each.arch;
    }
}

TEST(ArchTable, SuffixesOfCudaNamesAreIgnoredAndNothingElse) {
    EXPECT_EQ(arch_limits(Backend::cuda, "sm_90a"), arch_limits(Backend::cuda, "sm_90"));
    EXPECT_EQ(arch_limits(Backend::cuda, "sm_100f"), arch_limits(Backend::cuda, "sm_100"));
    for (const char* wrong : {"", "sm_", "sm_a", "sm_9", "sm_91", "sm_90aa", "sm_90b", "SM_90", "90",
                              "compute_9", "compute_90a", "sm_090", "gfx90a", "sm_90 "}) {
        EXPECT_FALSE(arch_limits(Backend::cuda, wrong)) << wrong;
    }
}

TEST(ArchTable, NamesOfArchitecturesHaveAForm) {
    for (const char* name : {"sm_75", "sm_90a", "sm_100f", "compute_90", "sm_999"})
        EXPECT_TRUE(cuda_arch_number(name)) << name;
    for (const char* name : {"sm_99999", "sm_1000", "sm_80a", "sm_90f", "sm_{}", "{}", "compute_90a"})
        EXPECT_FALSE(cuda_arch_number(name)) << name;
    for (const char* name : {"gfx90a", "gfx1250", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-"})
        EXPECT_TRUE(is_hip_arch_name(name)) << name;
    for (const char* name : {"gfx", "gfx90", "gfx123456", "gfx90a:", "gfx90a:fast", "gfxabg", "sm_90"})
        EXPECT_FALSE(is_hip_arch_name(name)) << name;
}

TEST(ArchTable, HipFigures) {
    for (const char* wide : {"gfx906", "gfx908", "gfx90a", "gfx942"}) {
        EXPECT_EQ(arch_limits(Backend::hip, wide).value().warp_size, 64) << wide;
    }
    for (const char* narrow : {"gfx1030", "gfx1100"}) {
        EXPECT_EQ(arch_limits(Backend::hip, narrow).value().warp_size, 32) << narrow;
    }
    EXPECT_EQ(arch_limits(Backend::hip, "gfx90a")->shared_bytes_per_block_optin, 65536);
    EXPECT_EQ(arch_limits(Backend::hip, "gfx90a")->registers_per_multiprocessor, 131072);
    EXPECT_EQ(arch_limits(Backend::hip, "gfx90a:sramecc+:xnack-"), arch_limits(Backend::hip, "gfx90a"));
    for (const char* wrong : {"", ":", "gfx", "gfx90", "gfx90aa", "sm_90"}) {
        EXPECT_FALSE(arch_limits(Backend::hip, wrong)) << wrong;
    }
}

TEST(ArchTable, HostArchitecturesAllowWhatTheLargestCommonGpuDoes) {
    EXPECT_EQ(arch_limits(Backend::host, "x86-64-v3"), arch_limits(Backend::cuda, "sm_90"));
    EXPECT_FALSE(arch_limits(Backend::host, "sm_90"));
}

TEST(ArchTable, EveryKnownArchitectureHasConsistentLimits) {
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host}) {
        const auto names = known_archs(backend);
        ASSERT_FALSE(names.empty());
        for (const std::string& arch : names) {
            const auto limits = arch_limits(backend, arch);
            ASSERT_TRUE(limits) << arch;
            EXPECT_LE(limits->shared_bytes_per_block, limits->shared_bytes_per_block_optin) << arch;
            EXPECT_LE(limits->shared_bytes_per_block_optin, limits->shared_bytes_per_multiprocessor) << arch;
            EXPECT_EQ(limits->threads_per_multiprocessor % limits->warp_size, 0) << arch;
            EXPECT_GE(limits->threads_per_multiprocessor, limits->threads_per_block) << arch;
            EXPECT_LE(limits->registers_per_block, limits->registers_per_multiprocessor) << arch;
            EXPECT_EQ(limits->multiprocessors, 0) << arch;
        }
    }
}

}  // namespace
}  // namespace kiln
