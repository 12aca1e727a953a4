// saxpy: y = a * x + y, for vectors of length n
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel saxpy
//@ param  THREADS int in 64, 128, 256 = 256  "per block"
//@ block  THREADS
//@ grid   ceil_div(n, THREADS)
#include "kiln/device.h"
#include "scale.h"

extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) y[i] = scaled(a, x[i]) + y[i];
}
