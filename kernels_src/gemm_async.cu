// gemm_async: C = A * B, tiles of A and B on their way to shared memory by cp.async while one is multiplied
//
// A is m x k, B is k x n, C is m x n, all row-major; products are summed in float, in order of k. STAGES tiles
// of A and of B lie in shared memory: one is multiplied, the others are on their way. TM x TN results per
// thread: its rows lie BM / TM apart and its columns BN / TN vectors apart. A thread reads the A tile along k,
// and only the rows of one warp's threads differ: PAD or SWIZZLE keeps them in different banks. The B tile is
// read by whole rows, which have no conflicts.
// Copies take VEC elements. Where a row of A or B does not start at a multiple of that (k, n or an address
// forbids it) its elements are copied one by one, and not asynchronously.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_async
//@ param   T        type in half, bfloat16, float = half  "element type of A and B; C is float"
//@ param   BM       int in 32, 64, 128 = 64               "rows of C per block"
//@ param   BN       int in 32, 64, 128 = 64               "columns of C per block"
//@ param   BK       int in 8, 16, 32, 64 = 32             "steps of k per tile"
//@ param   TM       int in 2, 4, 8 = 4                    "rows of C per thread"
//@ param   TN       int in 2, 4, 8 = 4                    "columns of C per thread"
//@ param   VEC      int in 1, 2, 4, 8 = 4                 "elements per copy; 4, 8 or 16 bytes"
//@ param   STAGES   int in 2, 3, 4 = 3                    "tiles in shared memory"
//@ param   PAD      int in 0, 2, 4, 8 = 0                 "extra elements per row of the A tile"
//@ param   SWIZZLE  bool = true                           "XOR the vectors of the A tile with their row instead of padding it"
//@ let     THREADS_X = BN / TN
//@ let     THREADS_Y = BM / TM
//@ require VEC * sizeof(T) >= 4        "an asynchronous copy moves 4 bytes at least"
//@ require VEC * sizeof(T) <= 16       "an asynchronous copy moves 16 bytes at most"
//@ require PAD % VEC == 0              "the pitch of the A tile, BK + PAD, must be a multiple of VEC, or copies are misaligned"
//@ require !SWIZZLE || PAD == 0        "PAD and SWIZZLE serve the same purpose; choose PAD = 0 or SWIZZLE = false"
//@ require TN % VEC == 0 || VEC % TN == 0  "a thread reads its TN columns in vectors"
//@ require THREADS_X * THREADS_Y >= max(BK, BN) / VEC   "the threads of a block must be able to take a row of a tile at once: use a larger VEC, or fewer results per thread"
//@ size    m = 4096 test 97         "rows of C"
//@ size    n = 4096 test 136        "columns of C"
//@ size    k = 4096 test 88         "products per result"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   THREADS_X, THREADS_Y
//@ grid    ceil_div(n, BN) * ceil_div(m, BM)
//@ shared  STAGES * (BM * (BK + PAD) + BK * BN) * sizeof(T)
//@ model   tile BM, BN, BK of m, n, k
//@ model   thread TM, TN, VEC
//@ model   padding PAD
//@ model   copies async
//@ model   search [BM, BN], [BM, TM], [BN, TN], [BK, STAGES], [BM, BN, STAGES], [VEC]
//@ model   search host [BM, BN], [BK], [TM, TN, VEC, PAD]
#include "kiln/async_tile.h"
#include "kiln/block_tile.h"
#include "kiln/launch_bounds.h"

using kiln::i64;

constexpr int kThreads = THREADS_X * THREADS_Y;
constexpr int kRead = VEC < TN ? VEC : TN;  // columns of B that a thread reads at once
constexpr int kDepth =
    VEC < 4 ? VEC : 4;  // steps of k that it reads of A at once; more need too many registers

using LayoutA = kiln::TileLayout<BK, PAD, kiln::LineSwizzle<T, BK, VEC, SWIZZLE>>;
using LayoutB = kiln::TileLayout<BN>;
using TileA = kiln::AsyncTile<T, BM, LayoutA, VEC, kThreads>;
using TileB = kiln::AsyncTile<T, BK, LayoutB, VEC, kThreads>;
constexpr int kStage = TileA::kElements + TileB::kElements;

__device__ __forceinline__ void multiply(float (&sums)[TM][TN], const T* tile_a, const T* tile_b, int x,
                                         int y) {
#pragma unroll 4
    for (int step = 0; step < BK; step += kDepth) {
        kiln::Vec<T, kDepth> a_values[TM];
#pragma unroll
        for (int i = 0; i < TM; ++i)
            a_values[i] = kiln::load<kDepth>(tile_a + LayoutA::at(y + i * THREADS_Y, step));
#pragma unroll
        for (int s = 0; s < kDepth; ++s) {
            float b_values[TN];
#pragma unroll
            for (int j = 0; j < TN; j += kRead) {
                const auto values = kiln::load<kRead>(tile_b + LayoutB::at(step + s, 0) + j * THREADS_X + x * kRead);
#pragma unroll
                for (int v = 0; v < kRead; ++v) b_values[j + v] = static_cast<float>(values[v]);
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                const auto value = static_cast<float>(a_values[i][s]);
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] += value * b_values[j];
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(kThreads, kiln::kOneBlock) void gemm_async(int m, int n, int k,
                                                                  const T* __restrict__ a,
                                                                  const T* __restrict__ b,
                                                                  float* __restrict__ c) {
    T* const tiles = kiln::dynamic_shared<T>();

    const auto [first_row, first_col] = kiln::block_tile<BM, BN>(blockIdx.x, n);
    const int rows = m - first_row;
    const int cols = n - first_col;
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int thread = y * THREADS_X + x;

    TileA::Loader load_a(a + static_cast<i64>(first_row) * k, k, thread);
    TileB::Loader load_b(b + first_col, n, thread);
    kiln::AsyncCopies<STAGES*(TileA::kCopies + TileB::kCopies)> copies;
    int left = k;  // steps of k that no load has taken yet; past the end a load writes zeros
    const auto load_stage = [&](int stage) {
        load_a.load(copies, tiles + stage * kStage, rows, left);
        load_b.load(copies, tiles + stage * kStage + TileA::kElements, left, cols);
        copies.commit();
        load_a.advance(BK);
        load_b.advance(static_cast<i64>(BK) * n);
        left = left > BK ? left - BK : 0;
    };

#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) load_stage(stage);

    float sums[TM][TN] = {};
    int read_stage = 0, write_stage = STAGES - 1;
    const int tile_count = (k - 1) / BK + 1;
#pragma unroll 1
    for (int tile = 0; tile < tile_count; ++tile) {
        // This thread's copies for the tile have arrived; behind the barrier everyone's have, and everyone
        // has read the stage that is filled next.
        copies.wait<STAGES - 2>();
        __syncthreads();
        load_stage(write_stage);
        multiply(sums, tiles + read_stage * kStage, tiles + read_stage * kStage + TileA::kElements, x, y);
        read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
        write_stage = write_stage + 1 == STAGES ? 0 : write_stage + 1;
    }
    copies.wait<0>();

    kiln::store_strided<THREADS_X, THREADS_Y, kRead>(c + static_cast<i64>(first_row) * n + first_col, n, rows, cols, x, y,
                                                 sums);
}
