// attention_mma_reference: attention in double, for kernels that round weights to T before they multiply
//
// The bound of each element, and its derivation: kiln/attention_bound.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_mma_reference
//@ param   T       type in half, bfloat16 = half
//@ param   HEAD    int in 64, 128 = 64
//@ param   CAUSAL  bool = false
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/attention_bound.h"

extern "C" __global__ void attention_mma_reference(long long count, const long long* __restrict__ which,
                                                   double* __restrict__ expected, double* __restrict__ bound,
                                                   int group, int queries, int keys, const T* __restrict__ q,
                                                   const T* __restrict__ k, const T* __restrict__ v) {
    const long long first = static_cast<long long>(blockIdx.x) * kiln::kAttentionThreads;
    const long long i = first + threadIdx.x;
    const long long place = i < count ? i : count - 1;
    const long long element = which ? which[place] : place;
    const long long row = element / HEAD;
    const long long col = element % HEAD;
    const bool together = __syncthreads_and(row == (which ? which[first] : first) / HEAD) != 0;

    const T* const head_k = k + row / queries / group * keys * HEAD;
    const T* const head_v = v + row / queries / group * keys * HEAD;
    const long long last = CAUSAL ? row % queries + keys - queries : keys - 1;
    const auto result = kiln::attention_row<HEAD>(
        q + row * HEAD, last < 0 ? 0 : last + 1, [=](long long j) { return head_k + j * HEAD; },
        [=](long long j) { return kiln::wide(head_v[j * HEAD + col]); }, kiln::unit_roundoff<T>, together);
    if (i >= count) return;
    expected[i] = result.value;
    bound[i] = result.bound;
}
