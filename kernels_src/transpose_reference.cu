// transpose_reference: a transposed matrix; nothing is rounded, so that every element must be equal
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  transpose_reference
//@ param   T  type in half, bfloat16, float, double = float  "element type"
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void transpose_reference(long long count, const long long* __restrict__ which,
                                               double* __restrict__ expected, double* __restrict__ bound,
                                               int rows, int cols, const T* __restrict__ in) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    expected[i] = kiln::wide(in[element % rows * cols + element / rows]);
    bound[i] = 0;
}
