// attention_naive: softmax(Q K^T / sqrt(HEAD_DIM)) V with one thread per query, three passes and no shared memory
//
// The arguments are those of attention. The passes find the largest score, the sum of the weights, and the
// weighted values; each computes all scores again.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_naive
//@ param   T         type in half, bfloat16, float = half             "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM  int in 64, 96, 128, 192, 256 = 64        "elements of a query or key"
//@ param   VALUE_DIM int in 64, 96, 128, 192, 256 = HEAD_DIM  "elements of a value"
//@ param   CAUSAL    bool = false                                     "queries see no keys behind them"
//@ require VALUE_DIM == HEAD_DIM || (HEAD_DIM == 192 && VALUE_DIM == 128)  "values have as many elements as keys, or 128 where keys have 192; choose VALUE_DIM = HEAD_DIM"
//@ size    batch    = 4    test 2    "sequences"
//@ size    kv_heads = 16   test 2    "heads of k and v"
//@ size    group    = 1    test 3    "heads of q per head of k and v"
//@ size    queries  = 2048 test 37   "queries per sequence and head"
//@ size    keys     = 2048 test 71   "keys per sequence and head"
//@ input   q [batch, kv_heads * group, queries, HEAD_DIM]
//@ input   k [batch, kv_heads, keys, HEAD_DIM]
//@ input   v [batch, kv_heads, keys, VALUE_DIM]
//@ output  o [batch, kv_heads * group, queries, VALUE_DIM] by attention_reference
//@ output  lse [batch, kv_heads * group, queries] by attention_lse_reference "ln of the sum of e^score"
//@ flops   2 * batch * kv_heads * group * (HEAD_DIM + VALUE_DIM) * (CAUSAL ? min(queries, keys) * (min(queries, keys) + 1) / 2 + min(queries, keys) * (keys - min(queries, keys)) : queries * keys)
//@ block   64
//@ grid    ceil_div(batch * kv_heads * group * queries, 64)
#include "kiln/softmax.h"

using kiln::i64;

constexpr int kThreads = 64;
constexpr int kPart = VALUE_DIM <= 128 ? VALUE_DIM : VALUE_DIM / 2;  // columns that a thread has registers for
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

__device__ __forceinline__ float score_of(const T* __restrict__ query, const T* __restrict__ key) {
    float sum = 0.0f;
#pragma unroll 8
    for (int d = 0; d < HEAD_DIM; ++d) sum += static_cast<float>(query[d]) * static_cast<float>(key[d]);
    return sum * kScale;
}

extern "C" __global__ __launch_bounds__(kThreads) void attention_naive(
    int batch, int kv_heads, int group, int queries, int keys, const T* __restrict__ q,
    const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse) {
    const i64 row = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
    if (row >= static_cast<i64>(batch) * kv_heads * group * queries) return;
    const i64 kv_head = row / queries / group;
    q += row * HEAD_DIM;
    k += kv_head * keys * HEAD_DIM;
    v += kv_head * keys * VALUE_DIM;
    o += row * VALUE_DIM;
    const i64 last = CAUSAL ? row % queries + keys - queries : keys - 1;

    kiln::OnlineSoftmax softmax = kiln::OnlineSoftmax::none();
    for (i64 j = 0; j <= last; ++j) softmax.raise(score_of(q, k + j * HEAD_DIM));
    float sum = 0.0f;
    for (i64 j = 0; j <= last; ++j) sum += softmax.weight(score_of(q, k + j * HEAD_DIM));

    const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
    for (int part = 0; part < VALUE_DIM; part += kPart) {
        float out[kPart] = {};
        for (i64 j = 0; j <= last; ++j) {
            const float weight = softmax.weight(score_of(q, k + j * HEAD_DIM)) * scale;
#pragma unroll
            for (int d = 0; d < kPart; ++d)
                out[d] += weight * static_cast<float>(v[j * VALUE_DIM + part + d]);
        }
#pragma unroll
        for (int d = 0; d < kPart; ++d) o[part + d] = T(out[d]);
    }
    lse[row] = softmax.log_sum_exp(sum);
}
