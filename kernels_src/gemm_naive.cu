// gemm_naive: C = A * B with one thread per result and no shared memory; the baseline of every ratio
//
// A is m x k, B is k x n, C is m x n, all row-major; products are summed in float, in order of k.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_naive
//@ param   T   type in half, bfloat16, float = half  "element type of A and B; C is float"
//@ param   BX  int in 8, 16, 32 = 16                 "columns of C per block"
//@ param   BY  int in 1, 2, 4, 8, 16, 32 = 16        "rows of C per block"
//@ block   BX, BY
//@ grid    ceil_div(n, BX) * ceil_div(m, BY)
//@ size    m = 4096 test 2 * BY + 1  "rows of A and C"
//@ size    n = 4096 test 3 * BX - 1  "columns of B and C"
//@ size    k = 4096 test 37          "columns of A, rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ flops   2 * m * n * k
//@ model   tile BY, BX of m, n, k
#include "kiln/device.h"

extern "C" __global__ __launch_bounds__(BX * BY) void gemm_naive(int m, int n, int k, const T* __restrict__ a,
                                                                 const T* __restrict__ b,
                                                                 float* __restrict__ c) {
    // The grid is a line, since its y and z extents could not hold every m. Where a block reaches past
    // the edge its last rows and columns have nothing to do.
    const unsigned blocks_per_row = (static_cast<unsigned>(n) + BX - 1) / BX;
    const kiln::i64 row = static_cast<kiln::i64>(blockIdx.x / blocks_per_row) * BY + threadIdx.y;
    const kiln::i64 col = static_cast<kiln::i64>(blockIdx.x % blocks_per_row) * BX + threadIdx.x;
    if (row >= m || col >= n) return;

    const T* a_row = a + row * k;
    const T* b_col = b + col;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        sum += static_cast<float>(a_row[i]) * static_cast<float>(*b_col);
        b_col += n;
    }
    c[row * n + col] = sum;
}
