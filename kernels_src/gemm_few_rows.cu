// gemm_few_rows: C = A * B for few rows of C, without tensor cores: B is read once, straight into registers
//
// A is m x k, B is k x n, C is m x n, all row-major. Reading B is what takes time. A lane computes BM rows of
// COLS columns; steps of k are distributed over WARPS warps, DEPTH at a time, whose sums are joined at the end. The
// block's part of A lies in shared memory, from where a warp reads four steps of a row at once. While one part is multiplied the next one of
// A and B is under way. Rows of B that start at multiples of COLS elements are read so many at a time, others by element.
// With SPLIT_K > 1 that many blocks share a tile of C, each for a part of k; the last to end adds their results
// in the order of k. This fills the device when C is small.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_few_rows
//@ param   T       type in half, bfloat16, float = float  "element type of A and B"
//@ param   BM      int in 1, 2, 4, 8, 16 = 8              "rows of C per block"
//@ param   COLS    int in 1, 2, 4, 8 = sizeof(T) == 4 ? 4 : 8  "columns of C per lane"
//@ param   WARPS   int in 2, 4, 8, 16 = 8                 "that steps of k are distributed over"
//@ param   DEPTH   int in 4, 8, 16 = 8                    "steps of k that a warp takes at once"
//@ param   SPLIT_K int in 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 = 1  "parts of k, each with a block of its own"
//@ let     BN      = 32 * COLS                 "columns of C per block"
//@ let     BK      = WARPS * DEPTH             "steps of k per part"
//@ let     THREADS = WARPS * 32
//@ let     WORDS   = DEPTH * max(COLS * sizeof(T) / 4, 1)  "registers for a warp's part of B"
//@ let     REGISTERS = BM * COLS + 2 * WORDS + (sizeof(T) < 4 ? 8 * COLS : 0) + ceil_div(BM * BK, THREADS) + (WARPS > 8 ? 80 : 48)  "more of a reserve where a thread has 128 at most"
//@ require COLS * sizeof(T) <= 16  "a lane reads 16 bytes at once, at most; choose a smaller COLS"
//@ require REGISTERS <= min(255, device.registers_per_block / threads)  "the sums of a thread, and what it reads, must fit its registers; choose a smaller BM, COLS or DEPTH"
//@ block   THREADS
//@ grid    ceil_div(n, BN) * ceil_div(m, BM) * SPLIT_K
//@ shared  max(2 * BM * BK, WARPS / 2 * BM * BN) * sizeof(float)
//@ size    m = 8 test BM + 1            "rows of A and C"
//@ size    n = 4096 test BN + 5         "columns of B and C"
//@ size    k = 4096 test 2 * BK + 3     "columns of A, rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ scratch partial [SPLIT_K > 1 ? ceil_div(n, BN) * ceil_div(m, BM) : 1, SPLIT_K > 1 ? SPLIT_K * BM * BN : 1]
//@ scratch tickets [SPLIT_K > 1 ? ceil_div(n, BN) * ceil_div(m, BM) : 1] = 0
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ backend cuda, host
//@ model   tile BM, BN, BK of m, n, k
//@ model   thread BM, COLS
//@ model   copies direct
//@ model   search [BM, COLS], [WARPS, DEPTH], [SPLIT_K]
#include "kiln/alignment.h"
#include "kiln/launch_bounds.h"
#include "kiln/split_k.h"
#include "kiln/stream.h"

using kiln::i64;

// A lane's elements of a part of B. WIDE: COLS neighbours, else every 32nd one.
template <bool WIDE>
struct PartB {
    kiln::Vec<T, COLS> values[DEPTH] = {};

    // b: the lane's first column; columns: how many there are from there on; left: how many steps of k the part has.
    __device__ __forceinline__ void fetch(const T* b, int n, int at, int columns, int left) {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            const T* const from = b + static_cast<i64>(at + d) * n;
            values[d] = {};
            if (d >= left) continue;
            if constexpr (WIDE) {
                if (columns > 0) values[d] = kiln::stream_load<COLS, true>(from);
            } else {
#pragma unroll
                for (int v = 0; v < COLS; ++v)
                    if (v * 32 < columns) values[d][v] = from[v * 32];
            }
        }
    }
    // tile: A's rows, at the warp's first step of k.
    __device__ __forceinline__ void multiply(const float* tile, float (&sums)[BM][COLS]) const {
#pragma unroll
        for (int quad = 0; quad < DEPTH; quad += 4) {
            float b[4][COLS];
#pragma unroll
            for (int s = 0; s < 4; ++s) {
#pragma unroll
                for (int v = 0; v < COLS; ++v) b[s][v] = static_cast<float>(values[quad + s][v]);
            }
#pragma unroll
            for (int i = 0; i < BM; ++i) {
                const auto a = kiln::load<4>(tile + i * BK + quad);
#pragma unroll
                for (int s = 0; s < 4; ++s) {
#pragma unroll
                    for (int v = 0; v < COLS; ++v) sums[i][v] += a[s] * b[s][v];
                }
            }
        }
    }
};

using Tile = kiln::SplitTile<SPLIT_K, BM, BN>;

template <bool WIDE>
__device__ __forceinline__ void multiply(const T* a, const T* b, int m, int n, int k, const Tile& tile,
                                         float* buffers, int thread, float (&sums)[BM][COLS]) {
    const int first = thread / 32 * DEPTH;  // of the warp's steps
    const Tile::Part part = tile.part_of(k, BK);
    const int column = tile.column() + thread % 32 * (WIDE ? COLS : 1);
    const int rows = kiln::min(m - tile.row(), BM);
    const T* const from_a = a + static_cast<i64>(tile.row()) * k;
    PartB<WIDE> now;
    kiln::StagedValues<T, BM * BK, THREADS>
        next_a;  // of steps from `at` on: neighbours of a row for neighbouring threads
    const auto fetch = [&](PartB<WIDE>& part_b, int at) {
        const int left = part.end - at;
        part_b.fetch(b + column, n, at + first, n - column, left - first);
        next_a.fetch(thread, [&](int element) {
            const int row = element / BK, step = element % BK;
            return row < rows && step < left ? from_a[static_cast<i64>(row) * k + at + step] : T{};
        });
    };
    fetch(now, part.begin);
    int buffer = 0;
#pragma unroll 1
    for (int left = part.end - part.begin; left > 0; left -= BK) {
        float* const staged = buffers + buffer * (BM * BK);
        next_a.store(thread, [&](int element) { return staged + element; });
        // Behind it nobody reads the other buffer any more, which is written next.
        __syncthreads();
        PartB<WIDE> next;
        if (left > BK) fetch(next, part.end - left + BK);
        now.multiply(staged + first, sums);
        now = next;
        buffer ^= 1;
    }
}

// The sums of all warps, in the first one: half of them give theirs to the other half, until one is left.
__device__ __forceinline__ void join(float* places, int thread, float (&sums)[BM][COLS]) {
    const int warp = thread / 32, lane = thread % 32;
#pragma unroll
    for (int half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();  // what lay there before is not read any more
        float* const mine = places + warp % half * (BM * BN) + lane;
        if (warp >= half && warp < 2 * half) {
#pragma unroll
            for (int i = 0; i < BM * COLS; ++i) mine[i * 32] = sums[i / COLS][i % COLS];
        }
        __syncthreads();
        if (warp < half) {
#pragma unroll
            for (int i = 0; i < BM * COLS; ++i) sums[i / COLS][i % COLS] += mine[i * 32];
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS, kiln::kOneBlock) void gemm_few_rows(int m, int n, int k,
                                                                    const T* __restrict__ a,
                                                                    const T* __restrict__ b,
                                                                    float* __restrict__ c, float* partial,
                                                                    unsigned* tickets) {
    float* const buffers = kiln::dynamic_shared<float>();
    const Tile tile(m, n, c, partial, tickets);
    const int thread = static_cast<int>(threadIdx.x);

    float sums[BM][COLS] = {};
    const bool is_wide = kiln::rows_aligned<COLS>(b, n);
    if (is_wide)
        multiply<true>(a, b, m, n, k, tile, buffers, thread, sums);
    else
        multiply<false>(a, b, m, n, k, tile, buffers, thread, sums);
    join(buffers, thread, sums);
    if (thread < 32) {
#pragma unroll
        for (int i = 0; i < BM; ++i) {
#pragma unroll
            for (int v = 0; v < COLS; ++v)
                tile.put(i, is_wide ? thread * COLS + v : thread + v * 32, sums[i][v]);
        }
    }
    tile.join<THREADS>(thread);
}
