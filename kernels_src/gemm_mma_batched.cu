// gemm_mma_batched: C = activation(ALPHA * A * B + BETA * C + bias) for a batch of products on tensor cores (mma.sync)
//
// Product p of the batch has its own A, B and C, each right behind the one before; they share the bias, one
// number per column. Layouts, tiles and parameters are those of gemm_mma, with which it shares its main loop
// (kiln/gemm_mma.h). With BETA = 0, C is not read and may hold anything; without BIAS, neither is the bias.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_mma_batched
//@ param   T            type in half, bfloat16 = half      "element type of A and B; C is float"
//@ param   BM           int in 64, 128, 256 = 128          "rows of C per block"
//@ param   BN           int in 64, 128, 256 = 128          "columns of C per block"
//@ param   BK           int in 16, 32, 64 = 32             "steps of k per tile"
//@ param   WM           int in 32, 64 = 64                 "rows of C per warp"
//@ param   WN           int in 32, 64 = 64                 "columns of C per warp"
//@ param   STAGES       int in 2, 3, 4 = 4                 "stages of the pipeline"
//@ param   SWIZZLE      bool = true                        "against bank conflicts: XOR the columns with the row; false: 16 bytes of padding per row"
//@ param   RASTER_GROUP int in 1, 8 = 8                    "rasterisation: rows of tiles of C that are computed column by column, for the L2 cache"
//@ param   TRANS_A      bool = false                       "each A is stored k x m"
//@ param   TRANS_B      bool = false                       "each B is stored n x k"
//@ param   ALPHA        float = 1                          "factor of the product"
//@ param   BETA         float = 0                          "factor of what C held before; 0: it is not read"
//@ param   BIAS         bool = false                       "bias[j] is added to column j"
//@ param   ACTIVATION   int in 0, 1, 2, 3 = 0              "0 none, 1 relu, 2 gelu, 3 silu"
//@ require WM * WN / 32 + WM / 2 + WN / 2 + 56 <= min(255, device.registers_per_block / ((BM / WM) * (BN / WN) * 32))   "the sums and fragments of a thread must fit its registers: use fewer warps or smaller parts per warp"
//@ require BK < 64 || WM * WN < 64 * 64 || (BM + BN) * BK < 128 * threads   "next to 64 x 64 sums a thread lacks the registers for 16 copies or more per tile: use a smaller BK, more warps, or smaller parts per warp"
//@ require BK < 64 || WM * WN < 64 * 64 || STAGES == 2 || !(TRANS_A || BIAS || ACTIVATION == 3)   "next to 64 x 64 sums a thread lacks the registers for a transposed A, bias or silu with more than 2 tiles of 64 steps: use STAGES = 2 or a smaller BK"
//@ size    m = 1024 test 65         "rows of each C"
//@ size    n = 1024 test 72         "columns of each C"
//@ size    k = 1024 test 40         "products per result"
//@ size    batch = 8 test 3         "products"
//@ input   a [batch, TRANS_A ? k : m, TRANS_A ? m : k]
//@ input   b [batch, TRANS_B ? n : k, TRANS_B ? k : n]
//@ input   bias [n]
//@ inout   c [batch, m, n] by gemm_batched_reference
//@ flops   2 * batch * m * n * k
//@ block   (BM / WM) * (BN / WN) * 32
//@ grid    ceil_div(m, BM) * ceil_div(n, BN) * batch
//@ shared  STAGES * (BM * BK + BN * BK + (SWIZZLE ? 0 : 8) * ((TRANS_A ? BK : BM) + (TRANS_B ? BN : BK))) * sizeof(T)
//@ backend cuda, host
//@ arch    sm_80+
//@ model   engine mma
//@ model   tile BM, BN, BK of m, n, k, batch
//@ model   warp WM, WN
//@ model   stages STAGES
//@ model   copies async
//@ model   search [BM, BN], [BM, WM], [BN, WN], [BK, STAGES], [BM, BN, STAGES]
//@ model   search host [BM, BN], [BK]
#include "kiln/epilogue.h"
#include "kiln/gemm_mma.h"

using kiln::i64;
using Mainloop = kiln::MmaMainloop<T, BM, BN, BK, WM, WN, STAGES, SWIZZLE, TRANS_A, TRANS_B>;

extern "C" __global__ __launch_bounds__(Mainloop::kThreads) void gemm_mma_batched(
    int m, int n, int k, int batch, const T* __restrict__ a, const T* __restrict__ b,
    const float* __restrict__ bias, float* __restrict__ c) {
    // The grid is a line, since its y and z extents could not hold every m or batch.
    const unsigned block_rows = (static_cast<unsigned>(m) + BM - 1) / BM;
    const unsigned block_cols = (static_cast<unsigned>(n) + BN - 1) / BN;
    const unsigned blocks = block_rows * block_cols;
    const i64 index = blockIdx.x / blocks;
    if (index >= batch) return;
    const kiln::TileCoord place = kiln::rasterize<RASTER_GROUP>(blockIdx.x % blocks, block_rows, block_cols);
    const i64 first_row = static_cast<i64>(place.row) * BM;
    const i64 first_col = static_cast<i64>(place.col) * BN;
    const int rows = static_cast<int>(m - first_row);
    const int cols = static_cast<int>(n - first_col);
    a += index * m * k;
    b += index * n * k;
    c += index * m * n;

    Mainloop mainloop(threadIdx.x);
    mainloop.run(kiln::dynamic_shared<T>(), a + first_row * (TRANS_A ? 1 : k), TRANS_A ? m : k,
                 b + first_col * (TRANS_B ? k : 1), TRANS_B ? k : n, rows, cols, k);

    const bool pairs = kiln::rows_aligned<2>(c, i64{n});
    c += first_row * n + first_col;
    if (BIAS) bias += first_col;
    mainloop.for_each_pair([&](int row, int col, float first, float second) {
        if (row >= rows || col >= cols) return;
        const bool both = col + 1 < cols;
        float* const to = c + static_cast<i64>(row) * n + col;
        kiln::Vec<float, 2> old = {}, added = {};
        if (BETA != 0.0f) {
            if (pairs)
                old = kiln::load<2>(to);
            else
                old = {{to[0], both ? to[1] : 0.0f}};
        }
        if (BIAS) added = {{bias[col], both ? bias[col + 1] : 0.0f}};
        first = kiln::epilogue<ACTIVATION>(ALPHA, first, BETA, old[0], added[0]);
        second = kiln::epilogue<ACTIVATION>(ALPHA, second, BETA, old[1], added[1]);
        if (pairs) {
            kiln::store(to, kiln::Vec<float, 2>{{first, second}});
        } else {
            to[0] = first;
            if (both) to[1] = second;
        }
    });
}
