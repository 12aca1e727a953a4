// gemm_buffered: C = A * B, the next tile fetched while one is multiplied: register prefetch, double buffering, transposed A
//
// A is m x k, B is k x n, C is m x n, all row-major; products are summed in float, in order of k.
// As gemm_tiled, with A transposed on its way into shared memory, so that a thread reads its part of both tiles
// as vectors. What hides the latency of global memory are two switches:
//   PREFETCH  the next tile is read into registers before the product, and stored after it
//   BUFFERS   with 2 the next tile has a place of its own, and one barrier per step is enough
// and what keeps the transposed stores from meeting in one bank are two more: PAD, which does it all for BK = 8
// and some of it beyond, or SWIZZLE, which does it for all.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_buffered
//@ param   T           type in half, bfloat16, float = float  "element type of A and B; C is float"
//@ param   BM          int in 32, 64, 128, 256 = 128          "rows of C per block"
//@ param   BN          int in 32, 64, 128, 256 = 128          "columns of C per block"
//@ param   BK          int in 8, 16, 32 = 8                   "steps of k per tile"
//@ param   TM          int in 4, 8, 16 = 8                    "rows of C per thread"
//@ param   TN          int in 4, 8 = 8                        "columns of C per thread"
//@ param   VEC         int in 1, 2, 4, 8 = 4                  "elements per access to global memory and to the tiles"
//@ param   PAD         int in 0, 1, 2, 4, 8 = SWIZZLE ? 0 : 4 "extra elements per row of the A tile"
//@ param   SWIZZLE     bool = false                           "exchange vectors within the rows of the A tile, instead of PAD"
//@ param   PREFETCH    bool = true                            "read the next tile into registers before multiplying"
//@ param   BUFFERS     int in 1, 2 = 2                        "tiles of each operand in shared memory"
//@ param   MIN_BLOCKS  int in 1, 2, 3 = 2                     "blocks per multiprocessor that its registers must do for"
//@ require TM % VEC == 0 && TN % VEC == 0    "a thread's rows and columns are read VEC at a time"
//@ require VEC * sizeof(T) <= 16             "one access moves 16 bytes at most"
//@ require BM % (4 * TM) == 0                "32 threads are 4 rows of threads, so BM must be a multiple of 4 * TM"
//@ require BN % (8 * TN) == 0                "32 threads are 8 columns of threads, so BN must be a multiple of 8 * TN"
//@ require (BM + PAD) % VEC == 0             "the pitch of the A tile, BM + PAD, must be a multiple of VEC, or vector accesses are misaligned"
//@ require !(SWIZZLE && PAD != 0)            "PAD and SWIZZLE serve the same purpose; choose PAD = 0 or SWIZZLE = false"
//@ require max(BM, BN) * BK <= 16 * threads  "a thread fetches 16 elements of a tile at most; choose a smaller BK, or fewer results per thread"
//@ require MIN_BLOCKS * (threads * (TM * TN + TM + TN + 36 + 16 / VEC) + (BM + BN) * BK * sizeof(T) / 4) <= device.registers_per_multiprocessor  "the results, fragments and fetched tiles of MIN_BLOCKS blocks must fit the registers"
//@ block   (BM / TM) * (BN / TN)
//@ grid    ceil_div(n, BN) * ceil_div(m, BM)
//@ shared  BUFFERS * BK * (BM + PAD + BN) * sizeof(T)
//@ size    m = 4096 test BM + 1      "rows of A and C"
//@ size    n = 4096 test BN + 9      "columns of B and C"
//@ size    k = 4096 test 2 * BK + 3  "columns of A, rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ model   tile BM, BN, BK of m, n, k
//@ model   thread TM, TN, VEC
//@ model   padding PAD
//@ model   search [BM, BN], [BM, TM], [BN, TN], [BK], [VEC]
//@ model   search host [BM, BN], [BK, BUFFERS], [TM, TN, VEC, PAD]
#include "kiln/block_tile.h"
#include "kiln/gemm_tile.h"

using kiln::i64;
using Threads = kiln::ThreadTile<BM, BN, TM, TN, VEC>;
using TileA = kiln::OperandTile<T, BK, BM, true, VEC, Threads::kThreads, PAD, SWIZZLE>;
using TileB = kiln::OperandTile<T, BK, BN, false, VEC, Threads::kThreads, 0, false>;

extern "C" __global__ __launch_bounds__(Threads::kThreads, MIN_BLOCKS) void gemm_buffered(
    int m, int n, int k, const T* __restrict__ a, const T* __restrict__ b, float* __restrict__ c) {
    T* const shared = kiln::dynamic_shared<T>();

    const auto [first_row, first_col] = kiln::block_tile<BM, BN>(blockIdx.x, n);
    const int rows = m - first_row;
    const int cols = n - first_col;
    const int thread = threadIdx.x;
    const Threads mine(thread);

    TileA next_a(a, static_cast<i64>(first_row) * k, k, rows, thread);
    TileB next_b(b, first_col, n, cols, thread);
    float sums[TM][TN] = {};
    kiln::multiply_all<VEC, PREFETCH, BUFFERS>(next_a, next_b, k, shared, mine, sums);
    kiln::store_results<VEC>(c + static_cast<i64>(first_row) * n + first_col, n, rows, cols, mine, sums);
}
