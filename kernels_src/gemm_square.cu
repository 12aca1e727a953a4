// gemm_square: C = A * B with a TILE x TILE block of A and of B in shared memory, one result per thread
//
// A is m x k, B is k x n, C is m x n, all row-major; products are summed in float, in order of k.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_square
//@ param   T     type in half, bfloat16, float = float  "element type of A and B; C is float"
//@ param   TILE  int in 8, 16, 32, 64 = 32              "rows and columns of C per block, and steps of k per tile"
//@ require TILE * TILE <= device.threads_per_block      "one thread per result makes TILE * TILE threads, more than a block may have; gemm_tiled with --bm 64 --bn 64 computes a 64 x 64 tile with several results per thread"
//@ block   TILE, TILE
//@ grid    ceil_div(n, TILE) * ceil_div(m, TILE)
//@ shared  static 2 * TILE * TILE * sizeof(T)
//@ size    m = 4096 test TILE + 1      "rows of A and C"
//@ size    n = 4096 test 2 * TILE - 1  "columns of B and C"
//@ size    k = 4096 test 2 * TILE + 3  "columns of A, rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ model   tile TILE, TILE, TILE of m, n, k
#include "kiln/device.h"
#include "kiln/launch_bounds.h"

extern "C" __global__ __launch_bounds__(TILE* TILE, kiln::kOneBlock) void gemm_square(int m, int n, int k,
                                                                      const T* __restrict__ a,
                                                                      const T* __restrict__ b,
                                                                      float* __restrict__ c) {
    __shared__ T tile_a[TILE][TILE];
    __shared__ T tile_b[TILE][TILE];

    const unsigned blocks_per_row = (static_cast<unsigned>(n) + TILE - 1) / TILE;
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const kiln::i64 row = static_cast<kiln::i64>(blockIdx.x / blocks_per_row) * TILE + y;
    const kiln::i64 col = static_cast<kiln::i64>(blockIdx.x % blocks_per_row) * TILE + x;

    float sum = 0.0f;
    // Each step loads one tile of either operand, zero beyond the edges, so that the product below
    // needs no test.
    for (kiln::i64 step = 0; step < k; step += TILE) {
        const kiln::i64 a_col = step + x;
        const kiln::i64 b_row = step + y;
        tile_a[y][x] = row < m && a_col < k ? a[row * k + a_col] : T(0.0f);
        tile_b[y][x] = b_row < k && col < n ? b[b_row * n + col] : T(0.0f);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum += static_cast<float>(tile_a[y][i]) * static_cast<float>(tile_b[i][x]);
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
