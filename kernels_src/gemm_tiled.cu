// gemm_tiled: C = A * B with a BM x BK tile of A and a BK x BN tile of B in shared memory, TM x TN results per thread
//
// A is m x k, B is k x n, C is m x n, all row-major; products are summed in float, in order of k.
// A thread's rows lie BM / TM apart and its columns BN / TN vectors apart, so that neighbouring threads
// read neighbouring elements of the tiles.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_tiled
//@ param   T         type in half, bfloat16, float = half        "element type of A and B; C is float"
//@ param   BM        int in 16, 32, 64, 128 = 64                 "rows of C per block"
//@ param   BN        int in 16, 32, 64, 128 = 64                 "columns of C per block"
//@ param   BK        int in 8, 16, 32, 64 = 32                   "steps of k per tile"
//@ param   TM        int in 1, 2, 4, 8 = 4                       "rows of C per thread"
//@ param   TN        int in 1, 2, 4, 8 = 4                       "columns of C per thread"
//@ param   PAD       int in 0, 1, 2, 4, 8 = 2                    "extra elements per row of the B tile"
//@ param   VEC       int in 1, 2, 4, 8 = 1                       "elements per access to the B tile"
//@ param   UNROLL    int in 1, 2, 4, 8, 64 = 8                   "steps of k per turn of the innermost loop; 64: all of a tile's"
//@ param   MIN_WARPS int in 0, 16, 32, 40, 48 = 40               "warps per multiprocessor for which registers are saved, as far as the results leave any; 0: none are"
//@ let     THREADS_X = BN / TN
//@ let     THREADS_Y = BM / TM
//@ let     PITCH_B   = BN + PAD                                "of the B tile, in elements"
//@ let     REGISTERS = TM * TN + 3 * (TM + TN) + (VEC * sizeof(T) >= 16 ? 16 : 8) + (UNROLL > 8 ? 16 : 0)  "of a thread: its results, its operands three times, since they are read ahead, and addresses"
//@ require TN % VEC == 0            "a thread's TN columns are read VEC at a time"
//@ require PITCH_B % VEC == 0       "the pitch of the B tile, BN + PAD, must be a multiple of VEC, or vector accesses are misaligned"
//@ require VEC * sizeof(T) <= 16    "one access moves 16 bytes at most"
//@ require threads * REGISTERS <= device.registers_per_block  "the results, operands and addresses of all threads must fit the registers: use more results per thread, or a smaller UNROLL"
//@ block   THREADS_X, THREADS_Y
//@ grid    ceil_div(n, BN) * ceil_div(m, BM)
//@ shared  (BM * BK + BK * PITCH_B) * sizeof(T)
//@ size    m = 4096 test BM + 1      "rows of A and C"
//@ size    n = 4096 test 2 * BN - 1  "columns of B and C"
//@ size    k = 4096 test 2 * BK + 3  "columns of A, rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ model   tile BM, BN, BK of m, n, k
//@ model   thread TM, TN, VEC
//@ model   padding PAD
//@ model   search [BM, BN], [BM, TM], [BN, TN], [BK], [VEC], [UNROLL]
//@ model   search host [BM, BN], [BK], [TM, TN, VEC, PAD]
#include "kiln/alignment.h"
#include "kiln/block_tile.h"
#include "kiln/tile_layout.h"

using kiln::i64;

constexpr int kThreads = THREADS_X * THREADS_Y;
#if defined(__CUDA_ARCH__)
// Registers are allocated in units of 8 per lane, from those of one of a multiprocessor's four schedulers.
constexpr int kAddresses = __CUDA_ARCH__ < 900 ? 8 * int(sizeof(T)) : 0;  // more of them
constexpr int kRegisters = kiln::max(40, kiln::ceil_div(REGISTERS + kAddresses, 8) * 8);
// What every multiprocessor of such an architecture can hold: ptxas ignores a bound beyond that.
constexpr int kMostBlocks = __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100) ? 32 : 16;
constexpr int kMinBlocks = kiln::max(
    1, kiln::min(kMostBlocks, kiln::min(MIN_WARPS, 512 / kRegisters * 4) / kiln::ceil_div(kThreads, 32)));
#else
constexpr int kMinBlocks = 1;  // HIP reads it as waves per SIMD
#endif
using LayoutA = kiln::TileLayout<BK>;
using LayoutB = kiln::TileLayout<BN, PAD>;

// Elements per access to global memory. A tile of A is as wide as its pitch, so its copies move 16 bytes; those
// of B move a word or more, so that a warp that has to write single elements behind an odd pitch still meets
// every bank once.
constexpr int kWidthA = kiln::min(16 / int(sizeof(T)), BK);
constexpr int kWidthB = kiln::max(VEC, 4 / int(sizeof(T)));

// Copies a whole tile, WIDTH elements per access to global memory.
template <int WIDTH, int ROWS, class Layout>
__device__ __forceinline__ void copy_tile(T* tile, const T* __restrict__ source, i64 source_pitch, int thread) {
    constexpr int kAccessesPerRow = Layout::kCols / WIDTH;
    constexpr int kAcross = kiln::min(kAccessesPerRow, kThreads);
    constexpr int kDown = kThreads / kAcross;
    const int row = thread / kAcross;
    const int col = thread % kAcross * WIDTH;
    source += row * source_pitch + col;
    tile += Layout::at(row, col);
    // Rows are counted up in the address: an address of its own for every access costs two registers each.
#pragma unroll 8
    for (int down = 0; down < ROWS; down += kDown, source += kDown * source_pitch, tile += kDown * Layout::kPitch) {
#pragma unroll
        for (int across = 0; across < Layout::kCols; across += kAcross * WIDTH) {
            if (ROWS % kDown != 0 && row + down >= ROWS) continue;
            const auto values = kiln::load<WIDTH>(source + across);
            if constexpr (Layout::kPitch % WIDTH == 0) {
                kiln::store(tile + across, values);
            } else {
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) tile[across + v] = values[v];
            }
        }
    }
}

// Copies what there is of a tile, `rows` x `cols` elements, one by one, and writes zero beyond.
template <int ROWS, class Layout>
__device__ __forceinline__ void copy_part(T* tile, const T* __restrict__ source, i64 source_pitch, int rows, int cols,
                                          int thread) {
    constexpr int kAcross = kiln::min(Layout::kCols, kThreads);
    constexpr int kDown = kThreads / kAcross;
    const int row = thread / kAcross;
    const int col = thread % kAcross;
    source += row * source_pitch + col;
    tile += Layout::at(row, col);
#pragma unroll 4
    for (int down = 0; down < ROWS; down += kDown, source += kDown * source_pitch, tile += kDown * Layout::kPitch) {
#pragma unroll
        for (int across = 0; across < Layout::kCols; across += kAcross) {
            if (ROWS % kDown != 0 && row + down >= ROWS) continue;
            const bool inside = row + down < rows && col + across < cols;
            tile[across] = inside ? source[across] : T(0.0f);
        }
    }
}

// `aligned`: every row of the source starts at a multiple of WIDTH elements. The test is the same for the whole
// block.
template <int WIDTH, int ROWS, class Layout>
__device__ __forceinline__ void load_tile(T* tile, const T* __restrict__ source, i64 source_pitch, int rows, int cols,
                                          bool aligned, int thread) {
    if (aligned && rows >= ROWS && cols >= Layout::kCols)
        copy_tile<WIDTH, ROWS, Layout>(tile, source, source_pitch, thread);
    else
        copy_part<ROWS, Layout>(tile, source, source_pitch, rows, cols, thread);
}

extern "C" __global__ __launch_bounds__(kThreads, kMinBlocks) void gemm_tiled(int m, int n, int k,
                                                                              const T* __restrict__ a,
                                                                              const T* __restrict__ b,
                                                                              float* __restrict__ c) {
    T* const tile_a = kiln::dynamic_shared<T>();
    T* const tile_b = tile_a + BM * LayoutA::kPitch;

    const auto [first_row, first_col] = kiln::block_tile<BM, BN>(blockIdx.x, n);
    const int rows = m - first_row < BM ? m - first_row : BM;
    const int cols = n - first_col < BN ? n - first_col : BN;
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int thread = y * THREADS_X + x;
    const bool a_aligned = kiln::rows_aligned<kWidthA>(a, k);
    const bool b_aligned = kiln::rows_aligned<kWidthB>(b, n);

    a += static_cast<i64>(first_row) * k;
    b += first_col;
    float sums[TM][TN] = {};
    for (int left = k; left > 0; left -= BK) {
        const int depth = left < BK ? left : BK;
        load_tile<kWidthA, BM, LayoutA>(tile_a, a, k, rows, depth, a_aligned, thread);
        load_tile<kWidthB, BK, LayoutB>(tile_b, b, n, depth, cols, b_aligned, thread);
        a += BK;
        b += static_cast<i64>(BK) * n;
        __syncthreads();
#pragma unroll UNROLL
        for (int step = 0; step < BK; ++step) {
            float a_values[TM];
            float b_values[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i)
                a_values[i] = static_cast<float>(tile_a[LayoutA::at(y + i * THREADS_Y, step)]);
#pragma unroll
            for (int j = 0; j < TN; j += VEC) {
                const auto values = kiln::load<VEC>(tile_b + LayoutB::at(step, 0) + j * THREADS_X + x * VEC);
#pragma unroll
                for (int v = 0; v < VEC; ++v) b_values[j + v] = static_cast<float>(values[v]);
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) sums[i][j] += a_values[i] * b_values[j];
            }
        }
        __syncthreads();
    }

    kiln::store_strided<THREADS_X, THREADS_Y, VEC>(c + static_cast<i64>(first_row) * n + first_col, n, rows, cols, x, y,
                                                 sums);
}
