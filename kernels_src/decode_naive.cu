// decode_naive: attention of new tokens against a paged cache, one thread per query and three passes
//
// The cache, its pages and the results are those of decode_paged, and with NEW_TOKENS those of decode_mma. The passes find the largest score, the sum
// of the weights, and the weighted values; each computes all scores again.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  decode_naive
//@ param   T          type in half, bfloat16 = half      "element type of q, the cache and o; sums are float"
//@ param   HEAD_DIM   int in 64, 128 = 128               "elements of a query, key or value"
//@ param   GQA_GROUP  int in 1, 2, 4, 8 = 4              "query heads per head of the cache"
//@ param   PAGE_SIZE  int in 16, 32, 64, 128 = 16        "tokens per page"
//@ param   NEW_TOKENS int in 1..16 = 1                   "new tokens per sequence; the one before sees one token less"
//@ size    batch      = 32   test 3    "sequences"
//@ size    kv_heads   = 8    test 2    "heads of the cache"
//@ size    max_length = 4096 test 301  "the most tokens of a sequence"
//@ input   q [batch * NEW_TOKENS, kv_heads * GQA_GROUP, HEAD_DIM]
//@ input   k_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM]  "the pool's keys"
//@ input   v_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM]  "the pool's values"
//@ input   page_table [batch, ceil_div(max_length, PAGE_SIZE)] permutation "which page of the pool holds a sequence's page"
//@ input   lengths [batch] in 1..max_length "tokens of each sequence"
//@ output  o [batch * NEW_TOKENS, kv_heads * GQA_GROUP, HEAD_DIM] by decode_reference
//@ flops   2 * batch * kv_heads * GQA_GROUP * NEW_TOKENS * HEAD_DIM * max(max_length + 2 - NEW_TOKENS, 1)
//@ bytes   sizeof(T) * batch * kv_heads * HEAD_DIM * (max_length + 1) + 2 * sizeof(T) * batch * kv_heads * GQA_GROUP * NEW_TOKENS * HEAD_DIM + 4 * batch * (max_length + 1) / 2 / PAGE_SIZE + 4 * batch
//@ block   64
//@ grid    ceil_div(batch * NEW_TOKENS * kv_heads * GQA_GROUP, 64)
#include "kiln/softmax.h"

using kiln::i64;

constexpr int kThreads = 64;
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

extern "C" __global__ __launch_bounds__(kThreads) void decode_naive(
    int batch, int kv_heads, int max_length, const T* __restrict__ q, const T* __restrict__ k_cache,
    const T* __restrict__ v_cache, const int* __restrict__ page_table, const int* __restrict__ lengths,
    T* __restrict__ o) {
    const i64 row = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
    if (row >= static_cast<i64>(batch) * NEW_TOKENS * kv_heads * GQA_GROUP) return;
    const i64 token = row / GQA_GROUP / kv_heads, sequence = token / NEW_TOKENS;
    const int length = lengths[sequence] - static_cast<int>(NEW_TOKENS - 1 - token % NEW_TOKENS);
    q += row * HEAD_DIM;
    o += row * HEAD_DIM;
    page_table += sequence * kiln::ceil_div(max_length, PAGE_SIZE);

    const auto place_of = [=](int token) {
        const i64 page =
            static_cast<i64>(page_table[token / PAGE_SIZE]) * kv_heads + row / GQA_GROUP % kv_heads;
        return (page * PAGE_SIZE + token % PAGE_SIZE) * HEAD_DIM;
    };
    const auto score_of = [=](int token) {
        const T* const key = k_cache + place_of(token);
        float sum = 0.0f;
#pragma unroll 8
        for (int d = 0; d < HEAD_DIM; ++d) sum += static_cast<float>(q[d]) * static_cast<float>(key[d]);
        return sum * kScale;
    };

    kiln::OnlineSoftmax softmax = kiln::OnlineSoftmax::none();
    for (int token = 0; token < length; ++token) softmax.raise(score_of(token));
    float sum = 0.0f;
    for (int token = 0; token < length; ++token) sum += softmax.weight(score_of(token));

    const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
    float out[HEAD_DIM] = {};
    for (int token = 0; token < length; ++token) {
        const float weight = softmax.weight(score_of(token)) * scale;
        const T* const value = v_cache + place_of(token);
#pragma unroll
        for (int d = 0; d < HEAD_DIM; ++d) out[d] += weight * static_cast<float>(value[d]);
    }
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d) o[d] = T(out[d]);
}
