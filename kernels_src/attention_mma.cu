// attention_mma: fused softmax(Q K^T / sqrt(HEAD_DIM)) V on the matrix cores of sm_80 and later
//
// Layouts, causal alignment, grouped heads and lse: as in attention. Weights are rounded to T before they
// meet V.
//
// Each warp owns WM queries, whose fragments stay in registers. Tiles of BN keys and values come by cp.async
// into two buffers each: the next keys while the scores of these are computed and weighted, the next values
// while these are multiplied. The accumulators of the scores are, rounded, the operands of the second
// product: no shuffle lies between. Only tiles that some query sees in part are masked. The order of a row's
// sum is fixed. Dao, FlashAttention-2, 2023.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_mma
//@ param   T        type in half, bfloat16 = half  "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM int in 64, 128 = 64            "elements of a query, key or value"
//@ param   CAUSAL   bool = false                   "queries see no keys behind them"
//@ param   BM       int in 64, 128 = 64            "queries per block"
//@ param   BN       int in 32, 64 = 64             "keys per tile"
//@ param   WM       int in 16, 32 = 16             "queries per warp"
//@ let     THREADS = BM / WM * 32
//@ require HEAD_DIM == 64 || WM == 16                 "32 queries of 128 elements per warp do not fit the registers; choose WM = 16"
//@ size    batch    = 4    test 2    "sequences"
//@ size    kv_heads = 16   test 1    "heads of k and v"
//@ size    group    = 1    test 3    "heads of q per head of k and v"
//@ size    queries  = 2048 test 37   "queries per sequence and head"
//@ size    keys     = 2048 test 71   "keys per sequence and head"
//@ input   q [batch, kv_heads * group, queries, HEAD_DIM] align 16
//@ input   k [batch, kv_heads, keys, HEAD_DIM] align 16
//@ input   v [batch, kv_heads, keys, HEAD_DIM] align 16
//@ output  o [batch, kv_heads * group, queries, HEAD_DIM] align 2 * sizeof(T) by attention_mma_reference
//@ output  lse [batch, kv_heads * group, queries] by attention_lse_reference "ln of the sum of e^score"
//@ flops   4 * batch * kv_heads * group * HEAD_DIM * (CAUSAL ? min(queries, keys) * (min(queries, keys) + 1) / 2 + min(queries, keys) * (keys - min(queries, keys)) : queries * keys)
//@ naive   attention_naive
//@ backend cuda, host
//@ arch    sm_80+
//@ block   THREADS
//@ grid    batch * kv_heads * group * ceil_div(queries, BM)
//@ shared  4 * BN * HEAD_DIM * sizeof(T)
//@ model   engine mma
//@ model   search [BM, BN], [BM, WM]
#include "kiln/async_tile.h"
#include "kiln/mma.h"
#include "kiln/reduce.h"
#include "kiln/softmax.h"

using kiln::i64;

constexpr int kVec = 8;                 // elements per copy, and per row of an 8 x 8 matrix
constexpr int kTilesM = WM / 16;        // of 16 queries, per warp
constexpr int kStepsD = HEAD_DIM / 16;  // of a dot product
constexpr int kTilesD = HEAD_DIM / 8;   // of o's columns
constexpr int kTilesN = BN / 8;         // of scores
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

using Tile = kiln::AsyncTile<T, BN, kiln::TileLayout<HEAD_DIM, 0, kiln::LineSwizzle<T, HEAD_DIM, kVec>>, kVec, THREADS>;
using Accumulator = kiln::MmaAccumulator;

// The two elements of a fragment's register; zeros for a row that is not there.
__device__ __forceinline__ unsigned load_pair(const T* row, int col, bool there) {
    return there ? *reinterpret_cast<const unsigned*>(row + col) : 0u;
}

// scores = Q K^T: K's rows are the columns of the second operand as they lie.
__device__ __forceinline__ void multiply_keys(Accumulator (&scores)[kTilesM][kTilesN],
                                              const unsigned (&q)[kTilesM][kStepsD][4], const T* tile,
                                              int lane) {
#pragma unroll
    for (int n = 0; n < kTilesN; n += 2) {
#pragma unroll
        for (int step = 0; step < kStepsD; ++step) {
            unsigned b[4];
            const int key = n * 8 + lane / 16 * 8 + lane % 8;
            kiln::ldmatrix_x4(b, tile + Tile::at(key, step * 2 + lane / 8 % 2));
#pragma unroll
            for (int m = 0; m < kTilesM; ++m) {
                kiln::mma_m16n8k16<T>(scores[m][n].values, q[m][step], b[0], b[1]);
                kiln::mma_m16n8k16<T>(scores[m][n + 1].values, q[m][step], b[2], b[3]);
            }
        }
    }
}

// out += P V: the scores' accumulators hold P as the first operand wants it; V is transposed on its way.
__device__ __forceinline__ void multiply_values(Accumulator (&out)[kTilesM][kTilesD],
                                                const Accumulator (&weights)[kTilesM][kTilesN], const T* tile,
                                                int lane) {
#pragma unroll
    for (int step = 0; step < kTilesN / 2; ++step) {
        unsigned p[kTilesM][4];
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const Accumulator& w = weights[m][step * 2 + i / 2];
                p[m][i] = kiln::pack2<T>(w(i % 2, 0), w(i % 2, 1));
            }
        }
#pragma unroll
        for (int d = 0; d < kTilesD; d += 2) {
            unsigned b[4];
            const int key = step * 16 + lane / 8 % 2 * 8 + lane % 8;
            kiln::ldmatrix_x4_trans(b, tile + Tile::at(key, d + lane / 16));
#pragma unroll
            for (int m = 0; m < kTilesM; ++m) {
                kiln::mma_m16n8k16<T>(out[m][d].values, p[m], b[0], b[1]);
                kiln::mma_m16n8k16<T>(out[m][d + 1].values, p[m], b[2], b[3]);
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void attention_mma(
    int batch, int kv_heads, int group, int queries, int keys, const T* __restrict__ q,
    const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse) {
    T* const tiles_k = kiln::dynamic_shared<T>();
    T* const tiles_v = tiles_k + 2 * Tile::kElements;

    // The last queries of a head see the most keys and go first.
    const unsigned tiles = (static_cast<unsigned>(queries) + BM - 1) / BM;
    const i64 head = blockIdx.x / tiles;
    const int first = static_cast<int>(tiles - 1 - blockIdx.x % tiles) * BM;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // This lane's rows are first_row + 16 m and 8 further; its columns come in pairs, from first_col on.
    const int first_row = first + thread / 32 * WM + lane / 4;
    const int first_col = lane % 4 * 2;
    k += head / group * keys * HEAD_DIM;
    v += head / group * keys * HEAD_DIM;

    // A query sees this many keys, the first ones.
    const auto visible = [=](int row) {
        if (!CAUSAL) return keys;
        const int count = row + 1 + (keys - queries);
        return count < 0 ? 0 : count < keys ? count : keys;
    };
    const int end = visible((queries - first < BM ? queries : first + BM) - 1);
    const int whole_end = visible(first + thread / 32 * WM);  // all of the warp's queries see the keys before

    kiln::AsyncCopies<> copies;
    typename Tile::Loader loader_k(k, HEAD_DIM, thread);
    typename Tile::Loader loader_v(v, HEAD_DIM, thread);
    loader_k.load(copies, tiles_k, end, HEAD_DIM);
    copies.commit();
    loader_v.load(copies, tiles_v, end, HEAD_DIM);
    copies.commit();

    unsigned fragments_q[kTilesM][kStepsD][4];
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) {
        const int row = first_row + m * 16;
        const T* const from = q + (head * queries + row) * HEAD_DIM + first_col;
#pragma unroll
        for (int step = 0; step < kStepsD; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                fragments_q[m][step][i] =
                    load_pair(from + i % 2 * 8 * HEAD_DIM, step * 16 + i / 2 * 8, row + i % 2 * 8 < queries);
        }
    }

    Accumulator out[kTilesM][kTilesD] = {};
    float sums[kTilesM][2] = {};
    kiln::OnlineSoftmax softmax[kTilesM][2];
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) softmax[m][0] = softmax[m][1] = kiln::OnlineSoftmax::none();

    int buffer = 0;
    for (int begin = 0; begin < end; begin += BN, buffer ^= 1) {
        copies.template wait<1>();
        __syncthreads();  // these keys are there, and the other buffers have been read
        loader_k.advance(static_cast<i64>(BN) * HEAD_DIM);
        loader_k.load(copies, tiles_k + (buffer ^ 1) * Tile::kElements, end - begin - BN, HEAD_DIM);
        copies.commit();

        Accumulator scores[kTilesM][kTilesN] = {};
        multiply_keys(scores, fragments_q, tiles_k + buffer * Tile::kElements, lane);
        if (begin + BN > whole_end) {
#pragma unroll
            for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
                for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int key = begin + n * 8 + first_col + i % 2;
                        if (key >= visible(first_row + m * 16 + i / 2 * 8))
                            scores[m][n](i / 2, i % 2) = kiln::kMinusInfinity;
                    }
                }
            }
        }

#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                float largest = kiln::kMinusInfinity;
#pragma unroll
                for (int n = 0; n < kTilesN; ++n)
                    largest = fmaxf(largest, fmaxf(scores[m][n](side, 0), scores[m][n](side, 1)));
                kiln::OnlineSoftmax& row = softmax[m][side];
                const float rescale = row.raise(kiln::warp_reduce<4>(largest, kiln::Max{}) * kScale);
                float& sum = sums[m][side];
                sum *= rescale;
#pragma unroll
                for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
                    for (int col = 0; col < 2; ++col) {
                        float& score = scores[m][n](side, col);
                        score = kiln::fast_exp2(fmaf(score, kScale, -row.base));
                        sum += score;
                    }
                }
#pragma unroll
                for (int d = 0; d < kTilesD; ++d) {
                    out[m][d](side, 0) *= rescale;
                    out[m][d](side, 1) *= rescale;
                }
            }
        }

        copies.template wait<1>();
        __syncthreads();  // these values are there
        loader_v.advance(static_cast<i64>(BN) * HEAD_DIM);
        loader_v.load(copies, tiles_v + (buffer ^ 1) * Tile::kElements, end - begin - BN, HEAD_DIM);
        copies.commit();
        multiply_values(out, scores, tiles_v + buffer * Tile::kElements, lane);
    }
    copies.template wait<0>();

#pragma unroll
    for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            const int row = first_row + m * 16 + side * 8;
            const float sum = kiln::warp_reduce<4>(sums[m][side], kiln::Sum{});
            if (row >= queries) continue;
            const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
            T* const to = o + (head * queries + row) * HEAD_DIM + first_col;
            if (first_col == 0) lse[head * queries + row] = softmax[m][side].log_sum_exp(sum);
#pragma unroll
            for (int d = 0; d < kTilesD; ++d)
                *reinterpret_cast<unsigned*>(to + d * 8) =
                    kiln::pack2<T>(out[m][d](side, 0) * scale, out[m][d](side, 1) * scale);
        }
    }
}
