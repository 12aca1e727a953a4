// decode_reference: attention of new tokens against a paged cache, in double
//
// The bound of each element, and its derivation: kiln/attention_bound.h. Kernels may scale a query before they multiply
// it with keys.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  decode_reference
//@ param   T          type in half, bfloat16 = half
//@ param   HEAD_DIM   int in 64, 128 = 128
//@ param   GQA_GROUP  int in 1, 2, 4, 8 = 4
//@ param   PAGE_SIZE  int in 16, 32, 64, 128 = 16
//@ param   NEW_TOKENS int in 1..16 = 1
//@ data    q query max_length
//@ data    k_cache key max_length
//@ backend host
//@ block   HEAD_DIM
//@ grid    ceil_div(count, HEAD_DIM)
#include "kiln/attention_bound.h"

extern "C" __global__ void decode_reference(long long count, const long long* __restrict__ which,
                                            double* __restrict__ expected, double* __restrict__ bound,
                                            int kv_heads, int max_length, const T* __restrict__ q,
                                            const T* __restrict__ k_cache, const T* __restrict__ v_cache,
                                            const int* __restrict__ page_table,
                                            const int* __restrict__ lengths) {
    kiln::decode_element<HEAD_DIM, GQA_GROUP, PAGE_SIZE, NEW_TOKENS, float, false>(
        count, which, expected, bound, kv_heads, max_length, q, k_cache, v_cache, page_table, lengths);
}
