// attention_packed_reference: attention of packed sequences in double, also for kernels that round weights to T
//
// The bound of each element, and its derivation: kiln/attention_bound.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_packed_reference
//@ param   T         type in half, bfloat16, float = half
//@ param   HEAD_DIM  int in 64, 96, 128, 192, 256 = 64
//@ param   VALUE_DIM int in 64, 96, 128, 192, 256 = HEAD_DIM
//@ param   CAUSAL    bool = false
//@ data    q query ceil_div(total_keys, max(batch, 1))
//@ data    k key ceil_div(total_keys, max(batch, 1))
//@ backend host
//@ block   VALUE_DIM
//@ grid    ceil_div(count, VALUE_DIM)
#include "kiln/attention_bound.h"

extern "C" __global__ void attention_packed_reference(
    long long count, const long long* __restrict__ which, double* __restrict__ expected, double* __restrict__ bound,
    int batch, int kv_heads, int group, int total_keys, const T* __restrict__ q, const T* __restrict__ k,
    const T* __restrict__ v, const int* __restrict__ query_offsets, const int* __restrict__ key_offsets) {
    kiln::attention_element<HEAD_DIM, VALUE_DIM>(
        count, which, expected, bound,
        kiln::PackedRows<CAUSAL>{batch, kv_heads, group, query_offsets, key_offsets}, q, k, v,
        kiln::unit_roundoff<T>);
}
