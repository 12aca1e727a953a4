// SPDX-License-Identifier: Apache-2.0
//
// attention_wgmma and decode_mma on the host: rings, turns and edges at sizes around those of their tiles, with
// the threads in several orders, and in each kind of variant.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "expect_right.h"
#include "scoped_variable.h"
#include "shared_cache.h"

namespace kiln {
namespace {

using test::expect_right;

TEST(HostWgmmaAttention, IsRightAtSizesAroundItsTiles) {
    const auto service = test::shared_host_service();
    for (const bool causal : {false, true}) {
        const Values values = {{"HEAD_DIM", 64}, {"BN", 64}, {"CAUSAL", causal}};
        for (const auto& [queries, keys] :
             {std::pair{1, 1}, {1, 300}, {64, 64}, {65, 63}, {129, 129}, {140, 65}, {200, 1}})
            expect_right(*service, "attention_wgmma", values, {{"queries", queries}, {"keys", keys}});
    }
}

// Blocks take several tiles of queries, and some of those see no keys: it must not matter which tile comes behind.
TEST(HostWgmmaAttention, TilesThatSeeNoKeysAreFollowedByOthers) {
    const auto service = test::shared_host_service();
    for (const int bm : {128, 192})
        expect_right(
            *service, "attention_wgmma",
            {{"HEAD_DIM", 64}, {"BM", bm}, {"BN", 64}, {"CAUSAL", true}, {"PERSISTENT", true}, {"STAGES", 4}},
            {{"queries", 300}, {"keys", 65}});
    expect_right(*service, "attention_wgmma",
                 {{"HEAD_DIM", 64}, {"BN", 144}, {"CAUSAL", true}, {"PERSISTENT", true}},
                 {{"batch", 3}, {"queries", 500}, {"keys", 200}});
}

TEST(HostWgmmaAttention, IsRightInEveryKindOfVariant) {
    const auto service = test::shared_host_service();
    const Sizes sizes = {{"queries", 200}, {"keys", 270}};
    expect_right(*service, "attention_wgmma", {{"T", "bfloat16"}, {"CAUSAL", true}}, sizes);
    expect_right(*service, "attention_wgmma", {{"HEAD_DIM", 64}, {"BM", 192}, {"PERSISTENT", true}}, sizes);
    expect_right(*service, "attention_wgmma", {{"BM", 192}, {"BN", 64}, {"STAGES", 3}, {"PINGPONG", false}},
                 sizes);
    expect_right(*service, "attention_wgmma", {{"HEAD_DIM", 192}}, sizes);
    expect_right(*service, "attention_wgmma", {{"HEAD_DIM", 256}, {"CAUSAL", true}, {"PERSISTENT", true}},
                 sizes);
}

// Rows of 96 elements end inside their second slice of 64, whose other half is zeros.
TEST(HostWgmmaAttention, HeadsOf96AndValuesShorterThanKeys) {
    const auto service = test::shared_host_service();
    for (const auto& [queries, keys] : {std::pair{65, 63}, {200, 270}}) {
        const Sizes sizes = {{"queries", queries}, {"keys", keys}};
        expect_right(*service, "attention_wgmma", {{"HEAD_DIM", 96}}, sizes);
        expect_right(*service, "attention_wgmma",
                     {{"HEAD_DIM", 96},
                      {"BM", 192},
                      {"BN", 96},
                      {"CAUSAL", true},
                      {"PERSISTENT", true},
                      {"STAGES", 3}},
                     sizes);
        expect_right(*service, "attention_wgmma", {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}}, sizes);
        expect_right(
            *service, "attention_wgmma",
            {{"HEAD_DIM", 192}, {"VALUE_DIM", 128}, {"BN", 96}, {"CAUSAL", true}, {"PERSISTENT", true}},
            sizes);
    }
}

TEST(HostWgmmaAttention, IsRightInAnyOrderOfItsThreads) {
    for (int seed = 0; seed < 4; ++seed) {
        const test::ScopedVariable variable("KILN_HOST_SEED", std::to_string(seed));
        SCOPED_TRACE("seed " + std::to_string(seed));
        const auto service = test::shared_host_service();
        for (const bool persistent : {false, true})
            expect_right(*service, "attention_wgmma",
                         {{"HEAD_DIM", 64}, {"BN", 64}, {"CAUSAL", true}, {"PERSISTENT", persistent}},
                         {{"queries", 150}, {"keys", 280}});
    }
}

// A query or a key that holds a NaN makes its results NaNs, and no zeros, which would look healthy.
TEST(HostAttention, WhatIsNotANumberStaysSo) {
    constexpr int kHead = 64, kQueries = 3, kKeys = 70;
    const half nan(std::numeric_limits<float>::quiet_NaN());
    const auto service = test::shared_host_service();
    for (const char* name : {"attention_naive", "attention", "attention_mma", "attention_wgmma"}) {
        const AnyKernel kernel = service->build(service->find(name).variant({{"HEAD_DIM", kHead}}));
        for (const bool in_key : {false, true}) {
            SCOPED_TRACE(std::string(name) + (in_key ? ", a key" : ", a query"));
            std::vector<half> q(kQueries * kHead, half(0.5F)), k(kKeys * kHead, half(0.25F)), v(k), o(q);
            std::vector<float> lse(kQueries);
            std::vector<unsigned> counters(2);
            (in_key ? k[(kKeys - 1) * kHead] : q[kHead]) = nan;
            int batch = 1, kv_heads = 1, group = 1, queries = kQueries, keys = kKeys;
            const void *q_at = q.data(), *k_at = k.data(), *v_at = v.data();
            void *o_at = o.data(), *lse_at = lse.data(), *counters_at = counters.data();
            void* arguments[] = {&batch, &kv_heads, &group, &queries, &keys,       &q_at,
                                 &k_at,  &v_at,     &o_at,  &lse_at,  &counters_at};
            kernel.launch(service->stream(), arguments);
            service->stream().synchronize();
            for (int i = 0; i < kQueries * kHead; ++i)
                EXPECT_EQ(std::isnan(static_cast<float>(o[i])), in_key || i / kHead == 1) << "element " << i;
            for (int i = 0; i < kQueries; ++i) EXPECT_EQ(std::isnan(lse[i]), in_key || i == 1) << "lse " << i;
        }
    }
}

// Sequences that end within a tile, fewer tiles than blocks, and more sequences than threads.
TEST(HostDecodeMma, IsRightHoweverTheTilesAreShared) {
    const auto service = test::shared_host_service();
    for (const auto& [batch, kv_heads, most] :
         {std::tuple{1, 1, 1}, {1, 3, 17}, {1, 1, 2000}, {5, 2, 300}, {200, 1, 40}}) {
        for (const int warps : {2, 8})
            expect_right(*service, "decode_mma", {{"HEAD_DIM", 64}, {"WARPS", warps}, {"BLOCKS_PER_SM", 1}},
                         {{"batch", batch}, {"kv_heads", kv_heads}, {"max_length", most}});
    }
    expect_right(*service, "decode_mma",
                 {{"T", "bfloat16"}, {"GQA_GROUP", 8}, {"PAGE_SIZE", 64}, {"STAGES", 4}}, {});
    expect_right(*service, "decode_mma",
                 {{"GQA_GROUP", 1}, {"PAGE_SIZE", 32}, {"WARPS", 2}, {"BLOCKS_PER_SM", 4}}, {});
}

TEST(HostDecode, IsRightWithPagesOf128) {
    const auto service = test::shared_host_service();
    for (const char* name : {"decode_mma", "decode_paged", "decode_persistent", "decode_naive"})
        expect_right(*service, name, {{"HEAD_DIM", 64}, {"PAGE_SIZE", 128}}, {{"max_length", 387}});
}

// A sequence whose values are all the same has them as its result, whatever the weights; one without tokens has
// zeros, wherever it stands.
TEST(HostDecodeMma, SequencesWithoutTokensGiveZeros) {
    using DecodeFn =
        void(int batch, int kv_heads, int max_length, const half* q, const half* k_cache, const half* v_cache,
             const int* page_table, const int* lengths, half* o, float* partials, unsigned* tickets);
    constexpr int kHead = 64, kGroup = 4, kPage = 16, kKvHeads = 2, kPages = 7, kMost = kPages * kPage;
    const auto service = test::shared_host_service();
    const auto kernel = service->build<DecodeFn>(service->find("decode_mma").variant({{"HEAD_DIM", kHead}}));
    for (const std::vector<int>& lengths :
         {std::vector{0, 5, 0, 0, 100, 16, 0}, {0}, {0, 0, 0}, {kMost, 0, 1}, {0, 0, kMost}}) {
        const auto batch = lengths.size();
        const std::size_t per_sequence = std::size_t{kPages} * kKvHeads * kPage * kHead;
        std::vector<half> q(batch * kKvHeads * kGroup * kHead), k(batch * per_sequence), v(k.size());
        std::vector<half> o(q.size(), half(std::numeric_limits<float>::quiet_NaN()));
        std::vector<int> pages(batch * kPages);
        for (std::size_t i = 0; i < q.size(); ++i) q[i] = half(static_cast<float>(i % 7) - 3);
        for (std::size_t i = 0; i < k.size(); ++i) {
            k[i] = half(static_cast<float>(i % 11) / 16);
            v[i] = half(static_cast<float>(i / per_sequence + 1));
        }
        for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int>(i);
        std::vector<float> partials(std::size_t{1} << 20, std::numeric_limits<float>::quiet_NaN());
        std::vector<unsigned> tickets(batch * kKvHeads);
        kernel(service->stream(), static_cast<int>(batch), kKvHeads, kMost, q.data(), k.data(), v.data(),
               pages.data(), lengths.data(), o.data(), partials.data(), tickets.data());
        service->stream().synchronize();
        for (std::size_t i = 0; i < o.size(); ++i) {
            const std::size_t sequence = i / (kKvHeads * kGroup * kHead);
            const float wanted = lengths[sequence] > 0 ? static_cast<float>(sequence + 1) : 0.0F;
            ASSERT_NEAR(static_cast<float>(o[i]), wanted, wanted * 0x1p-8F)
                << "element " << i << ", sequence " << sequence << " of " << batch;
        }
        for (const unsigned ticket : tickets) EXPECT_EQ(ticket, 0u);
    }
}

}  // namespace
}  // namespace kiln
