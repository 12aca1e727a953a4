// column_sum_naive: the sums of a matrix's columns, one thread per column
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  column_sum_naive
//@ param   T  type in half, bfloat16, float = float  "element type; the sums are float"
//@ size    rows = 8192 test 67
//@ size    cols = 8192 test 131
//@ input   x [rows, cols]
//@ output  sums [cols] by column_sum_reference exact
//@ flops   rows * cols
//@ block   256
//@ grid    ceil_div(cols, 256)
#include "kiln/device.h"

extern "C" __global__ __launch_bounds__(256) void column_sum_naive(long long rows, long long cols,
                                                                   const T* __restrict__ x, float* __restrict__ sums) {
    const kiln::i64 col = static_cast<kiln::i64>(blockIdx.x) * 256 + threadIdx.x;
    if (col >= cols) return;
    float sum = 0.0f;
    for (kiln::i64 row = 0; row < rows; ++row) sum += static_cast<float>(x[row * cols + col]);
    sums[col] = sum;
}
