// SPDX-License-Identifier: Apache-2.0
//
// The ways in which gemm_wgmma's warpgroups share the work (one, two or three for a tile, or
// ping-pong), with many tiles per block and their threads in several orders; and gemm_wgmma_any, whose rows
// begin anywhere.
#include <gtest/gtest.h>
#include <kiln/run.h>

#include <memory>
#include <string>
#include <vector>

#include "expect_right.h"
#include "scoped_variable.h"
#include "shared_cache.h"

namespace kiln {
namespace {

void expect_exact(Service& service, const std::string& name, const Values& values, const Sizes& sizes) {
    RunOptions options;
    options.sizes = sizes;
    options.data = Data::integers;
    test::expect_right_with(service, name, values, options);
}

const std::vector<Values> kRoles = {
    {{"PINGPONG", true}, {"BM", 64}, {"BN", 64}, {"STAGES", 3}},
    {{"PINGPONG", true}, {"BN", 64}, {"STAGES", 2}, {"TMA_STORE", false}},
    {{"BM", 256}, {"BN", 64}, {"STAGES", 3}},
    {{"BM", 64}, {"BN", 64}, {"BLOCKS_PER_SM", 2}},
    {{"BM", 192}, {"BN", 64}, {"STAGES", 2}},
};

TEST(HostWgmmaRoles, AreRightWithManyTilesPerBlock) {
    const auto service = test::shared_host_service();
    for (const Values& values : kRoles) {
        expect_exact(*service, "gemm_wgmma", values, {{"m", 523}, {"n", 328}, {"k", 72}});
        expect_exact(*service, "gemm_wgmma", values, {{"m", 131}, {"n", 264}, {"k", 328}});
    }
}

TEST(HostWgmmaRoles, AreRightInAnyOrderOfTheirThreads) {
    for (int seed = 0; seed < 4; ++seed) {
        const test::ScopedVariable variable("KILN_HOST_SEED", std::to_string(seed));
        SCOPED_TRACE("seed " + std::to_string(seed));
        const auto service = test::shared_host_service();
        for (const Values& values : kRoles)
            expect_exact(*service, "gemm_wgmma", values, {{"m", 270}, {"n", 136}, {"k", 200}});
        expect_exact(*service, "gemm_wgmma_any", {{"BN", 64}, {"STAGES", 3}},
                     {{"m", 270}, {"n", 137}, {"k", 201}});
    }
}

// Rows that begin at each of the eight places in 16 bytes; ends of the matrices inside and at the end of pieces
// and tiles.
TEST(HostWgmmaAny, IsRightAtEveryAlignment) {
    const auto service = test::shared_host_service();
    for (int extra = 0; extra < 9; ++extra)
        expect_exact(*service, "gemm_wgmma_any", {{"BM", 64}, {"BN", 64}, {"STAGES", 2}},
                     {{"m", 65 + extra}, {"n", 121 + extra}, {"k", 57 + extra}});
    expect_exact(*service, "gemm_wgmma_any", {}, {{"m", 1}, {"n", 1}, {"k", 1}});
    expect_exact(*service, "gemm_wgmma_any", {{"BM", 64}, {"BN", 192}, {"STAGES", 2}},
                 {{"m", 77}, {"n", 391}, {"k", 67}});
}

}  // namespace
}  // namespace kiln
