// decode_reference: attention of one new token per sequence against a paged cache, in double
//
// The bound of each element, and its derivation: kiln/attention_bound.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  decode_reference
//@ param   T       type in half, bfloat16 = half
//@ param   HEAD    int in 64, 128 = 128
//@ param   GROUP   int in 1, 2, 4, 8 = 4
//@ param   PAGE    int in 16, 32, 64 = 16
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/attention_bound.h"

extern "C" __global__ void decode_reference(long long count, const long long* __restrict__ which,
                                            double* __restrict__ expected, double* __restrict__ bound,
                                            int kv_heads, int max_length, const T* __restrict__ q,
                                            const T* __restrict__ k_cache, const T* __restrict__ v_cache,
                                            const int* __restrict__ page_table,
                                            const int* __restrict__ lengths) {
    const long long first = static_cast<long long>(blockIdx.x) * kiln::kAttentionThreads;
    const long long i = first + threadIdx.x;
    const long long place = i < count ? i : count - 1;
    const long long element = which ? which[place] : place;
    const long long row = element / HEAD;
    const long long col = element % HEAD;
    const bool together = __syncthreads_and(row == (which ? which[first] : first) / HEAD) != 0;

    const long long sequence = row / GROUP / kv_heads;
    const int* const pages = page_table + sequence * kiln::ceil_div(max_length, PAGE);
    const auto place_of = [=](long long token) {
        return ((static_cast<long long>(pages[token / PAGE]) * kv_heads + row / GROUP % kv_heads) * PAGE +
                token % PAGE) *
               HEAD;
    };
    const auto result = kiln::attention_row<HEAD>(
        q + row * HEAD, lengths[sequence], [=](long long token) { return k_cache + place_of(token); },
        [=](long long token) { return kiln::wide(v_cache[place_of(token) + col]); },
        kiln::unit_roundoff<float>, together);
    if (i >= count) return;
    expected[i] = result.value;
    bound[i] = result.bound;
}
