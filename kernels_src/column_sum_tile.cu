// column_sum_tile: the sums of a matrix's columns through a tile in shared memory: bank conflicts, and their repair
//
// A block walks down TILE columns. It stores each tile transposed, so that a thread then adds one row of it, a
// column of the matrix. With PAD 0 the lanes of a warp store to, and read from, addresses TILE words apart:
// one bank, TILE ways. With PAD 1 they lie TILE + 1 words apart: all banks, no conflict.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  column_sum_tile
//@ param   T     type in half, bfloat16, float = float  "element type; the sums are float"
//@ param   TILE  int in 32 = 32                         "columns per block, and rows per tile"
//@ param   PAD   int in 0, 1 = 1                        "extra words per row of the tile; 0: conflicts, 1: none"
//@ param   ROWS  int in 4, 8, 16, 32 = 8                "rows that are read at once"
//@ size    rows = 8192 test 67
//@ size    cols = 8192 test 131
//@ input   x [rows, cols]
//@ output  sums [cols] by column_sum_reference exact
//@ flops   rows * cols
//@ naive   column_sum_naive
//@ block   TILE, ROWS
//@ grid    ceil_div(cols, TILE)
//@ shared  static TILE * (TILE + PAD) * sizeof(float)
#include "kiln/device.h"

using kiln::i64;

extern "C" __global__ __launch_bounds__(TILE * ROWS) void column_sum_tile(long long rows, long long cols,
                                                                          const T* __restrict__ x,
                                                                          float* __restrict__ sums) {
    __shared__ float tile[TILE][TILE + PAD];
    const int lane = threadIdx.x;
    const i64 col = static_cast<i64>(blockIdx.x) * TILE + lane;
    float sum = 0.0f;
    for (i64 first = 0; first < rows; first += TILE) {
#pragma unroll
        for (int i = 0; i < TILE; i += ROWS) {
            const i64 row = first + i + threadIdx.y;
            tile[lane][i + threadIdx.y] = row < rows && col < cols ? static_cast<float>(x[row * cols + col]) : 0.0f;
        }
        __syncthreads();
        if (threadIdx.y == 0) {
#pragma unroll
            for (int i = 0; i < TILE; ++i) sum += tile[lane][i];
        }
        __syncthreads();
    }
    if (threadIdx.y == 0 && col < cols) sums[col] = sum;
}
