// gemm_fp32: C = A * B in FP32, made so that fused multiply-adds take most issue slots
//
// A is m x k, B is k x n, C is m x n, all row-major. A block computes BM x BN results out of STAGES tiles that
// cp.async brings to shared memory; a warp 8 TM x 4 TN of them, 8 x 4 threads with TM rows and TN columns each.
// Neighbouring lanes share a row of A, and lanes two apart columns of B; with either, shared memory serves the 16-byte
// reads of half a warp at once, and not of a quarter.
// A thread's operands of the next step are read while it multiplies: B's row into a second set of registers,
// A's next four steps of a row as soon as the last of the present four is used. What limits a multiply-add is
// the reading of its registers: a register file has two banks, and two operands out of one take a cycle more. So
// the order of a step's products lets each share one operand with the one before it, and results are stored in
// a way that keeps them out of the bank of their operand from B. OPT_LEVEL = 1 makes ptxas keep that order; else it makes
// three of ten products wait.
// Where rows start at multiples of 16 bytes copies take 16 bytes, else 4, and every m, n and k runs well.
// With SPLIT_K > 1 that many blocks share a tile of C, each for a part of k; the last to end adds their results
// in the order of k. This fills the device when C is small.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_fp32
//@ param   T            type in float = float     "element type of A, B and C"
//@ param   BM           int in 64, 128, 256 = 64  "rows of C per block"
//@ param   BN           int in 32, 64, 128, 256 = 128 "columns of C per block"
//@ param   BK           int in 8, 16, 32 = 32     "steps of k per tile"
//@ param   TM           int in 4, 8, 16 = 8       "rows of C per thread"
//@ param   TN           int in 4, 8, 16 = 16      "columns of C per thread"
//@ param   STAGES       int in 2..6 = 2           "tiles in shared memory"
//@ param   RASTER_GROUP int in 1, 4, 8, 16 = 8    "rows of blocks that are worked through column by column, for the L2 cache"
//@ param   SPLIT_K      int in 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32 = 1  "parts of k, each with a block of its own"
//@ param   MIN_BLOCKS   int in 1..8 = 4           "blocks per multiprocessor that its registers must do for"
//@ param   OPT_LEVEL    int in 1, 3 = 1           "optimization level of ptxas; with 1 it keeps the order of the products"
//@ let     THREADS   = (BM / TM) * (BN / TN)
//@ let     STAGE     = BK * (BM + BN)            "elements: a tile of A and one of B"
//@ let     REGISTERS = TM * TN + 4 * TM + 2 * TN + 48  "of a thread: results, operands, addresses"
//@ require BM % (8 * TM) == 0   "a warp is 8 rows of threads, so BM must be a multiple of 8 * TM"
//@ require BN % (4 * TN) == 0   "a warp is 4 columns of threads, so BN must be a multiple of 4 * TN"
//@ require THREADS >= BN / 4  "the threads of a block copy whole rows at a time: use more of them"
//@ require REGISTERS <= 255  "the results and operands of a thread must fit its 255 registers"
//@ require MIN_BLOCKS * THREADS * REGISTERS <= device.registers_per_multiprocessor  "the results and operands of MIN_BLOCKS blocks must fit the registers"
//@ opt_level OPT_LEVEL
//@ block   THREADS
//@ grid    ceil_div(n, BN) * ceil_div(m, BM) * SPLIT_K
//@ shared  max(STAGES * STAGE, THREADS * TN) * sizeof(float)
//@ size    m = 4096 test BM + 1      "rows of A and C"
//@ size    n = 4096 test BN + 12     "columns of B and C"
//@ size    k = 4096 test 3 * BK + 4  "columns of A, rows of B"
//@ input   a [m, k]
//@ input   b [k, n]
//@ output  c [m, n] by gemm_reference exact
//@ scratch partial [SPLIT_K > 1 ? ceil_div(n, BN) * ceil_div(m, BM) : 1, SPLIT_K > 1 ? SPLIT_K * BM * BN : 1] align 16
//@ scratch tickets [SPLIT_K > 1 ? ceil_div(n, BN) * ceil_div(m, BM) : 1] = 0
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ backend cuda, host
//@ model   tile BM, BN, BK of m, n, k
//@ model   thread TM, TN
//@ model   copies async
//@ model   search [BM, BN], [BM, TM], [BN, TN], [BK, STAGES], [BM, BN, STAGES], [SPLIT_K]
//@ model   search host [BM, BN], [BK], [TM, TN]
#include "kiln/alignment.h"
#include "kiln/async.h"
#include "kiln/last_block.h"
#include "kiln/ptxas.h"
#include "kiln/tile_layout.h"

using kiln::i64;

constexpr int kAcross = BN / (4 * TN);  // warps
constexpr int kElementsA = BM * BK;
constexpr int kElementsB = BK * BN;
constexpr int kStage = kElementsA + kElementsB;
constexpr int kDepth = 4;  // steps of k that are read of A at once
// Steps that are written out; with more of them ptxas runs out of registers.
constexpr int kUnrolled = kiln::kLaterPtxas && SPLIT_K > 4 ? 4 : 8;

// Where the elements of a tile lie. A's chunks of 4 are exchanged within their rows, so that 8 rows that are
// read at the same step lie in different banks: 128 bytes are one row of 32 steps of k, or several of fewer.
struct PlacesA {
    static constexpr int kRows = BM;
    static constexpr int kCols = BK;
    static constexpr bool kStepsAreRows = false;  // of k
    using Swizzle = kiln::LineSwizzle<float, BK, kDepth>;
    static __device__ __forceinline__ constexpr unsigned at(unsigned row, unsigned col) {
        return kiln::TileLayout<BK, 0, Swizzle>::group_at(row, col / kDepth) + col % kDepth;
    }
    // Element (row + down, col), from the place of (row, col); down is a multiple of a power of two that is larger
    // than row.
    static __device__ __forceinline__ float* below(float* tile, unsigned place, unsigned down, unsigned) {
        return tile + static_cast<int>(place ^ Swizzle::order(down) * kDepth) + down * BK;
    }
};
struct PlacesB {
    static constexpr int kRows = BK;
    static constexpr int kCols = BN;
    static constexpr bool kStepsAreRows = true;
    static __device__ __forceinline__ constexpr unsigned at(unsigned row, unsigned col) {
        return kiln::TileLayout<BN>::at(row, col);
    }
    static __device__ __forceinline__ float* below(float* tile, unsigned place, unsigned down,
                                                   unsigned right) {
        return tile + static_cast<int>(place) + (down * BN + right);
    }
};

// One thread's part in copying tiles, WIDTH elements at a time.
template <class Places, int WIDTH>
struct Copier {
    static constexpr int kChunks = Places::kCols / WIDTH < THREADS ? Places::kCols / WIDTH : THREADS;
    static constexpr int kRowsPerStep = THREADS / kChunks;
    static constexpr int kColSteps = Places::kCols / WIDTH / kChunks;
    static constexpr int kRowSteps = (Places::kRows + kRowsPerStep - 1) / kRowsPerStep;
    static constexpr int kCopies = kRowSteps * kColSteps;
    static constexpr bool kIsWhole = Places::kRows % kRowsPerStep == 0;

    // A tile of which all steps of k are there. What lies behind the last row of A or the last column of B is
    // another one instead, since its results are not stored; rows, cols: how much of the matrix is left.
    template <class Copies>
    static __device__ __forceinline__ void copy(Copies& copies, float* tile, const float* corner, int pitch,
                                                int rows, int cols, int thread) {
        if (Places::kStepsAreRows || rows >= Places::kRows)
            copy_rows<true>(copies, tile, corner, pitch, rows, cols, thread);
        else
            copy_rows<false>(copies, tile, corner, pitch, rows, cols, thread);
    }

    template <bool HAS_ROWS, class Copies>
    static __device__ __forceinline__ void copy_rows(Copies& copies, float* tile, const float* corner,
                                                     int pitch, int rows, int cols, int thread) {
        int row = static_cast<int>(static_cast<unsigned>(thread) / kChunks);
        const int first_col = static_cast<int>(static_cast<unsigned>(thread) % kChunks) * WIDTH;
        const unsigned place = Places::at(row, first_col);
        const i64 stride = static_cast<i64>(kRowsPerStep) * pitch;
        const float* from[kColSteps];
#pragma unroll
        for (int j = 0; j < kColSteps; ++j) {
            const int col = first_col + j * kChunks * WIDTH;
            from[j] = corner + static_cast<i64>(HAS_ROWS ? row : kiln::min(row, rows - 1)) * pitch +
                      (Places::kStepsAreRows ? kiln::min(col, cols - WIDTH) : col);
        }
        // More of them at once take registers from the sums.
        constexpr int kCopiesAtOnce = (HAS_ROWS ? 8 : 2) / (kiln::kLaterPtxas ? HAS_ROWS ? 4 : 2 : 1);
        constexpr int kRowsAtOnce = kiln::max(kCopiesAtOnce / kColSteps, 1);
#pragma unroll kRowsAtOnce
        for (int i = 0; i < kRowSteps; ++i) {
            if (!kIsWhole && row >= Places::kRows) break;
            row += kRowsPerStep;
#pragma unroll
            for (int j = 0; j < kColSteps; ++j) {
                copies.template copy<WIDTH>(Places::below(tile, place, i * kRowsPerStep, j * kChunks * WIDTH),
                                            from[j]);
                if (HAS_ROWS || row < rows) from[j] += stride;
            }
        }
    }

    // The last tile: zeros where nothing is left.
    template <class Copies>
    static __device__ __forceinline__ void copy_rest(Copies& copies, float* tile, const float* corner,
                                                     int pitch, int rows, int cols, int thread) {
        const int first_row = static_cast<int>(static_cast<unsigned>(thread) / kChunks);
        const int first_col = static_cast<int>(static_cast<unsigned>(thread) % kChunks) * WIDTH;
        constexpr int kRowsAtOnce = 2;
#pragma unroll kRowsAtOnce
        for (int i = 0; i < kRowSteps; ++i) {
            const int row = first_row + i * kRowsPerStep;
            if (!kIsWhole && row >= Places::kRows) break;
#pragma unroll
            for (int j = 0; j < kColSteps; ++j) {
                const int col = first_col + j * kChunks * WIDTH;
                const int left = row < rows ? cols - col : 0;
                copies.template copy<WIDTH>(tile + Places::at(row, col),
                                            corner + static_cast<i64>(row) * pitch + col,
                                            kiln::max(kiln::min(left, WIDTH), 0));
            }
        }
    }
};

template <class Places, class Copies>
__device__ __forceinline__ void copy_tile(Copies& copies, float* tile, const float* corner, int pitch,
                                          bool aligned, bool whole, int rows, int cols, int thread) {
    if (aligned) {
        if (whole)
            Copier<Places, 4>::copy(copies, tile, corner, pitch, rows, cols, thread);
        else
            Copier<Places, 4>::copy_rest(copies, tile, corner, pitch, rows, cols, thread);
    } else {
        if (whole)
            Copier<Places, 1>::copy(copies, tile, corner, pitch, rows, cols, thread);
        else
            Copier<Places, 1>::copy_rest(copies, tile, corner, pitch, rows, cols, thread);
    }
}

// The operands of a thread, and what it makes of them.
struct Work {
    kiln::Vec<float, kDepth> a[TM];
    kiln::Vec<float, 4> b[2][TN / 4];
    float sums[TM][TN];

    // tile: its first row for this thread, the chunk of steps 0 to 3; a further row of threads is 8 rows off.
    __device__ __forceinline__ void read_a(const float* tiles, int first, int chunk, int i) {
        a[i] = kiln::load<kDepth>(tiles + (first ^ chunk * kDepth) + i * 8 * BK);
    }
    __device__ __forceinline__ void read_b(const float* tile, int step) {
#pragma unroll
        for (int j = 0; j < TN / 4; ++j) b[step % 2][j] = kiln::load<4>(tile + step * BN + j * 16);
    }
    // Every other row backwards: its first product then has its b from the one before.
    __device__ __forceinline__ void multiply(int i, int step) {
#pragma unroll
        for (int column = 0; column < TN; ++column) {
            const int j = i % 2 == 0 ? column : TN - 1 - column;
            sums[i][j] += a[i][step % kDepth] * b[step % 2][j / 4][j % 4];
        }
    }

    // Four neighbouring results, each two of them exchanged.
    __device__ __forceinline__ kiln::Vec<float, 4> swapped(int i, int j) const {
        return {{sums[i][j + 1], sums[i][j], sums[i][j + 3], sums[i][j + 2]}};
    }
};

// Where four neighbouring results of a warp's row lie in shared memory, in fours: they are exchanged within the row,
// so that the four rows that are written at once lie in different banks.
__device__ __forceinline__ int quad_in_staging(int row, int quad) {
    return row * TN + (quad ^ row / (TN < 8 ? 2 : 1) * 2 % TN);
}

// Adds the results of all blocks that share a tile, in the order of k, in the last of them.
__device__ __forceinline__ bool join(Work& work, float* partial, unsigned* tickets, unsigned tile,
                                     unsigned split, int thread) {
    float* const all = partial + static_cast<i64>(tile) * SPLIT_K * (BM * BN) + thread * 4;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            kiln::store(all + split * (BM * BN) + (i * TN + j) * THREADS, work.swapped(i, j));
        }
    }
    if (!kiln::is_last_block(tickets + tile, SPLIT_K)) return false;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            constexpr int kAtOnce = SPLIT_K > 8 ? 4 : SPLIT_K;
#pragma unroll
            for (int first = 0; first < SPLIT_K; first += kAtOnce) {
                kiln::Vec<float, 4> values[kAtOnce];
#pragma unroll
                for (int s = 0; s < kAtOnce; ++s)
                    values[s] = kiln::load<4>(all + (first + s) * (BM * BN) + (i * TN + j) * THREADS);
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    float sum = first == 0 ? values[0][v] : work.sums[i][j + (v ^ 1)];
#pragma unroll
                    for (int s = first == 0 ? 1 : 0; s < kAtOnce; ++s) sum += values[s][v];
                    work.sums[i][j + (v ^ 1)] = sum;
                }
            }
        }
    }
    return true;
}

extern "C" __global__ __launch_bounds__(THREADS, MIN_BLOCKS) void gemm_fp32(
    int m, int n, int k, const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
    float* partial, unsigned* tickets) {
    float* const tiles = kiln::dynamic_shared<float>();

    // The grid is a line, since its y and z extents could not hold every m.
    const unsigned across = (static_cast<unsigned>(n) + BN - 1) / BN;
    const unsigned down = (static_cast<unsigned>(m) + BM - 1) / BM;
    const unsigned tile = SPLIT_K > 1 ? blockIdx.x % (across * down) : blockIdx.x;
    const unsigned split = SPLIT_K > 1 ? blockIdx.x / (across * down) : 0;
    const unsigned group = tile / (RASTER_GROUP * across) * RASTER_GROUP;
    const unsigned height = kiln::min(down - group, static_cast<unsigned>(RASTER_GROUP));
    const unsigned place = tile - group * across;
    const int first_row = static_cast<int>(group + place % height) * BM;
    const int first_col = static_cast<int>(place / height) * BN;
    const int rows = m - first_row;
    const int cols = n - first_col;

    // This block's part of k; the last blocks of a tile may have none.
    const int all_steps = (k - 1) / BK + 1;
    const int part_steps = (all_steps - 1) / SPLIT_K + 1;
    const int first_step = static_cast<int>(split) * part_steps;
    const int steps = kiln::max(kiln::min(all_steps - first_step, part_steps), 0);

    const int thread = threadIdx.x;
    const float* next_a = a + static_cast<i64>(first_row) * k + static_cast<i64>(first_step) * BK;
    const float* next_b = b + static_cast<i64>(first_step) * BK * n + first_col;
    const bool aligned_a = kiln::rows_aligned<4>(a, k);
    const bool aligned_b = kiln::rows_aligned<4>(b, n);
    int left = steps > 0 ? kiln::min(k - first_step * BK, steps * BK) : 0;  // steps not copied yet
    kiln::AsyncCopies<STAGES*(Copier<PlacesA, 1>::kCopies + Copier<PlacesB, 1>::kCopies)> copies;
    const auto copy_stage = [&](int stage) {
        float* const to = tiles + stage * kStage;
        const bool whole = left >= BK;
        copy_tile<PlacesA>(copies, to, next_a, k, aligned_a, whole, rows, left, thread);
        copy_tile<PlacesB>(copies, to + kElementsA, next_b, n, aligned_b, whole, left, cols, thread);
        copies.commit();
        next_a += BK;
        next_b += static_cast<i64>(BK) * n;
        left = kiln::max(left - BK, 0);
    };

    const unsigned warp = threadIdx.x / 32;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int lane_y = lane / 2 % 8, lane_x = lane / 16 * 2 + lane % 2;
    const int y = static_cast<int>(warp / kAcross * (8 * TM)) + lane_y;
    const int x = static_cast<int>(warp % kAcross * (4 * TN)) + lane_x * 4;
    const int from_a = static_cast<int>(PlacesA::at(y, 0));
    const int from_b = kElementsA + x;

    Work work;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) work.sums[i][j] = 0.0f;
    }
#pragma unroll 1
    for (int stage = 0; stage < STAGES; ++stage) copy_stage(stage);
    copies.template wait<STAGES - 1>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TM; ++i) work.read_a(tiles, from_a, 0, i);
    work.read_b(tiles + from_b, 0);

    int stage = 0;
    int done = 0;  // steps of the tile
    int now_a = from_a, now_b = from_b;
#pragma unroll 1
    for (int part = 0; part < steps * (BK / kUnrolled); ++part) {
        int next_chunk = now_a;  // the chunks after the last one of A, and the row after the last one of B
        int next_row = now_b;
#pragma unroll
        for (int s = 0; s < kUnrolled; ++s) {
            if (s == kUnrolled - 1) {
                done += kUnrolled;
                if (done == BK) {
                    // All that is left of this tile is in registers. Behind the barrier this is so for all
                    // threads, and everyone's copies of the next tile have arrived.
                    copies.template wait<STAGES - 2>();
                    __syncthreads();
                    copy_stage(stage);
                    stage = stage + 1 == STAGES ? 0 : stage + 1;
                    done = 0;
                }
                next_chunk = stage * kStage + (from_a ^ done);
                next_row = stage * kStage + from_b + done * BN;
                work.read_b(tiles + next_row, 0);
            } else {
                work.read_b(tiles + now_b, s + 1);
            }
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                work.multiply(i, s);
                if (s == kUnrolled - 1)
                    work.read_a(tiles, next_chunk, 0, i);
                else if (s % kDepth == kDepth - 1)
                    work.read_a(tiles, now_a, (s + 1) / kDepth, i);
            }
        }
        now_a = next_chunk;
        now_b = next_row;
    }
    copies.template wait<0>();

    if (SPLIT_K > 1 && !join(work, partial, tickets, tile, split, thread)) return;
    // A warp's results leave by way of shared memory, in whole rows. Pairs of them are exchanged on the way, for
    // the sake of the main loop: ptxas keeps what is stored as a vector in registers next to each other, and a
    // multiply-add is held up by a result that lies in the same register bank as its operand from B, as it would
    // if both were vectors of the same columns.
    __syncthreads();  // nobody reads tiles any more, and no copy is under way
    float* const staging = tiles + warp * (32 * TN);
    const int warp_col = static_cast<int>(warp % kAcross) * (4 * TN);
    c += static_cast<i64>(first_row) * n + first_col;
    const bool aligned_c = kiln::rows_aligned<4>(c, n) && cols % 4 == 0;
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            kiln::store(staging + quad_in_staging(lane_y, lane_x + j) * 4, work.swapped(i, j));
        __syncwarp();
#pragma unroll
        for (int part = 0; part < TN / 4; ++part) {
            const int quad = part * 32 + lane;
            const auto pairs = kiln::load<4>(staging + quad_in_staging(quad / TN, quad % TN) * 4);
            const kiln::Vec<float, 4> values = {{pairs[1], pairs[0], pairs[3], pairs[2]}};
            const int row = static_cast<int>(warp / kAcross) * (8 * TM) + i * 8 + quad / TN;
            const int col = warp_col + quad % TN * 4;
            if (row >= rows) continue;
            float* const to = c + static_cast<i64>(row) * n + col;
            if (aligned_c) {
                if (col < cols) kiln::store(to, values);
            } else {
#pragma unroll
                for (int v = 0; v < 4; ++v)
                    if (col + v < cols) to[v] = values[v];
            }
        }
    }
}
