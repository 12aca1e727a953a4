// SPDX-License-Identifier: Apache-2.0
//
// Attention of packed sequences on the host: lengths around those of tiles, empty sequences, one sequence and many, and
// that a sequence's results do not depend on what lies in the others.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <memory>
#include <string>
#include <vector>

#include "apart_sequences.h"
#include "expect_right.h"
#include "shared_cache.h"

namespace kiln {
namespace {

using test::expect_right;

const std::string kWgmma = "attention_packed_wgmma", kNaive = "attention_packed_naive";

Sizes sizes(int batch, int queries, int keys) {
    return {{"batch", batch}, {"total_queries", queries}, {"total_keys", keys}};
}

TEST(HostPackedAttention, IsRightAtAnyNumberOfSequences) {
    const auto service = test::shared_host_service();
    for (const bool causal : {false, true}) {
        const Values values = {{"HEAD_DIM", 64}, {"BN", 64}, {"CAUSAL", causal}};
        // One sequence; shorter than a tile; exactly tiles; many of which most are empty.
        for (const Sizes& one :
             {sizes(1, 1, 1), sizes(1, 129, 130), sizes(2, 256, 128), sizes(3, 300, 65), sizes(7, 200, 500),
              sizes(50, 33, 20), sizes(33, 1, 300), sizes(1100, 40, 30)})
            expect_right(*service, kWgmma, values, one);
        for (const Sizes& one : {sizes(1, 1, 1), sizes(7, 50, 60), sizes(50, 33, 20)})
            expect_right(*service, kNaive, {{"CAUSAL", causal}}, one);
    }
}

TEST(HostPackedAttention, IsRightInEveryKindOfVariant) {
    const auto service = test::shared_host_service();
    const Sizes some = sizes(4, 400, 470);
    expect_right(*service, kWgmma, {{"T", "bfloat16"}, {"CAUSAL", true}, {"HEAD_DIM", 96}}, some);
    expect_right(*service, kWgmma, {{"HEAD_DIM", 64}, {"BM", 192}, {"STAGES", 4}}, some);
    expect_right(*service, kWgmma, {{"HEAD_DIM", 64}, {"BM", 64}, {"BN", 64}, {"CAUSAL", true}}, some);
    expect_right(*service, kWgmma, {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}, {"PINGPONG", false}}, some);
    expect_right(*service, kWgmma, {{"HEAD_DIM", 256}, {"CAUSAL", true}}, some);
    Sizes grouped = some;
    grouped.insert({{"kv_heads", 3}, {"group", 2}});
    expect_right(*service, kWgmma, {{"HEAD_DIM", 64}}, grouped);
    expect_right(*service, kNaive, {{"T", "float"}, {"HEAD_DIM", 192}, {"VALUE_DIM", 128}}, sizes(3, 9, 12));
}

TEST(HostPackedAttention, NoTokensAreNoError) {
    const auto service = test::shared_host_service();
    for (const std::string& name : {kWgmma, kNaive}) {
        expect_right(*service, name, {{"HEAD_DIM", 64}}, sizes(3, 0, 10));
        expect_right(*service, name, {{"HEAD_DIM", 64}}, sizes(3, 10, 0));
        expect_right(*service, name, {{"HEAD_DIM", 64}}, sizes(0, 0, 0));
    }
}

// Lengths that leave a part of the last tile to the next sequence.
TEST(HostPackedAttention, ASequenceKnowsNothingOfTheOthers) {
    const auto service = test::shared_host_service();
    for (const bool causal : {false, true})
        test::expect_sequences_apart(
            *service, service->find(kWgmma).variant({{"HEAD_DIM", 64}, {"BN", 64}, {"CAUSAL", causal}}), 64,
            {0, 5, 75, 75, 205, 211});
}

}  // namespace
}  // namespace kiln
