// layer_norm_naive: layer normalisation of a matrix's rows, one thread per row, three passes over it
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  layer_norm_naive
//@ param   T  type in half, bfloat16, float = half  "element type of all"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test 1009
//@ input   x [rows, cols]
//@ input   weight [cols]
//@ input   bias [cols]
//@ output  y [rows, cols] by layer_norm_reference
//@ flops   8 * rows * cols
//@ block   64
//@ grid    ceil_div(rows, 64)
#include "kiln/device.h"

using kiln::i64;

constexpr float kEpsilon = 1e-5f;

extern "C" __global__ __launch_bounds__(64) void layer_norm_naive(long long rows, int cols, const T* __restrict__ x,
                                                                  const T* __restrict__ weight,
                                                                  const T* __restrict__ bias, T* __restrict__ y) {
    const i64 row = static_cast<i64>(blockIdx.x) * 64 + threadIdx.x;
    if (row >= rows) return;
    x += row * cols;
    y += row * cols;
    float sum = 0.0f;
    for (int col = 0; col < cols; ++col) sum += static_cast<float>(x[col]);
    const float mean = sum / static_cast<float>(cols);
    float squares = 0.0f;
    for (int col = 0; col < cols; ++col) {
        const float difference = static_cast<float>(x[col]) - mean;
        squares += difference * difference;
    }
    const float scale = rsqrtf(squares / static_cast<float>(cols) + kEpsilon);
    for (int col = 0; col < cols; ++col)
        y[col] = T((static_cast<float>(x[col]) - mean) * scale * static_cast<float>(weight[col]) +
                   static_cast<float>(bias[col]));
}
