// rms_norm_sum_reference: x + residual, in float and rounded to T, as it is stored
//
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  rms_norm_sum_reference
//@ param   T  type in half, bfloat16, float = half
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void rms_norm_sum_reference(long long count, const long long* __restrict__ which,
                                                  double* __restrict__ expected, double* __restrict__ bound,
                                                  const T* __restrict__ x, const T* __restrict__ residual) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long at = which ? which[i] : i;
    expected[i] = kiln::wide(T(static_cast<float>(x[at]) + static_cast<float>(residual[at])));
    bound[i] = 0;
}
