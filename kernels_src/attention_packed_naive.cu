// attention_packed_naive: attention of packed sequences with one thread per query, three passes and no shared memory
//
// Sequences of different lengths lie one behind the other, without padding: q is [queries of all, heads, HEAD_DIM] in memory,
// and sequence b has its rows query_offsets[b] to query_offsets[b + 1] - 1; likewise k and v with key_offsets. Offsets begin
// with 0, never fall, and end with the number of all rows; nothing checks that on the device. With CAUSAL the last query of
// a sequence sees its last key, the one before one key less. A query that sees no key gives zeros, and -infinity in lse.
// The number of flops is for lengths as Kiln draws them, of which the mean of the squares is about 5 / 4 of the squared mean.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_packed_naive
//@ param   T         type in half, bfloat16, float = half             "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM  int in 64, 96, 128, 192, 256 = 64        "elements of a query or key"
//@ param   VALUE_DIM int in 64, 96, 128, 192, 256 = HEAD_DIM  "elements of a value"
//@ param   CAUSAL    bool = false                                     "queries see no keys behind them"
//@ require VALUE_DIM == HEAD_DIM || (HEAD_DIM == 192 && VALUE_DIM == 128)  "values have as many elements as keys, or 128 where keys have 192; choose VALUE_DIM = HEAD_DIM"
//@ size    batch         = 8    test 5    "sequences"
//@ size    kv_heads      = 16   test 2    "heads of k and v"
//@ size    group         = 1    test 3    "heads of q per head of k and v"
//@ size    total_queries = 8192 test 93   "queries of all sequences"
//@ size    total_keys    = 8192 test 171  "keys of all sequences"
//@ input   q [total_queries, kv_heads * group, HEAD_DIM]
//@ input   k [total_keys, kv_heads, HEAD_DIM]
//@ input   v [total_keys, kv_heads, VALUE_DIM]
//@ input   query_offsets [batch + 1] offsets to total_queries "where each sequence's queries begin"
//@ input   key_offsets [batch + 1] offsets to total_keys "where each sequence's keys begin"
//@ output  o [total_queries, kv_heads * group, VALUE_DIM] by attention_packed_reference
//@ output  lse [kv_heads * group, total_queries] by attention_packed_lse_reference "ln of the sum of e^score"
//@ flops   2 * batch * kv_heads * group * (HEAD_DIM + VALUE_DIM) * (CAUSAL ? min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1))) * (min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1))) + 1) / 2 + min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1))) * (ceil_div(total_keys, max(batch, 1)) - min(ceil_div(total_queries, max(batch, 1)), ceil_div(total_keys, max(batch, 1)))) : ceil_div(total_queries, max(batch, 1)) * ceil_div(total_keys, max(batch, 1))) * (batch > 1 ? 5 : 4) / 4
//@ block   64
//@ grid    ceil_div(total_queries * kv_heads * group, 64)
#include "kiln/naive_attention.h"
#include "kiln/packed.h"

using kiln::i64;

constexpr int kThreads = 64;

extern "C" __global__ __launch_bounds__(kThreads) void attention_packed_naive(
    int batch, int kv_heads, int group, int total_queries, int total_keys, const T* __restrict__ q, const T* __restrict__ k,
    const T* __restrict__ v, const int* __restrict__ query_offsets, const int* __restrict__ key_offsets,
    T* __restrict__ o, float* __restrict__ lse) {
    const int heads = kv_heads * group;
    const i64 row = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
    if (row >= static_cast<i64>(total_queries) * heads) return;
    const int query = static_cast<int>(row / heads), head = static_cast<int>(row % heads);
    const int sequence = kiln::packed_sequence(query_offsets, batch, query);
    const int first_key = key_offsets[sequence];
    const int keys = key_offsets[sequence + 1] - first_key;
    const int seen = CAUSAL ? query + 1 - query_offsets[sequence + 1] + keys : keys;
    const i64 place = static_cast<i64>(first_key) * kv_heads + head / group;
    lse[static_cast<i64>(head) * total_queries + query] = kiln::naive_attention<HEAD_DIM, VALUE_DIM>(
        q + row * HEAD_DIM, seen, k + place * HEAD_DIM, static_cast<i64>(kv_heads) * HEAD_DIM, v + place * VALUE_DIM,
        static_cast<i64>(kv_heads) * VALUE_DIM, o + row * VALUE_DIM);
}
