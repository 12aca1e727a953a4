// gemm_naive: C = ACTIVATION(ALPHA * A * B + BETA * residual + bias), one thread per result; the baseline of every ratio
//
// C is m x n; A is m x k, or k x m with TRANS_A; B is k x n, or n x k with TRANS_B; all row-major. Products are summed in
// float, in order of k; the epilogue is float as well, and rounded once to OUT.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_naive
//@ param   T   type in half, bfloat16, float = half  "element type of A and B"
//@ param   BX  int in 8, 16, 32 = 16                 "columns of C per block"
//@ param   BY  int in 1, 2, 4, 8, 16, 32 = 16        "rows of C per block"
//@ param   OUT type in float, half, bfloat16 = float "element type of C, bias and residual"
//@ param   TRANS_A bool = false                       "A is stored k x m"
//@ param   TRANS_B bool = false                       "B is stored n x k"
//@ param   ALPHA float = 1                          "factor of the product"
//@ param   BIAS int in 0, 1, 2 = 0                 "0 none, 1: bias[j] is added to column j, 2: bias[i] to row i"
//@ param   RESIDUAL bool = false                       "BETA * residual is added"
//@ param   BETA float = 1                          "factor of residual"
//@ param   ACTIVATION int in 0, 1, 2, 3 = 0              "0 none, 1 relu, 2 gelu, 3 silu"
//@ block   BX, BY
//@ grid    ceil_div(n, BX) * ceil_div(m, BY)
//@ size    m = 4096 test 2 * BY + 1  "rows of A and C"
//@ size    n = 4096 test 3 * BX - 1  "columns of B and C"
//@ size    k = 4096 test 37          "columns of A, rows of B"
//@ input   a [TRANS_A ? k : m, TRANS_A ? m : k]
//@ input   b [TRANS_B ? n : k, TRANS_B ? k : n]
//@ output  c [m, n] by gemm_epilogue_reference
//@ input   bias [BIAS == 2 ? m : n] if BIAS != 0
//@ input   residual [m, n] if RESIDUAL
//@ flops   2 * m * n * k
//@ model   tile BY, BX of m, n, k
#include "kiln/gemm_epilogue.h"

extern "C" __global__ __launch_bounds__(BX* BY) void gemm_naive(int m, int n, int k, const T* __restrict__ a,
                                                                const T* __restrict__ b, OUT* __restrict__ c,
                                                                const OUT* bias, const OUT* residual) {
    // The grid is a line, since its y and z extents could not hold every m. Where a block reaches past
    // the edge its last rows and columns have nothing to do.
    const unsigned blocks_per_row = (static_cast<unsigned>(n) + BX - 1) / BX;
    const kiln::i64 row = static_cast<kiln::i64>(blockIdx.x / blocks_per_row) * BY + threadIdx.y;
    const kiln::i64 col = static_cast<kiln::i64>(blockIdx.x % blocks_per_row) * BX + threadIdx.x;
    if (row >= m || col >= n) return;

    const T* a_row = a + (TRANS_A ? row : row * k);
    const T* b_col = b + (TRANS_B ? col * k : col);
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        if constexpr (TRANS_A)
            sum += static_cast<float>(a_row[static_cast<kiln::i64>(i) * m]) * static_cast<float>(*b_col);
        else
            sum += static_cast<float>(a_row[i]) * static_cast<float>(*b_col);
        b_col += TRANS_B ? 1 : n;
    }
    const kiln::GemmEpilogue<OUT, ALPHA != 1.0f, BIAS, RESIDUAL, ACTIVATION> epilogue = {ALPHA, BETA, bias,
                                                                                         residual, n};
    c[row * n + col] = OUT(epilogue(sum, row, col));
}
