// attention_mma: fused softmax(Q K^T / sqrt(HEAD_DIM)) V on tensor cores (mma.sync, sm_80 and later)
//
// Layouts, causal alignment, grouped heads and lse: as in attention. Weights are rounded to T before they
// meet V.
//
// Each warp owns WM queries, whose fragments stay in registers, or where they have more than 128 elements in shared
// memory. Tiles of BN keys and values come by cp.async
// into two buffers each: the next keys while the scores of these are computed and weighted, the next values
// while these are multiplied. The accumulators of the scores are, rounded, the operands of the second
// product: no shuffle lies between. Only tiles that some query sees in part are masked. The order of a row's
// sum is fixed. Dao, FlashAttention-2, 2023.
//
// Few queries and many keys make too few blocks. With SPLIT_KEYS, each block takes a part of the tiles of keys, leaves what
// it has computed in global memory, and the last one to end joins the parts in their order. Without a causal mask all
// queries of a group of heads, which follow each other in q, then are rows of the same tiles: keys and values are read once
// for the group. Dao et al., Flash-Decoding, 2023.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_mma
//@ param   T         type in half, bfloat16 = half                    "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM  int in 64, 96, 128, 192, 256 = 64        "elements of a query or key"
//@ param   VALUE_DIM int in 64, 96, 128, 192, 256 = HEAD_DIM  "elements of a value"
//@ param   CAUSAL    bool = false                                     "queries see no keys behind them"
//@ param   BM        int in 64, 128 = 64                              "queries per block"
//@ param   BN        int in 32, 64 = 64                               "keys per tile"
//@ param   WM        int in 16, 32 = 16                               "queries per warp"
//@ param   SPLIT_KEYS int in 1, 2, 4, 8, 16, 32 = 1                   "blocks that share the keys of a tile of queries"
//@ let     THREADS = BM / WM * 32
//@ let     FOLDED = SPLIT_KEYS > 1 && !CAUSAL  "the queries of a group of heads are rows of one matrix"
//@ let     QUERIES_SHARED = HEAD_DIM > 128 ? BM : 0  "queries in shared memory, for which there are no registers"
//@ require VALUE_DIM == HEAD_DIM || (HEAD_DIM == 192 && VALUE_DIM == 128)  "values have as many elements as keys, or 128 where keys have 192; choose VALUE_DIM = HEAD_DIM"
//@ require HEAD_DIM == 64 || WM == 16                 "32 queries of 96 elements or more per warp do not fit the registers; choose WM = 16"
//@ size    batch    = 4    test 2    "sequences"
//@ size    kv_heads = 16   test 1    "heads of k and v"
//@ size    group    = 1    test 3    "heads of q per head of k and v"
//@ size    queries  = 2048 test 37   "queries per sequence and head"
//@ size    keys     = 2048 test 71   "keys per sequence and head"
//@ input   q [batch, kv_heads * group, queries, HEAD_DIM] align 16
//@ input   k [batch, kv_heads, keys, HEAD_DIM] align 16
//@ input   v [batch, kv_heads, keys, VALUE_DIM] align 16
//@ output  o [batch, kv_heads * group, queries, VALUE_DIM] align 2 * sizeof(T) by attention_mma_reference
//@ output  lse [batch, kv_heads * group, queries] by attention_lse_reference "ln of the sum of e^score"
//@ scratch partials [batch * kv_heads * (FOLDED ? ceil_div(group * queries, BM) : group * ceil_div(queries, BM)), SPLIT_KEYS, BM, VALUE_DIM] align 16 if SPLIT_KEYS > 1
//@ scratch partial_stats [batch * kv_heads * (FOLDED ? ceil_div(group * queries, BM) : group * ceil_div(queries, BM)), SPLIT_KEYS, BM, 2] align 8 if SPLIT_KEYS > 1
//@ scratch tickets [batch * kv_heads * (FOLDED ? ceil_div(group * queries, BM) : group * ceil_div(queries, BM))] = 0 if SPLIT_KEYS > 1
//@ flops   2 * batch * kv_heads * group * (HEAD_DIM + VALUE_DIM) * (CAUSAL ? min(queries, keys) * (min(queries, keys) + 1) / 2 + min(queries, keys) * (keys - min(queries, keys)) : queries * keys)
//@ naive   attention_naive
//@ backend cuda, host
//@ arch    sm_80+
//@ block   THREADS
//@ grid    batch * kv_heads * (FOLDED ? ceil_div(group * queries, BM) : group * ceil_div(queries, BM)) * SPLIT_KEYS
//@ shared  (2 * BN * (HEAD_DIM + VALUE_DIM) + QUERIES_SHARED * HEAD_DIM) * sizeof(T)
//@ model   engine mma
//@ model   edge BM of FOLDED ? group * queries : queries
//@ model   step BN of keys
//@ model   parts SPLIT_KEYS
//@ model   search [BM, BN], [BM, WM], [BM, SPLIT_KEYS]
#include "kiln/async_tile.h"
#include "kiln/joined_attention.h"
#include "kiln/last_block.h"
#include "kiln/mma.h"
#include "kiln/reduce.h"
#include "kiln/softmax.h"

using kiln::i64;

constexpr int kVec = 8;                 // elements per copy, and per row of an 8 x 8 matrix
constexpr int kTilesM = WM / 16;        // of 16 queries, per warp
constexpr int kStepsD = HEAD_DIM / 16;  // of a dot product
constexpr int kTilesD = VALUE_DIM / 8;  // of o's columns
constexpr int kTilesN = BN / 8;         // of scores
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

// ROWS rows of COLS elements. More than 128 columns lie in slices of 64, which share the swizzled part of their
// addresses: those of all columns would fill the registers. 8 chunks, a line of 128 bytes, change places with each
// other, or 4 where rows are 12 chunks long; then three of four threads copy, so that each stays in its column.
template <int ROWS, int COLS>
struct Tile {
    static constexpr int kSlice = COLS > 128 ? 64 : COLS;
    static constexpr int kOrders = kSlice % 64 == 0 ? 8 : 4;
    static constexpr int kThreads = kOrders == 8 ? THREADS : THREADS / 4 * 3;
    using Layout = kiln::TileLayout<kSlice, 0, kiln::Swizzle<kVec, 8 / kOrders, kOrders>>;
    using Slice = kiln::AsyncTile<T, ROWS, Layout, kVec, kThreads>;
    static constexpr int kElements = ROWS * COLS;

    // Where the chunk even + odd of row `row` lies, in elements from the tile's start. odd: 0 or 1.
    static __device__ __forceinline__ int at(int row, int even, int odd) {
        return even / Slice::kChunks * Slice::kElements + Slice::at(row, even % Slice::kChunks + odd);
    }

    // One thread's part in loading tiles of a matrix with rows of COLS, one after the other.
    class Loader {
      public:
        __device__ __forceinline__ Loader(const T* corner, int thread)
            : loader_(corner, COLS, thread), thread_(thread) {}

        // Begins to load; rows: how many there are, 0 or less for none.
        template <class Copies>
        __device__ __forceinline__ void load(Copies& copies, T* tile, int rows) {
            if (kThreads < THREADS && thread_ >= kThreads) return;
#pragma unroll
            for (int col = 0; col < COLS; col += kSlice) {
                if (col > 0) loader_.advance(kSlice);
                loader_.load(copies, tile + col * ROWS, rows, kSlice);
            }
        }
        // Goes on to the next tile.
        __device__ __forceinline__ void advance() {
            loader_.advance(static_cast<i64>(ROWS) * COLS - COLS + kSlice);
        }

      private:
        typename Slice::Loader loader_;
        int thread_;
    };
};
using TileQ = Tile<BM, HEAD_DIM>;
using TileK = Tile<BN, HEAD_DIM>;
using TileV = Tile<BN, VALUE_DIM>;
using Accumulator = kiln::MmaAccumulator;

// The two elements of a fragment's register; zeros for a row that is not there.
__device__ __forceinline__ unsigned load_pair(const T* row, int col, bool there) {
    return there ? *reinterpret_cast<const unsigned*>(row + col) : 0u;
}

// scores = Q K^T: K's rows are the columns of the second operand as they lie.
__device__ __forceinline__ void multiply_keys(Accumulator (&scores)[kTilesM][kTilesN],
                                              const unsigned (&q)[kStepsD][kTilesM][4], const T* tile_q,
                                              const T* tile, int lane) {
    const auto multiply = [&](int n, int step, const unsigned (&a)[kTilesM][4]) {
        unsigned b[4];
        const int key = n * 8 + lane / 16 * 8 + lane % 8;
        kiln::ldmatrix_x4(b, tile + TileK::at(key, step * 2, lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
            kiln::mma_m16n8k16<T>(scores[m][n].values, a[m], b[0], b[1]);
            kiln::mma_m16n8k16<T>(scores[m][n + 1].values, a[m], b[2], b[3]);
        }
    };
    if constexpr (QUERIES_SHARED > 0) {
        // Slice by slice, or fragments that are loaded too early would fill the registers.
        constexpr int kSteps = TileK::kSlice / 16;
#pragma unroll 1
        for (int slice = 0; slice < kStepsD / kSteps; ++slice) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                unsigned a[kTilesM][4];
#pragma unroll
                for (int m = 0; m < kTilesM; ++m) {
                    const int row = threadIdx.x / 32 * WM + m * 16 + lane % 16;
                    kiln::ldmatrix_x4(a[m], tile_q + TileQ::at(row, step * 2, lane / 16));
                }
#pragma unroll
                for (int n = 0; n < kTilesN; n += 2) multiply(n, step, a);
            }
            tile_q += TileQ::Slice::kElements;
            tile += TileK::Slice::kElements;
        }
    } else {
#pragma unroll
        for (int n = 0; n < kTilesN; n += 2) {
#pragma unroll
            for (int step = 0; step < kStepsD; ++step) multiply(n, step, q[step]);
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
            kiln::ldmatrix_x4_trans(b, tile + TileV::at(key, d, lane / 16));
#pragma unroll
            for (int m = 0; m < kTilesM; ++m) {
                kiln::mma_m16n8k16<T>(out[m][d].values, p[m], b[0], b[1]);
                kiln::mma_m16n8k16<T>(out[m][d + 1].values, p[m], b[2], b[3]);
            }
        }
    }
}

// What the blocks that share a tile of queries leave for each other.
class Parts {
  public:
    __device__ __forceinline__ Parts(float* partials, float* partial_stats, unsigned tile)
        : values_(partials + static_cast<i64>(tile) * (SPLIT_KEYS * BM * VALUE_DIM)),
          stats_(reinterpret_cast<kiln::MaxAndSum*>(partial_stats) + static_cast<i64>(tile) * (SPLIT_KEYS * BM)) {}

    __device__ __forceinline__ float* values_of(int part, int row) const {
        return values_ + (part * BM + row) * VALUE_DIM;
    }
    __device__ __forceinline__ kiln::MaxAndSum& stats_of(int part, int row) const {
        return stats_[part * BM + row];
    }
    // By all threads: o and lse of the first `rows` rows of the tile, or of all.
    __device__ __forceinline__ void join(int rows, T* __restrict__ o, float* __restrict__ lse, int thread) const {
        constexpr int kFours = VALUE_DIM / 4;
#pragma unroll 1
        for (int i = thread; i < BM * kFours && i / kFours < rows; i += THREADS) {
            const int row = i / kFours, col = i % kFours * 4;
            const kiln::JoinedAttention all = kiln::join_attention<(SPLIT_KEYS < 8 ? SPLIT_KEYS : 8)>(
                SPLIT_KEYS, [&](int part) { return stats_of(part, row); },
                [&](int part) { return kiln::load<4>(values_of(part, row) + col); });
            const float scale = all.sum > 0.0f ? 1.0f / all.sum : 0.0f;
            auto* const to = reinterpret_cast<unsigned*>(o + row * VALUE_DIM + col);
            to[0] = kiln::pack2<T>(all.values[0] * scale, all.values[1] * scale);
            to[1] = kiln::pack2<T>(all.values[2] * scale, all.values[3] * scale);
            if (col == 0) lse[row] = kiln::OnlineSoftmax{all.max, 0.0f}.log_sum_exp(all.sum);
        }
    }

  private:
    float* values_;
    kiln::MaxAndSum* stats_;
};

extern "C" __global__ __launch_bounds__(THREADS, 1) void attention_mma(
    int batch, int kv_heads, int group, int queries, int keys, const T* __restrict__ q,
    const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse,
    float* __restrict__ partials, float* __restrict__ partial_stats, unsigned* __restrict__ tickets) {
    T* const tiles_k = kiln::dynamic_shared<T>();
    T* const tiles_v = tiles_k + 2 * TileK::kElements;
    T* const tile_q = tiles_v + 2 * TileV::kElements;

    // Rows that see the same keys: a head's queries, or those of its group. The last ones see the most keys and go first.
    const int rows = FOLDED ? group * queries : queries;
    const unsigned tiles = (static_cast<unsigned>(rows) + BM - 1) / BM;
    const unsigned tile = blockIdx.x / SPLIT_KEYS;
    const i64 head = tile / tiles;
    const int first = static_cast<int>(tiles - 1 - tile % tiles) * BM;
    const int thread = threadIdx.x;
    const int lane = thread % 32;
    // This lane's rows are first_row + 16 m and 8 further; its columns come in pairs, from first_col on.
    const int first_row = first + thread / 32 * WM + lane / 4;
    const int first_col = lane % 4 * 2;
    const i64 kv_head = FOLDED ? head : head / group;
    k += kv_head * keys * HEAD_DIM;
    v += kv_head * keys * VALUE_DIM;

    // A query sees this many keys, the first ones.
    const auto visible = [=](int row) {
        if (!CAUSAL) return keys;
        const int count = row + 1 + (keys - rows);
        return count < 0 ? 0 : count < keys ? count : keys;
    };
    int first_key = 0, end = visible((rows - first < BM ? rows : first + BM) - 1);
    if constexpr (SPLIT_KEYS > 1) {
        const unsigned tiles_of_keys = kiln::ceil_div(end, BN), part = blockIdx.x % SPLIT_KEYS;
        first_key = static_cast<int>(tiles_of_keys * part / SPLIT_KEYS) * BN;
        if (part + 1 < SPLIT_KEYS) end = static_cast<int>(tiles_of_keys * (part + 1) / SPLIT_KEYS) * BN;
        k += static_cast<i64>(first_key) * HEAD_DIM;
        v += static_cast<i64>(first_key) * VALUE_DIM;
    }
    const int whole_end = visible(first + thread / 32 * WM);  // all of the warp's queries see the keys before

    kiln::AsyncCopies<> copies;
    TileK::Loader loader_k(k, thread);
    TileV::Loader loader_v(v, thread);
    if constexpr (QUERIES_SHARED > 0)
        TileQ::Loader(q + (head * rows + first) * HEAD_DIM, thread).load(copies, tile_q, rows - first);
    loader_k.load(copies, tiles_k, end - first_key);
    copies.commit();
    loader_v.load(copies, tiles_v, end - first_key);
    copies.commit();

    unsigned fragments_q[kStepsD][kTilesM][4];
#pragma unroll
    for (int m = 0; QUERIES_SHARED == 0 && m < kTilesM; ++m) {
        const int row = first_row + m * 16;
        const T* const from = q + (head * rows + row) * HEAD_DIM + first_col;
#pragma unroll
        for (int step = 0; step < kStepsD; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                fragments_q[step][m][i] =
                    load_pair(from + i % 2 * 8 * HEAD_DIM, step * 16 + i / 2 * 8, row + i % 2 * 8 < rows);
        }
    }

    Accumulator out[kTilesM][kTilesD] = {};
    float sums[kTilesM][2] = {};
    kiln::OnlineSoftmax softmax[kTilesM][2];
#pragma unroll
    for (int m = 0; m < kTilesM; ++m) softmax[m][0] = softmax[m][1] = kiln::OnlineSoftmax::none();

    int buffer = 0;
    for (int begin = first_key; begin < end; begin += BN, buffer ^= 1) {
        copies.template wait<1>();
        __syncthreads();  // these keys are there, and the other buffers have been read
        loader_k.advance();
        loader_k.load(copies, tiles_k + (buffer ^ 1) * TileK::kElements, end - begin - BN);
        copies.commit();

        Accumulator scores[kTilesM][kTilesN] = {};
        multiply_keys(scores, fragments_q, tile_q, tiles_k + buffer * TileK::kElements, lane);
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
        loader_v.advance();
        loader_v.load(copies, tiles_v + (buffer ^ 1) * TileV::kElements, end - begin - BN);
        copies.commit();
        multiply_values(out, scores, tiles_v + buffer * TileV::kElements, lane);
    }
    copies.template wait<0>();

    if constexpr (SPLIT_KEYS > 1) {
        const Parts parts(partials, partial_stats, tile);
        const auto part = static_cast<int>(blockIdx.x % SPLIT_KEYS);
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                const int row = first_row - first + m * 16 + side * 8;
                const float sum = kiln::warp_reduce<4>(sums[m][side], kiln::Sum{});
                if (first + row >= rows) continue;
                if (first_col == 0) parts.stats_of(part, row) = {softmax[m][side].max, sum};
#pragma unroll
                for (int d = 0; d < kTilesD; ++d)
                    kiln::store(parts.values_of(part, row) + first_col + d * 8,
                                kiln::Vec<float, 2>{out[m][d](side, 0), out[m][d](side, 1)});
            }
        }
        if (!kiln::is_last_block(tickets + tile, SPLIT_KEYS)) return;
        const i64 first_of_all = head * rows + first;
        parts.join(rows - first, o + first_of_all * VALUE_DIM, lse + first_of_all, thread);
    } else {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                const int row = first_row + m * 16 + side * 8;
                const float sum = kiln::warp_reduce<4>(sums[m][side], kiln::Sum{});
                if (row >= rows) continue;
                const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
                T* const to = o + (head * rows + row) * VALUE_DIM + first_col;
                if (first_col == 0) lse[head * rows + row] = softmax[m][side].log_sum_exp(sum);
#pragma unroll
                for (int d = 0; d < kTilesD; ++d)
                    *reinterpret_cast<unsigned*>(to + d * 8) =
                        kiln::pack2<T>(out[m][d](side, 0) * scale, out[m][d](side, 1) * scale);
            }
        }
    }
}
