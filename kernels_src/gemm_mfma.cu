// gemm_mfma: C = A * B on the matrix cores of AMD's CDNA GPUs, tiles through registers into shared memory
//
// A is m x k, B is k x n, C is m x n, all row-major; sums are in float. A block computes BM x BN results,
// each of its waves WM x WN of them by matrix instructions of MFMA_SIZE x MFMA_SIZE. Both tiles lie in LDS with the
// steps of k side by side, B transposed on its way, so that a lane reads 16 bytes of either at once: those
// feed several matrix instructions. Which steps of k one of them takes then differs from the order in memory,
// but equally for A and B. While a tile is multiplied the next one waits in registers. PAD keeps the rows that
// are read together in different banks. On the host the matrix instructions are emulated from their fragment
// layout: for checking, not for speed.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_mfma
//@ param   T         type in half, bfloat16, float = half  "element type of A and B; C is float"
//@ param   BM        int in 32, 64, 128 = 128              "rows of C per block"
//@ param   BN        int in 32, 64, 128 = 128              "columns of C per block"
//@ param   BK        int in 8, 16, 32, 64 = 32             "steps of k per tile"
//@ param   WM        int in 16, 32, 64 = 64                "rows of C per wave"
//@ param   WN        int in 16, 32, 64 = 64                "columns of C per wave"
//@ param   MFMA_SIZE int in 16, 32 = 32                    "rows and columns of C per matrix instruction"
//@ param   PAD       int in 0, 4, 8, 16 = 8                "extra elements per row of the tiles"
//@ require BM >= WM && BN >= WN             "a wave's part can't be larger than the block's"
//@ require WM >= MFMA_SIZE && WN >= MFMA_SIZE         "a wave's part can't be smaller than that of a matrix instruction"
//@ require PAD * sizeof(T) % 16 == 0        "rows must stay aligned to 16 bytes"
//@ require BK * sizeof(T) >= 1024 / MFMA_SIZE    "the lanes of a wave read 64 / MFMA_SIZE times 16 bytes of a row at once"
//@ require BM / WM * (BN / WN) <= 15        "more than 15 waves leave too few registers each"
//@ size    m = 4096 test 131                "rows of C"
//@ size    n = 4096 test 136                "columns of C"
//@ size    k = 4096 test 88                 "products per result"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_layout_reference
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ block   BM / WM * (BN / WN) * 64
//@ grid    ceil_div(n, BN) * ceil_div(m, BM)
//@ shared  (BM + BN) * (BK + PAD) * sizeof(T)
//@ backend hip, host
//@ arch    gfx908, gfx90a
//@ model   engine mma
//@ model   tile BM, BN, BK of m, n, k
//@ model   warp WM, WN
//@ model   padding PAD
//@ model   search [BM, BN], [BM, WM], [BN, WN], [BK]
//@ model   search host [BM, BN], [BK], [PAD]
#include "kiln/block_tile.h"
#include "kiln/mfma.h"
#include "kiln/tile_layout.h"

using kiln::i64;
using Fragment = kiln::MfmaFragment<MFMA_SIZE>;

constexpr int kThreads = BM / WM * (BN / WN) * kiln::kWaveSize;
constexpr int kChunk = 16 / sizeof(T);  // steps of k in 16 bytes
constexpr int kWide = 4 / sizeof(T);    // columns of B that a thread takes at once
using Layout = kiln::TileLayout<BK, PAD>;  // of both tiles: a row of A or a column of B
constexpr int kChunks = BK / kChunk;  // per row of a tile
constexpr int kPairs = BN / kWide;    // per step of k of B
constexpr int kUnitsA = BM * kChunks, kStepsA = (kUnitsA + kThreads - 1) / kThreads;
constexpr int kUnitsB = kPairs * kChunks, kStepsB = (kUnitsB + kThreads - 1) / kThreads;
constexpr int kDepth = kiln::mfma_depth<T>;

using Chunk = kiln::Vec<T, kChunk>;

// What a thread holds of the next tiles: chunks along k of rows of A and of columns of B.
struct Held {
    Chunk a[kStepsA];
    Chunk b[kStepsB][kWide];
};

// Fetches the tiles at a and b, of which `rows`, `cols` and `depth` tell how much there is; zeros beyond.
// WHOLE: all of both is there, and every chunk of A and pair of B can be read at once.
template <bool WHOLE>
__device__ __forceinline__ void fetch(Held& held, const T* a, i64 a_pitch, const T* b, i64 b_pitch, int rows,
                                      int cols, int depth, int thread) {
#pragma unroll
    for (int step = 0; step < kStepsA; ++step) {
        const int unit = step * kThreads + thread;
        if (kUnitsA % kThreads != 0 && unit >= kUnitsA) break;
        const int row = unit / kChunks, first = unit % kChunks * kChunk;
        const T* const from = a + row * a_pitch + first;
        if constexpr (WHOLE) {
            held.a[step] = kiln::load<kChunk>(from);
        } else {
#pragma unroll
            for (int i = 0; i < kChunk; ++i)
                held.a[step][i] = row < rows && first + i < depth ? from[i] : T(0.0f);
        }
    }
#pragma unroll
    for (int step = 0; step < kStepsB; ++step) {
        const int unit = step * kThreads + thread;
        if (kUnitsB % kThreads != 0 && unit >= kUnitsB) break;
        const int col = unit % kPairs * kWide, first = unit / kPairs * kChunk;
        const T* const from = b + first * b_pitch + col;
#pragma unroll
        for (int i = 0; i < kChunk; ++i) {
            kiln::Vec<T, kWide> values;
            if constexpr (WHOLE) {
                values = kiln::load<kWide>(from + i * b_pitch);
            } else {
#pragma unroll
                for (int w = 0; w < kWide; ++w)
                    values[w] = first + i < depth && col + w < cols ? from[i * b_pitch + w] : T(0.0f);
            }
#pragma unroll
            for (int w = 0; w < kWide; ++w) held.b[step][w][i] = values[w];
        }
    }
}

__device__ __forceinline__ void put(const Held& held, T* tile_a, T* tile_b, int thread) {
#pragma unroll
    for (int step = 0; step < kStepsA; ++step) {
        const int unit = step * kThreads + thread;
        if (kUnitsA % kThreads != 0 && unit >= kUnitsA) break;
        kiln::store(tile_a + Layout::at(unit / kChunks, unit % kChunks * kChunk), held.a[step]);
    }
#pragma unroll
    for (int step = 0; step < kStepsB; ++step) {
        const int unit = step * kThreads + thread;
        if (kUnitsB % kThreads != 0 && unit >= kUnitsB) break;
#pragma unroll
        for (int w = 0; w < kWide; ++w)
            kiln::store(tile_b + Layout::at(unit % kPairs * kWide + w, unit / kPairs * kChunk),
                        held.b[step][w]);
    }
}

// One matrix instruction's share of a chunk.
__device__ __forceinline__ kiln::Vec<T, kDepth> part(const Chunk& chunk, int which) {
    kiln::Vec<T, kDepth> result;
#pragma unroll
    for (int i = 0; i < kDepth; ++i) result[i] = chunk[which * kDepth + i];
    return result;
}

extern "C" __global__ __launch_bounds__(kThreads) void gemm_mfma(int m, int n, int k, const T* __restrict__ a,
                                                                 const T* __restrict__ b,
                                                                 float* __restrict__ c) {
    T* const tile_a = kiln::dynamic_shared<T>();
    T* const tile_b = tile_a + BM * Layout::kPitch;

    const auto [first_row, first_col] = kiln::block_tile<BM, BN>(blockIdx.x, n);
    const int rows = m - first_row;
    const int cols = n - first_col;
    const int thread = threadIdx.x;
    const int lane = thread % kiln::kWaveSize;
    const int wave = thread / kiln::kWaveSize;
    const int wave_row = wave / (BN / WN) * WM;
    const int wave_col = wave % (BN / WN) * WN;
    const bool aligned = k % kChunk == 0 && n % kWide == 0 && reinterpret_cast<kiln::u64>(a) % 16 == 0 &&
                         reinterpret_cast<kiln::u64>(b) % 4 == 0;

    a += static_cast<i64>(first_row) * k;
    b += first_col;
    Held held;
    const auto fetch_next = [&](int depth) {
        if (aligned && rows >= BM && cols >= BN && depth >= BK)
            fetch<true>(held, a, k, b, n, rows, cols, depth, thread);
        else
            fetch<false>(held, a, k, b, n, rows, cols, depth, thread);
    };
    fetch_next(k);

    kiln::MfmaSums<MFMA_SIZE> sums[WM / MFMA_SIZE][WN / MFMA_SIZE];
    for (int left = k; left > 0; left -= BK) {
        put(held, tile_a, tile_b, thread);
        __syncthreads();
        if (left > BK) {
            a += BK;
            b += static_cast<i64>(BK) * n;
            fetch_next(left - BK);
        }
#pragma unroll
        for (int step = 0; step < BK; step += Fragment::kGroups * kChunk) {
            const int at = step + Fragment::k(lane, 0, kChunk);
            Chunk a_chunks[WM / MFMA_SIZE], b_chunks[WN / MFMA_SIZE];
#pragma unroll
            for (int i = 0; i < WM / MFMA_SIZE; ++i)
                a_chunks[i] = kiln::load<kChunk>(
                    tile_a + Layout::at(wave_row + i * MFMA_SIZE + Fragment::a_row(lane), at));
#pragma unroll
            for (int j = 0; j < WN / MFMA_SIZE; ++j)
                b_chunks[j] = kiln::load<kChunk>(
                    tile_b + Layout::at(wave_col + j * MFMA_SIZE + Fragment::b_col(lane), at));
#pragma unroll
            for (int which = 0; which < kChunk / kDepth; ++which) {
#pragma unroll
                for (int i = 0; i < WM / MFMA_SIZE; ++i) {
#pragma unroll
                    for (int j = 0; j < WN / MFMA_SIZE; ++j)
                        kiln::mfma<MFMA_SIZE, T>(sums[i][j], part(a_chunks[i], which),
                                                 part(b_chunks[j], which));
                }
            }
        }
        __syncthreads();
    }

    c += static_cast<i64>(first_row) * n + first_col;
#pragma unroll
    for (int i = 0; i < WM / MFMA_SIZE; ++i) {
#pragma unroll
        for (int j = 0; j < WN / MFMA_SIZE; ++j) {
#pragma unroll
            for (int r = 0; r < Fragment::kSums; ++r) {
                const int row = wave_row + i * MFMA_SIZE + Fragment::c_row(lane, r);
                const int col = wave_col + j * MFMA_SIZE + Fragment::c_col(lane);
                if (row < rows && col < cols) c[static_cast<i64>(row) * n + col] = sums[i][j][r];
            }
        }
    }
}
