// gemm_few_columns: C = A * B for few columns of C, without tensor cores: A is read once, straight into registers
//
// A is m x k, B is k x n, C is m x n, all row-major. Reading A is what takes time. A warp computes ROWS rows of BN
// columns; each lane sums up some of the steps of k, and the lanes' sums are joined at the end. The block's part of B, DEPTH steps of k at
// a time, lies transposed in shared memory for all of its warps. While one part is multiplied the next one of A and B is under
// way. Rows that start at multiples of 16 bytes are read 16 bytes at a time, others by element.
// With SPLIT_K > 1 that many blocks share a tile of C, each for a part of k; the last to end adds their results
// in the order of k. This fills the device when C is small.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_few_columns
//@ param   T       type in half, bfloat16, float = float  "element type of A and B"
//@ param   ROWS    int in 1, 2, 4 = 2                     "rows of C per warp"
//@ param   BN      int in 1, 2, 4, 8, 16 = 8              "columns of C per block"
//@ param   WARPS   int in 2, 4, 8 = 4                     "of a block, below each other"
//@ param   UNROLL  int in 1, 2, 4 = 1                     "accesses of a lane to a row of A that are under way"
//@ param   SPLIT_K int in 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 = 1  "parts of k, each with a block of its own"
//@ let     VEC     = 16 / sizeof(T)             "elements per access"
//@ let     DEPTH   = 32 * VEC * UNROLL          "steps of k that are in shared memory"
//@ let     PITCH   = DEPTH + (BN > 1 ? max(4, 32 / BN) : 0)  "of a column of B there: stored without bank conflicts, up to BN = 8"
//@ let     BM      = ROWS * WARPS               "rows of C per block"
//@ let     THREADS = WARPS * 32
//@ require ceil_div(DEPTH * BN, THREADS) <= 32 && ROWS * BN + 8 * ROWS * UNROLL + ceil_div(DEPTH * BN, THREADS) + (sizeof(T) < 4 ? 112 : 72) <= 255  "the accumulators of a thread, and what it reads, must fit its 255 registers; choose a smaller ROWS, BN or UNROLL, or more WARPS"
//@ block   THREADS
//@ grid    ceil_div(n, BN) * ceil_div(m, BM) * SPLIT_K
//@ shared  2 * BN * PITCH * sizeof(float)
//@ size    m = 4096 test BM + 3         "rows of A and C"
//@ size    n = 8 test BN + 1            "columns of B and C"
//@ size    k = 4096 test 2 * DEPTH + 5  "columns of A, rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ scratch partial [SPLIT_K > 1 ? ceil_div(n, BN) * ceil_div(m, BM) : 1, SPLIT_K > 1 ? SPLIT_K * BM * BN : 1]
//@ scratch tickets [SPLIT_K > 1 ? ceil_div(n, BN) * ceil_div(m, BM) : 1] = 0
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ backend cuda, host
//@ model   tile BM, BN, DEPTH of m, n, k
//@ model   thread ROWS, BN
//@ model   copies direct
//@ model   search [ROWS, BN], [WARPS], [UNROLL], [SPLIT_K]
#include "kiln/reduce.h"
#include "kiln/alignment.h"
#include "kiln/split_k.h"
#include "kiln/stream.h"

using kiln::i64;

constexpr int kStep = 32 * VEC;  // of k, that a warp reads at once

// A lane's elements of a part of A. WIDE: VEC neighbours at a time, else every 32nd one.
template <bool WIDE>
struct PartA {
    kiln::Vec<T, VEC> values[ROWS][UNROLL] = {};

    // rows: of this lane, at its first element of the part. left: how many steps of k the part has from there on.
    __device__ __forceinline__ void fetch(const T* const (&rows)[ROWS], int at, int left) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const T* const from = rows[r] + at + u * kStep;
                if constexpr (WIDE) {
                    values[r][u] = {};
                    if (u * kStep < left) values[r][u] = kiln::stream_load<VEC, true>(from);
                } else {
#pragma unroll
                    for (int v = 0; v < VEC; ++v)
                        values[r][u][v] = u * kStep + v * 32 < left ? from[v * 32] : T{};
                }
            }
        }
    }
    // tile: B's columns, at this lane's first step of k.
    __device__ __forceinline__ void multiply(const float* tile, float (&sums)[ROWS][BN]) const {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int quad = 0; quad < VEC; quad += 4) {
#pragma unroll
                for (int j = 0; j < BN; ++j) {
                    const float* const from = tile + j * PITCH + u * kStep + quad * (WIDE ? 1 : 32);
                    kiln::Vec<float, 4> b;
                    if constexpr (WIDE) {
                        b = kiln::load<4>(from);
                    } else {
#pragma unroll
                        for (int v = 0; v < 4; ++v) b[v] = from[v * 32];
                    }
#pragma unroll
                    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
                        for (int v = 0; v < 4; ++v)
                            sums[r][j] += static_cast<float>(values[r][u][quad + v]) * b[v];
                    }
                }
            }
        }
    }
};

using Tile = kiln::SplitTile<SPLIT_K, BM, BN>;

template <bool WIDE>
__device__ __forceinline__ void multiply(const T* a, const T* b, int m, int n, int k, const Tile& tile,
                                         float* buffers, int thread, float (&sums)[ROWS][BN]) {
    const int first = thread % 32 * (WIDE ? VEC : 1);  // of the lane's steps
    const Tile::Part part = tile.part_of(k, DEPTH);
    const T* rows[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)  // behind the last row it once more: what comes of it is not stored
        rows[r] = a + static_cast<i64>(kiln::min(tile.row() + thread / 32 * ROWS + r, m - 1)) * k + first;
    const int columns = n - tile.column();
    const T* const from_b = b + tile.column();
    PartA<WIDE> now;
    kiln::StagedValues<T, DEPTH * BN, THREADS>
        next_b;  // of steps from `at` on: neighbours of a row for neighbouring threads
    const auto fetch = [&](PartA<WIDE>& part_a, int at) {
        const int left = part.end - at;
        part_a.fetch(rows, at, left - first);
        next_b.fetch(thread, [&](int element) {
            const int step = element / BN, column = element % BN;
            return step < kiln::min(left, DEPTH) && column < columns
                       ? from_b[static_cast<i64>(at + step) * n + column]
                       : T{};
        });
    };
    fetch(now, part.begin);
    int buffer = 0;
#pragma unroll 1
    for (int left = part.end - part.begin; left > 0; left -= DEPTH) {
        float* const staged = buffers + buffer * (BN * PITCH);
        next_b.store(thread, [&](int element) { return staged + element % BN * PITCH + element / BN; });
        // Behind it nobody reads the other buffer any more, which is written next.
        __syncthreads();
        PartA<WIDE> next;
        if (left > DEPTH) fetch(next, part.end - left + DEPTH);
        now.multiply(staged + first, sums);
        now = next;
        buffer ^= 1;
    }
}

// The sums of a warp's lanes, joined: with each exchange a lane gives away half of the sums that it has left, so that in the end
// it has those from `first` on; lanes with equal ones differ in `copies` only.
struct LaneSums {
    static constexpr int kCount = ROWS * BN;
    static constexpr int kLeft = kCount > 32 ? kCount / 32 : 1;

    float values[kCount];
    int first = 0;
    int copies = 0;

    __device__ __forceinline__ void join(int lane) {
        int count = kCount;
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) {
            if (count > 1) {
                count /= 2;
                const bool is_upper = (lane & distance) != 0;
#pragma unroll
                for (int i = 0; i < kCount / 2; ++i) {
                    if (i >= count) break;
                    const float given = is_upper ? values[i] : values[i + count];
                    const float kept = is_upper ? values[i + count] : values[i];
                    values[i] = kept + kiln::shuffle_xor(given, distance);
                }
                first += is_upper ? count : 0;
            } else {
                values[0] += kiln::shuffle_xor(values[0], distance);
                copies |= lane & distance;
            }
        }
    }
};

extern "C" __global__ __launch_bounds__(THREADS) void gemm_few_columns(int m, int n, int k,
                                                                       const T* __restrict__ a,
                                                                       const T* __restrict__ b,
                                                                       float* __restrict__ c, float* partial,
                                                                       unsigned* tickets) {
    float* const buffers = kiln::dynamic_shared<float>();
    const Tile tile(m, n, c, partial, tickets);
    const int thread = static_cast<int>(threadIdx.x);

    float sums[ROWS][BN] = {};
    if (kiln::rows_aligned<VEC>(a, k))
        multiply<true>(a, b, m, n, k, tile, buffers, thread, sums);
    else
        multiply<false>(a, b, m, n, k, tile, buffers, thread, sums);

    LaneSums joined;
#pragma unroll
    for (int i = 0; i < LaneSums::kCount; ++i) joined.values[i] = sums[i / BN][i % BN];
    joined.join(thread % 32);
    if (joined.copies == 0) {
#pragma unroll
        for (int i = 0; i < LaneSums::kLeft; ++i)
            tile.put(thread / 32 * ROWS + (joined.first + i) / BN, (joined.first + i) % BN, joined.values[i]);
    }
    tile.join<THREADS>(thread);
}
