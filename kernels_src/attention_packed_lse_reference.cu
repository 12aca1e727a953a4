// attention_packed_lse_reference: ln(sum of e^score) of each query of packed sequences in double
//
// The bound of each element, and its derivation: kiln/attention_bound.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_packed_lse_reference
//@ param   T        type in half, bfloat16, float = half
//@ param   HEAD_DIM int in 64, 96, 128, 192, 256 = 64
//@ param   CAUSAL   bool = false
//@ data    q query ceil_div(total_keys, max(batch, 1))
//@ data    k key ceil_div(total_keys, max(batch, 1))
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/attention_bound.h"

constexpr int kThreads = 64;

extern "C" __global__ void attention_packed_lse_reference(
    long long count, const long long* __restrict__ which, double* __restrict__ expected, double* __restrict__ bound,
    int batch, int kv_heads, int group, int total_queries, int total_keys, const T* __restrict__ q,
    const T* __restrict__ k, const int* __restrict__ query_offsets, const int* __restrict__ key_offsets) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= count) return;
    const long long place = which ? which[i] : i;
    const long long row = place % total_queries * kv_heads * group + place / total_queries;
    const kiln::PackedRows<CAUSAL> rows = {batch, kv_heads, group, query_offsets, key_offsets};
    const auto result = kiln::attention_row<HEAD_DIM, kThreads>(
        q + row * HEAD_DIM, rows.keys_seen(row),
        [=](long long key) { return k + rows.place_of(row, key) * HEAD_DIM; }, [](long long) { return 0.0; },
        kiln::unit_roundoff<float>, true, false);
    expected[i] = result.lse;
    bound[i] = result.lse_bound;
}
