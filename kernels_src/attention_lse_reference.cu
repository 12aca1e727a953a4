// attention_lse_reference: ln(sum of e^score) of each query in double
//
// The bound of each element, and its derivation: kiln/attention_bound.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_lse_reference
//@ param   T        type in half, bfloat16, float = half
//@ param   HEAD_DIM int in 64, 96, 128, 192, 256 = 64
//@ param   CAUSAL   bool = false
//@ data    q query keys
//@ data    k key keys
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/attention_bound.h"

constexpr int kThreads = 64;

extern "C" __global__ void attention_lse_reference(long long count, const long long* __restrict__ which,
                                                   double* __restrict__ expected, double* __restrict__ bound,
                                                   int group, int queries, int keys, const T* __restrict__ q,
                                                   const T* __restrict__ k) {
    const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= count) return;
    const long long row = which ? which[i] : i;
    const T* const head_k = k + row / queries / group * keys * HEAD_DIM;
    const long long last = CAUSAL ? row % queries + keys - queries : keys - 1;
    const auto result = kiln::attention_row<HEAD_DIM, kThreads>(
        q + row * HEAD_DIM, last < 0 ? 0 : last + 1, [=](long long j) { return head_k + j * HEAD_DIM; },
        [](long long) { return 0.0; }, kiln::unit_roundoff<float>, true, false);
    expected[i] = result.lse;
    bound[i] = result.lse_bound;
}
