// attention_reference: attention in double, for kernels whose weights stay in float
//
// The bound of each element, and its derivation: kiln/attention_bound.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_reference
//@ param   T         type in half, bfloat16, float = half
//@ param   HEAD_DIM  int in 64, 96, 128, 192, 256 = 64
//@ param   VALUE_DIM int in 64, 96, 128, 192, 256 = HEAD_DIM
//@ param   CAUSAL    bool = false
//@ data    q query keys
//@ data    k key keys
//@ backend host
//@ block   VALUE_DIM
//@ grid    ceil_div(count, VALUE_DIM)
#include "kiln/attention_bound.h"

extern "C" __global__ void attention_reference(long long count, const long long* __restrict__ which,
                                               double* __restrict__ expected, double* __restrict__ bound,
                                               int group, int queries, int keys, const T* __restrict__ q,
                                               const T* __restrict__ k, const T* __restrict__ v) {
    kiln::attention_element<HEAD_DIM, VALUE_DIM, CAUSAL>(count, which, expected, bound, group, queries, keys, q, k, v,
                                              kiln::unit_roundoff<float>);
}
