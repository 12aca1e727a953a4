// gemm_mma: C = EPILOGUE(activation(ALPHA * A * B)) on tensor cores (mma.sync), tiles by cp.async and ldmatrix
//
// C is m x n; A is m x k, or k x m with TRANS_A; B is k x n, or n x k with TRANS_B; all row-major, so that a
// transposed operand is a column-major one. A block computes BM x BN results, each of its warps WM x WN of
// them; STAGES stages of BK steps of k form a pipeline in shared memory. The main loop is in kiln/gemm_mma.h.
// Accumulators are FP32; the tensor cores decide the order of their sums.
// On the host the matrix instructions are emulated from their fragment layout: for checking, not for speed.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_mma
//@ param   T              type in half, bfloat16 = half      "element type of A and B; C is float"
//@ param   BM             int in 64, 128, 256 = 128          "rows of C per block"
//@ param   BN             int in 64, 128, 256 = 128          "columns of C per block"
//@ param   BK             int in 16, 32, 64 = 32             "steps of k per tile"
//@ param   WM             int in 32, 64 = 64                 "rows of C per warp"
//@ param   WN             int in 32, 64 = 64                 "columns of C per warp"
//@ param   STAGES         int in 2, 3, 4 = 4                 "stages of the pipeline"
//@ param   SWIZZLE        bool = true                        "against bank conflicts: XOR the columns with the row; false: 16 bytes of padding per row"
//@ param   RASTER_GROUP   int in 1, 2, 4, 8, 16 = 8                 "rasterisation: rows of tiles of C that are computed column by column, for the L2 cache"
//@ param   RASTER_ALONG_M bool = false                     "RASTER_GROUP counts columns of blocks: their blocks share rows of A"
//@ param   TRANS_A        bool = false                       "A is stored k x m"
//@ param   TRANS_B        bool = false                       "B is stored n x k"
//@ param   ALPHA          float = 1                          "factor of the product"
//@ param   ACTIVATION     int in 0, 1, 2, 3 = 0              "0 none, 1 relu, 2 gelu, 3 silu"
//@ param   EPILOGUE       code = "return x;" (float x, int row, int column) -> float   "what is stored for x, the element of the row and column of C"
//@ require WM * WN / 32 + WM / 2 + WN / 2 + 56 <= min(255, device.registers_per_block / ((BM / WM) * (BN / WN) * 32))   "the sums and fragments of a thread must fit its registers: use fewer warps or smaller parts per warp"
//@ require BK < 64 || WM * WN < 64 * 64 || (BM + BN) * BK < 128 * threads   "next to 64 x 64 sums a thread lacks the registers for 16 copies or more per tile: use a smaller BK, more warps, or smaller parts per warp"
//@ require BK < 64 || WM * WN < 64 * 64 || STAGES == 2 || !(TRANS_A || ACTIVATION == 3)   "next to 64 x 64 sums a thread lacks the registers for a transposed A or silu with more than 2 tiles of 64 steps: use STAGES = 2 or a smaller BK"
//@ size    m = 4096 test 97         "rows of C"
//@ size    n = 4096 test 136        "columns of C"
//@ size    k = 4096 test 88         "products per result"
//@ input   a [TRANS_A ? k : m, TRANS_A ? m : k]
//@ input   b [TRANS_B ? n : k, TRANS_B ? k : n]
//@ output  c [m, n] by gemm_layout_reference
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   (BM / WM) * (BN / WN) * 32
//@ grid    ceil_div(m, BM) * ceil_div(n, BN)
//@ shared  STAGES * (BM * BK + BN * BK + (SWIZZLE ? 0 : 8) * ((TRANS_A ? BK : BM) + (TRANS_B ? BN : BK))) * sizeof(T)
//@ backend cuda, host
//@ arch    sm_80+
//@ model   engine mma
//@ model   tile BM, BN, BK of m, n, k
//@ model   warp WM, WN
//@ model   stages STAGES
//@ model   copies async
//@ model   search [BM, BN], [BM, WM], [BN, WN], [BK, STAGES], [BM, BN, STAGES]
//@ model   search host [BM, BN], [BK]
#include "kiln/epilogue.h"
#include "kiln/gemm_mma.h"

using kiln::i64;
using Mainloop = kiln::MmaMainloop<T, BM, BN, BK, WM, WN, STAGES, SWIZZLE, TRANS_A, TRANS_B>;

extern "C" __global__ __launch_bounds__(Mainloop::kThreads) void gemm_mma(int m, int n, int k,
                                                                          const T* __restrict__ a,
                                                                          const T* __restrict__ b,
                                                                          float* __restrict__ c) {
    // The grid is a line, since its y and z extents could not hold every m.
    const kiln::TileCoord place = kiln::rasterize<RASTER_GROUP, RASTER_ALONG_M>(
        blockIdx.x, (static_cast<unsigned>(m) + BM - 1) / BM, (static_cast<unsigned>(n) + BN - 1) / BN);
    const i64 first_row = static_cast<i64>(place.row) * BM;
    const i64 first_col = static_cast<i64>(place.col) * BN;
    const int rows = static_cast<int>(m - first_row);
    const int cols = static_cast<int>(n - first_col);

    Mainloop mainloop(threadIdx.x);
    mainloop.run(kiln::dynamic_shared<T>(), a + first_row * (TRANS_A ? 1 : k), TRANS_A ? m : k,
                 b + first_col * (TRANS_B ? k : 1), TRANS_B ? k : n, rows, cols, k);

    const bool pairs = kiln::rows_aligned<2>(c, i64{n});
    c += first_row * n + first_col;
    mainloop.for_each_pair([&](int row, int col, float first, float second) {
        if (row >= rows || col >= cols) return;
        const int in_row = static_cast<int>(first_row) + row, in_col = static_cast<int>(first_col) + col;
        first = EPILOGUE(kiln::activate<ACTIVATION>(ALPHA * first), in_row, in_col);
        second = EPILOGUE(kiln::activate<ACTIVATION>(ALPHA * second), in_row, in_col + 1);
        float* const to = c + static_cast<i64>(row) * n + col;
        if (pairs) {
            kiln::store(to, kiln::Vec<float, 2>{{first, second}});
        } else {
            to[0] = first;
            if (col + 1 < cols) to[1] = second;
        }
    });
}
