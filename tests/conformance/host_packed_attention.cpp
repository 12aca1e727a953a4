// SPDX-License-Identifier: Apache-2.0
//
// Attention of packed sequences on the host: lengths around those of tiles, empty sequences, one sequence and many, and
// that a sequence's results do not depend on what lies in the others.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "expect_right.h"
#include "run/inputs.h"
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

// Infinities in all other sequences: of keys, whose scores must be masked, and of values, which times a weight of 0 are
// NaNs. Lengths that leave a part of the last tile to the next sequence.
TEST(HostPackedAttention, ASequenceKnowsNothingOfTheOthers) {
    using PackedFn = void(int batch, int kv_heads, int group, int total_queries, int total_keys,
                          const half* q, const half* k, const half* v, const int* query_offsets,
                          const int* key_offsets, half* o, float* lse);
    constexpr int kHead = 64;
    const std::vector<int> offsets = {0, 5, 75, 75, 205, 211};
    const int total = offsets.back(), batch = static_cast<int>(offsets.size()) - 1;
    const auto service = test::shared_host_service();
    for (const bool causal : {false, true}) {
        const auto kernel = service->build<PackedFn>(
            service->find(kWgmma).variant({{"HEAD_DIM", kHead}, {"BN", 64}, {"CAUSAL", causal}}));
        std::vector<half> q(static_cast<std::size_t>(total) * kHead), k(q.size()), v(q.size());
        for (std::size_t i = 0; i < q.size(); ++i) {
            q[i] = half(static_cast<float>(random_word(1, i) % 17) / 16 - 0.5F);
            k[i] = half(static_cast<float>(random_word(2, i) % 17) / 16 - 0.5F);
            v[i] = half(static_cast<float>(random_word(3, i) % 17) / 16 - 0.5F);
        }
        const auto results = [&](const std::vector<half>& keys, const std::vector<half>& values) {
            std::vector<half> o(q.size());
            std::vector<float> lse(static_cast<std::size_t>(total));
            kernel(service->stream(), batch, 1, 1, total, total, q.data(), keys.data(), values.data(),
                   offsets.data(), offsets.data(), o.data(), lse.data());
            service->stream().synchronize();
            return std::pair(o, lse);
        };
        const auto [o, lse] = results(k, v);
        for (int sequence = 0; sequence < batch; ++sequence) {
            const auto begin = static_cast<std::size_t>(offsets[sequence]);
            const auto end = static_cast<std::size_t>(offsets[sequence + 1]);
            if (begin == end) continue;
            std::vector<half> other_k(k.size(), half(std::numeric_limits<float>::infinity()));
            std::vector<half> other_v(other_k);
            std::copy(&k[begin * kHead], &k[end * kHead - 1] + 1, &other_k[begin * kHead]);
            std::copy(&v[begin * kHead], &v[end * kHead - 1] + 1, &other_v[begin * kHead]);
            const auto [alone_o, alone_lse] = results(other_k, other_v);
            for (std::size_t i = begin * kHead; i < end * kHead; ++i)
                ASSERT_EQ(static_cast<float>(alone_o[i]), static_cast<float>(o[i]))
                    << "sequence " << sequence << ", element " << i;
            for (std::size_t i = begin; i < end; ++i) ASSERT_EQ(alone_lse[i], lse[i]) << "query " << i;
        }
    }
}

}  // namespace
}  // namespace kiln
