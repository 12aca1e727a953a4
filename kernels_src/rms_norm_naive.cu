// rms_norm_naive: y = x / sqrt(mean(x^2) + 1e-5) * weight, of x + residual where that is added, by one thread per row
//
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  rms_norm_naive
//@ param   T         type in half, bfloat16, float = half  "element type of all"
//@ param   RESIDUAL  bool = false                          "residual is added to x first, and the sum is stored"
//@ param   BLOCK     int in 32, 64, 128, 256 = 64          "rows per block, one thread each"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test 1000
//@ input   x [rows, cols]
//@ input   weight [cols]
//@ output  y [rows, cols] by rms_norm_reference
//@ input   residual [rows, cols] if RESIDUAL
//@ output  sum [rows, cols] by rms_norm_sum_reference exact if RESIDUAL
//@ flops   4 * rows * cols
//@ block   BLOCK
//@ grid    ceil_div(rows, BLOCK)
#include "kiln/device.h"

extern "C" __global__ void rms_norm_naive(long long rows, int cols, const T* x, const T* weight, T* y,
                                          const T* residual, T* sum) {
    const long long row = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
    if (row >= rows) return;
    const auto at = [&](int col) {
        const float value = static_cast<float>(x[row * cols + col]);
        return RESIDUAL ? T(value + static_cast<float>(residual[row * cols + col])) : x[row * cols + col];
    };
    float squares = 0.0f;
    for (int col = 0; col < cols; ++col) squares += static_cast<float>(at(col)) * static_cast<float>(at(col));
    const float scale = rsqrtf(squares / static_cast<float>(cols) + 1e-5f);
    for (int col = 0; col < cols; ++col) {
        const T value = at(col);
        if (RESIDUAL) sum[row * cols + col] = value;
        y[row * cols + col] = T(static_cast<float>(value) * scale * static_cast<float>(weight[col]));
    }
}
