// transpose_naive: out = in transposed, one element per thread and no shared memory; the baseline of transpose_tiled
//
// in is rows x cols, out is cols x rows, both row-major. Threads that follow each other read elements that follow
// each other, and write elements that lie a whole row of out apart.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  transpose_naive
//@ param   T   type in half, bfloat16, float, double = float  "element type"
//@ param   BX  int in 8, 16, 32, 64 = 32   "columns of in per block"
//@ param   BY  int in 1, 2, 4, 8, 16 = 8   "rows of in per block"
//@ block   BX, BY
//@ grid    ceil_div(cols, BX) * ceil_div(rows, BY)
//@ size    rows = 8192 test 2 * BY + 1
//@ size    cols = 8192 test 2 * BX - 1
//@ input   in [rows, cols]
//@ output  out [cols, rows] by transpose_reference exact
#include "kiln/device.h"

extern "C" __global__ __launch_bounds__(BX * BY) void transpose_naive(int rows, int cols,
                                                                     const T* __restrict__ in,
                                                                     T* __restrict__ out) {
    const unsigned blocks_per_row = (static_cast<unsigned>(cols) + BX - 1) / BX;
    const kiln::i64 row = static_cast<kiln::i64>(blockIdx.x / blocks_per_row) * BY + threadIdx.y;
    const kiln::i64 col = static_cast<kiln::i64>(blockIdx.x % blocks_per_row) * BX + threadIdx.x;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
