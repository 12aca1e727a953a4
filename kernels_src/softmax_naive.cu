// softmax_naive: softmax of a matrix's rows, one thread per row, three passes over it
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  softmax_naive
//@ param   T  type in half, bfloat16, float = half  "element type of x and y"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test 1009
//@ input   x [rows, cols]
//@ output  y [rows, cols] by softmax_reference
//@ flops   5 * rows * cols
//@ block   64
//@ grid    ceil_div(rows, 64)
#include "kiln/device.h"

using kiln::i64;

extern "C" __global__ __launch_bounds__(64) void softmax_naive(long long rows, int cols, const T* __restrict__ x,
                                                               T* __restrict__ y) {
    const i64 row = static_cast<i64>(blockIdx.x) * 64 + threadIdx.x;
    if (row >= rows || cols == 0) return;
    x += row * cols;
    y += row * cols;
    float largest = static_cast<float>(x[0]);
    for (int col = 1; col < cols; ++col) largest = fmaxf(largest, static_cast<float>(x[col]));
    float sum = 0.0f;
    for (int col = 0; col < cols; ++col) sum += expf(static_cast<float>(x[col]) - largest);
    const float factor = 1.0f / sum;
    for (int col = 0; col < cols; ++col) y[col] = T(expf(static_cast<float>(x[col]) - largest) * factor);
}
