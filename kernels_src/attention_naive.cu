// attention_naive: softmax(Q K^T / sqrt(HEAD_DIM)) V with one thread per query, three passes and no shared memory
//
// The arguments are those of attention. What a thread does: kiln/naive_attention.h.
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
#include "kiln/naive_attention.h"

using kiln::i64;

constexpr int kThreads = 64;

extern "C" __global__ __launch_bounds__(kThreads) void attention_naive(
    int batch, int kv_heads, int group, int queries, int keys, const T* __restrict__ q,
    const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse) {
    const i64 row = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
    if (row >= static_cast<i64>(batch) * kv_heads * group * queries) return;
    const i64 kv_head = row / queries / group;
    const i64 seen = CAUSAL ? row % queries + 1 + keys - queries : keys;
    lse[row] = kiln::naive_attention<HEAD_DIM, VALUE_DIM>(q + row * HEAD_DIM, seen, k + kv_head * keys * HEAD_DIM, HEAD_DIM,
                                                          v + kv_head * keys * VALUE_DIM, VALUE_DIM, o + row * VALUE_DIM);
}
