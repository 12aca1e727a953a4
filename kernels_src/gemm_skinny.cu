// gemm_skinny: C = ACTIVATION(ALPHA * A * B + BETA * residual + bias) for few rows of A, on tensor cores; B, the weights, is read once and straight into registers
//
// A is m x k; B is n x k with TRANS_B, else k x n; C is m x n, all row-major. Reading B is what takes time, so
// none of it takes a detour: in mma.m16n8k16 its columns take the place of the 16 rows, and rows of A that of the
// 8 columns. A sum over k may be taken in any order, so a lane's 8 consecutive elements serve as its parts of two
// such fragments. Steps of 32 along k are distributed, in runs of UNROLL, over WARPS_K warps and with SPLIT_K > 1 over as
// many blocks, so that small matrices fill the device too; a warp has two runs under way. Sums are joined in the
// order of the warps and of the blocks, by the last block to end. With PDL the first weights are under way
// before the kernel before this one has ended, but not with ANY.
// Rows of A or B that do not start at multiples of 16 bytes are read element by element, and neither then has two
// runs under way. With ANY all rows are read by aligned loads that are shifted into place (kiln/any_piece.h), UNROLL steps
// of them under way. More rows of A than BM take further blocks, which find B in the L2 cache at best.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_skinny
//@ param   T       type in half, bfloat16 = half   "element type of A and B"
//@ param   BM      int in 8, 16 = 16               "rows of A per block"
//@ param   WN      int in 16, 32, 64 = TRANS_B ? 16 : 64  "columns of C per warp"
//@ param   WARPS_N int in 1, 2, 4, 8 = 1           "warps side by side"
//@ param   WARPS_K int in 1, 2, 4, 8, 16 = 8       "warps that k is distributed over"
//@ param   UNROLL  int in 1, 2, 4, 8 = ANY && !TRANS_B ? 1 : 2           "steps of k that a warp loads at once"
//@ param   SPLIT_K int in 1..16 = 1                "blocks that k is distributed over"
//@ param   ANY     bool = false                "for rows of A and B that do not start at multiples of 16 bytes"
//@ param   TRANS_B bool = true                     "B is stored n x k"
//@ param   PDL     bool = false                "may begin while the kernel before it still runs, which must not write B"
//@ param   OUT     type in float, half, bfloat16 = float "element type of C, bias and residual"
//@ param   ALPHA   float = 1                          "factor of the product"
//@ param   BIAS    int in 0, 1, 2 = 0                 "0 none, 1: bias[j] is added to column j, 2: bias[i] to row i"
//@ param   RESIDUAL bool = false                       "BETA * residual is added"
//@ param   BETA    float = 1                          "factor of residual"
//@ param   ACTIVATION int in 0, 1, 2, 3 = 0              "0 none, 1 relu, 2 gelu, 3 silu"
//@ let     BN      = WN * WARPS_N                "of C per block"
//@ let     THREADS = WARPS_N * WARPS_K * 32
//@ let     PITCH   = BN + 4                 "of a warp's accumulators in shared memory: 4 lanes write 2 rows apart"
//@ require TRANS_B || WN == 64  "a warp takes 64 columns of a B that is stored k x n, or its rows of C would not be whole pieces of 128 bytes"
//@ require UNROLL * (WN + BM) + WN * BM / 32 + 48 <= min(255, device.registers_per_block / threads)  "two runs of B and A and the sums of a thread must fit its registers; choose a smaller UNROLL or WN"
//@ require !ANY || UNROLL * 9 * (WN / 8 + BM / 8) + WN * BM / 32 + 72 <= min(255, device.registers_per_block / threads)  "UNROLL steps of B and A that are shifted into place and the sums of a thread must fit its registers; choose a smaller UNROLL or WN"
//@ dependent PDL
//@ block   THREADS
//@ grid    ceil_div(n, BN) * ceil_div(m, BM) * SPLIT_K
//@ shared  WARPS_K * BM * PITCH * sizeof(float)
//@ size    m = 4 test BM + 3               "rows of A and C"
//@ size    n = 4096 test WN * WARPS_N + 8    "columns of C"
//@ size    k = 4096 test 64 * WARPS_K * UNROLL + 40 at_most 2147418112  "columns of A"
//@ input   a [m, k]
//@ input   b [TRANS_B ? n : k, TRANS_B ? k : n]
//@ output  c [m, n] by gemm_mma_reference
//@ scratch partial [SPLIT_K > 1 ? ceil_div(n, WN * WARPS_N) * ceil_div(m, BM) : 1, SPLIT_K > 1 ? SPLIT_K * BM * WN * WARPS_N : 1]
//@ scratch tickets [SPLIT_K > 1 ? ceil_div(n, WN * WARPS_N) * ceil_div(m, BM) : 1] = 0
//@ input   bias [BIAS == 2 ? m : n] if BIAS != 0
//@ input   residual [m, n] if RESIDUAL
//@ flops   2 * m * n * k
//@ naive   gemm_naive
//@ backend cuda, host
//@ arch    sm_80+
//@ model   engine mma
//@ model   tile BM, BN of m, n, k
//@ model   warp BM, WN
//@ model   any_rows ANY
//@ model   search [BM, WARPS_K, UNROLL], [WN, WARPS_N], [SPLIT_K, WARPS_K], [ANY, UNROLL]
#include "kiln/alignment.h"
#include "kiln/any_piece.h"
#include "kiln/gemm_epilogue.h"
#include "kiln/last_block.h"
#include "kiln/launch.h"
#include "kiln/mma.h"
#include "kiln/stream.h"

using kiln::i64;

constexpr int kStep = 32;  // of k: four lanes with 8 elements each
constexpr int kPiece = 8;  // elements of 16 bytes
constexpr int kRun = UNROLL * kStep;
constexpr int kPieces = TRANS_B ? WN / 8 : 8;  // of B per step and lane: columns, or steps of k
constexpr int kTiles = WN / 16;                // of an mma, by BM / 8

using Piece = kiln::Vec<unsigned, 4>;

// A piece of which only the first `count` elements are there, with zeros for the others.
template <class From>
__device__ __forceinline__ Piece read_piece(const T* from, int count, bool aligned, From whole) {
    if (aligned && count >= kPiece) return whole(from);
    Piece piece = {};
#pragma unroll
    for (int i = 0; i < kPiece; ++i)
        if (i < count) piece[i / 2] |= static_cast<unsigned>(from[i].bits) << i % 2 * 16;
    return piece;
}

// What a lane reads: 8 elements at steps 8 (lane % 4) of k from rows lane / 4 + 8 i of A, and of columns
// lane / 4 + 8 i of a transposed B; else, of 8 steps of k, its columns 8 (lane / 4).
class Source {
  public:
    // row, column: the block's first of C and the warp's. Lanes behind the last one read the last once more.
    __device__ __forceinline__ Source(const T* a, const T* b, int m, int n, int k, int row, int column,
                                      int lane)
        : n_(n),
          q_(lane % 4 * kPiece),
          aligned_a_(kiln::rows_aligned<kPiece>(a, k)),
          aligned_b_(kiln::rows_aligned<kPiece>(b, TRANS_B ? k : n)) {
        if constexpr (ANY) {
            bounds_a_ = bounds(a, static_cast<i64>(m) * k);
            bounds_b_ = bounds(b, static_cast<i64>(n) * k);
        }
#pragma unroll
        for (int i = 0; i < BM / 8; ++i) {
            has_row_[i] = row + lane / 4 + i * 8 < m;
            a_[i] = a + static_cast<i64>(has_row_[i] ? row + lane / 4 + i * 8 : 0) * k + q_;
        }
        if constexpr (TRANS_B) {
#pragma unroll
            for (int i = 0; i < kPieces; ++i)
                b_[i] = b + static_cast<i64>(kiln::min(column + lane / 4 + i * 8, n - 1)) * k + q_;
        } else {
            const int first = column + lane / 4 * kPiece;
            columns_ = n - first;
            b_[0] = b + (columns_ > 0 ? first : kiln::max(n - kPiece, 0)) + static_cast<i64>(q_) * n;
        }
    }

    __device__ __forceinline__ bool aligned() const { return aligned_a_ && aligned_b_; }

    // What the kernel before this one writes is read from here on: A, but not the weights.
    __device__ __forceinline__ void wait_for_a() {
        kiln::wait_for_previous_grid();
        kiln::let_next_grid_start();
#pragma unroll
        for (int i = 0; i < BM / 8; ++i) a_[i] = kiln::after_previous_grid(a_[i]);
    }

    // Steps at, at + 32, ... of k, all of them there and aligned: a lane has all of its columns of B, or none.
    __device__ __forceinline__ void read_run_b(int at, Piece (&b)[UNROLL][kPieces]) const {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int i = 0; i < kPieces; ++i) b[u][i] = stream(place_b(at + u * kStep, i));
        }
    }
    __device__ __forceinline__ void read_run_a(int at, Piece (&a)[UNROLL][BM / 8]) const {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int i = 0; i < BM / 8; ++i)
                if (has_row_[i]) a[u][i] = plain(a_[i] + at + u * kStep);
        }
    }
    // A single step, as far as it is there: up to `end`.
    __device__ __forceinline__ void read_step(int at, int end, Piece (&a)[BM / 8],
                                              Piece (&b)[kPieces]) const {
        const int left = end - at - q_;
#pragma unroll
        for (int i = 0; i < BM / 8; ++i)
            a[i] = read_piece(a_[i] + at, has_row_[i] ? left : 0, aligned_a_, plain);
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
            b[i] = read_piece(place_b(at, i), TRANS_B ? left : i < left ? columns_ : 0, aligned_b_, stream);
    }

    // The same at any alignment, in two parts: between them others may be fetched.
    struct AnyStep {
        kiln::AnyPiece<T> a[BM / 8], b[kPieces];
    };
    __device__ __forceinline__ void fetch_step(int at, int end, AnyStep& step) const {
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
            step.b[i].fetch(place_b(at, i), count_b(at, end, i), bounds_b_.begin, bounds_b_.end);
#pragma unroll
        for (int i = 0; i < BM / 8; ++i)
            step.a[i].fetch(a_[i] + at, count_a(at, end, i), bounds_a_.begin, bounds_a_.end);
    }
    __device__ __forceinline__ void cut_step(int at, int end, const AnyStep& step, Piece (&a)[BM / 8],
                                             Piece (&b)[kPieces]) const {
#pragma unroll
        for (int i = 0; i < kPieces; ++i) b[i] = step.b[i].cut(place_b(at, i), count_b(at, end, i));
#pragma unroll
        for (int i = 0; i < BM / 8; ++i) a[i] = step.a[i].cut(a_[i] + at, count_a(at, end, i));
    }

  private:
    // Addresses of a matrix, outside of which nothing is read.
    struct Bounds {
        kiln::u64 begin, end;
    };
    static __device__ __forceinline__ Bounds bounds(const T* first, i64 count) {
        const auto begin = reinterpret_cast<kiln::u64>(first);
        return {begin, begin + static_cast<kiln::u64>(count) * sizeof(T)};
    }
    __device__ __forceinline__ int count_a(int at, int end, int i) const {
        return has_row_[i] ? kiln::max(kiln::min(end - at - q_, kPiece), 0) : 0;
    }
    __device__ __forceinline__ int count_b(int at, int end, int i) const {
        const int left = end - at - q_;
        return kiln::max(kiln::min(TRANS_B ? left : i < left ? columns_ : 0, kPiece), 0);
    }
    static __device__ __forceinline__ Piece stream(const T* from) {
        return kiln::stream_load<4, true>(reinterpret_cast<const unsigned*>(from));
    }
    static __device__ __forceinline__ Piece plain(const T* from) {
        return kiln::load<4>(reinterpret_cast<const unsigned*>(from));
    }
    __device__ __forceinline__ const T* place_b(int at, int i) const {
        return TRANS_B ? b_[i] + at : b_[0] + static_cast<i64>(at + i) * n_;
    }

    int n_, q_;
    bool aligned_a_, aligned_b_;
    bool has_row_[BM / 8];
    Bounds bounds_a_ = {}, bounds_b_ = {};  // with ANY
    int columns_ = 0;
    const T* a_[BM / 8];
    const T* b_[TRANS_B ? kPieces : 1];
};

using Sums = float[kTiles][BM / 8][4];

// Elements of two steps of k that were read for the same columns, side by side: `odd` says which column of a pair.
__device__ __forceinline__ unsigned pair(unsigned low, unsigned high, bool odd) {
    return __byte_perm(low, high, odd ? 0x7632 : 0x5410);
}

// Adds the products of one step of k.
__device__ __forceinline__ void multiply(const Piece (&a)[BM / 8], const Piece (&b)[kPieces], Sums& sums) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
            unsigned weights[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int word = 2 * half + i / 2;  // which pair of steps of k
                if constexpr (TRANS_B)
                    weights[i] = b[2 * t + i % 2][word];
                else
                    weights[i] = pair(b[2 * word][t], b[2 * word + 1][t], i % 2 != 0);
            }
#pragma unroll
            for (int r = 0; r < BM / 8; ++r)
                kiln::mma_m16n8k16<T>(sums[t][r], weights, a[r][2 * half], a[r][2 * half + 1]);
        }
    }
}

// The column of the warp's part of C that sum i of tile t belongs to, and its row.
__device__ __forceinline__ int column_of(int lane, int t, int i) {
    return TRANS_B ? t * 16 + lane / 4 + i / 2 * 8 : lane / 4 * 8 + t * 2 + i / 2;
}
__device__ __forceinline__ int row_of(int lane, int r, int i) { return r * 8 + lane % 4 * 2 + i % 2; }

extern "C" __global__ __launch_bounds__(THREADS) void gemm_skinny(
    int m, int n, int k, const T* __restrict__ a, const T* __restrict__ b, OUT* __restrict__ c,
    float* partial, unsigned* tickets, const OUT* bias, const OUT* residual) {
    float* const shared = kiln::dynamic_shared<float>();

    // The grid is a line, since its y and z extents could not hold every m.
    const unsigned across = (static_cast<unsigned>(n) + BN - 1) / BN;
    const unsigned tiles = across * ((static_cast<unsigned>(m) + BM - 1) / BM);
    const unsigned tile = blockIdx.x % tiles;
    const int split = static_cast<int>(blockIdx.x / tiles);
    const int first_row = static_cast<int>(tile / across) * BM;
    const int first_column = static_cast<int>(tile % across) * BN;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp_n = static_cast<int>(threadIdx.x) / 32 % WARPS_N;
    const int warp_k = static_cast<int>(threadIdx.x) / 32 / WARPS_N;

    // This block's part of k, in whole runs; the last blocks may have none. The limit of k leaves room for ends of parts and
    // for steps behind it that are asked for ahead.
    const int part = ((k - 1) / kRun / SPLIT_K + 1) * kRun;
    const int begin = static_cast<int>(kiln::min(static_cast<i64>(split) * part, static_cast<i64>(k)));
    const int end = k - begin < part ? k : begin + part;
    Source source(a, b, m, n, k, first_row, first_column + warp_n * WN, lane);
    const int runs = source.aligned() ? (end - begin) / kRun : 0;

    Sums sums = {};
    if constexpr (ANY) {
        // UNROLL steps are under way.
        if constexpr (PDL) source.wait_for_a();
        const int first = begin + warp_k * kStep;
        Source::AnyStep steps[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) source.fetch_step(first + i * WARPS_K * kStep, end, steps[i]);
#pragma unroll 1
        for (int next = first; next < end; next += UNROLL * WARPS_K * kStep) {
#pragma unroll
            for (int i = 0; i < UNROLL; ++i) {
                const int at = next + i * WARPS_K * kStep;
                if (at >= end) break;
                Piece step_a[BM / 8];
                Piece step_b[kPieces];
                source.cut_step(at, end, steps[i], step_a, step_b);
                source.fetch_step(at + UNROLL * WARPS_K * kStep, end, steps[i]);
                multiply(step_a, step_b, sums);
            }
        }
    } else {
        // Two runs are under way; the place of one is filled again as soon as it is multiplied.
        Piece run_a[2][UNROLL][BM / 8] = {};  // zero in lanes whose row of A does not exist
        Piece run_b[2][UNROLL][kPieces];
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (warp_k + i * WARPS_K < runs)
                source.read_run_b(begin + (warp_k + i * WARPS_K) * kRun, run_b[i]);
        if constexpr (PDL) source.wait_for_a();
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (warp_k + i * WARPS_K < runs)
                source.read_run_a(begin + (warp_k + i * WARPS_K) * kRun, run_a[i]);
#pragma unroll 1
        for (int run = warp_k; run < runs; run += 2 * WARPS_K) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (run + i * WARPS_K >= runs) break;
#pragma unroll
                for (int u = 0; u < UNROLL; ++u) multiply(run_a[i][u], run_b[i][u], sums);
                const int later = run + (i + 2) * WARPS_K;
                if (later < runs) {
                    source.read_run_b(begin + later * kRun, run_b[i]);
                    source.read_run_a(begin + later * kRun, run_a[i]);
                }
            }
        }
#pragma unroll 1
        for (int at = begin + runs * kRun + warp_k * kStep; at < end; at += WARPS_K * kStep) {
            Piece step_a[BM / 8];
            Piece step_b[kPieces];
            source.read_step(at, end, step_a, step_b);
            multiply(step_a, step_b, sums);
        }
    }

#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int r = 0; r < BM / 8; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                shared[(warp_k * BM + row_of(lane, r, i)) * PITCH + warp_n * WN + column_of(lane, t, i)] =
                    sums[t][r][i];
        }
    }
    __syncthreads();
    const kiln::GemmEpilogue<OUT, ALPHA != 1.0f, BIAS, RESIDUAL, ACTIVATION> epilogue = {ALPHA, BETA, bias,
                                                                                         residual, n};
    float* const mine =
        SPLIT_K > 1 ? partial + (static_cast<i64>(tile) * SPLIT_K + split) * (BM * BN) : nullptr;
    for (int i = static_cast<int>(threadIdx.x); i < BM * BN; i += THREADS) {
        const int row = i / BN, column = i % BN;
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS_K; ++w) sum += shared[(w * BM + row) * PITCH + column];
        if constexpr (SPLIT_K > 1)
            mine[i] = sum;
        else if (first_row + row < m && first_column + column < n)
            c[static_cast<i64>(first_row + row) * n + first_column + column] =
                OUT(epilogue(sum, first_row + row, first_column + column));
    }
    if constexpr (SPLIT_K > 1) {
        if (!kiln::is_last_block(tickets + tile, SPLIT_K)) return;
        const float* const all = partial + static_cast<i64>(tile) * SPLIT_K * (BM * BN);
        for (int i = static_cast<int>(threadIdx.x); i < BM * BN; i += THREADS) {
            const int row = i / BN, column = i % BN;
            if (first_row + row >= m || first_column + column >= n) continue;
            float sum = 0.0f;
#pragma unroll
            for (int s = 0; s < SPLIT_K; ++s) sum += all[s * (BM * BN) + i];
            c[static_cast<i64>(first_row + row) * n + first_column + column] =
                OUT(epilogue(sum, first_row + row, first_column + column));
        }
    }
}
