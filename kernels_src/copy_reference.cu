// copy_reference: what copy should give
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  copy_reference
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void copy_reference(long long count, const long long* __restrict__ which,
                                          double* __restrict__ expected, double* __restrict__ bound,
                                          const int* __restrict__ x) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    expected[i] = x[which ? which[i] : i];
    bound[i] = 0;
}
