// decode_mma: attention of one new token per sequence against a paged cache, on the matrix cores of sm_80 and
// later
//
// The cache, its pages and the results are those of decode_paged; weights are rounded to T before they meet V.
//
// All tokens of all sequences and heads make up one line of tiles of 16, and each block of a fixed grid takes
// an equal part of it, whatever the lengths (kiln/decode_line.h). Warps work for themselves: each copies its own
// tiles of keys and values into a ring in shared memory, STAGES - 1 of them ahead and across the ends of
// sequences, and keeps a running softmax, which the block joins with the others' at the end of a head. The GQA_GROUP
// query heads of a head of the cache are rows of the matrix instruction, so that keys and values are read once
// and multiplying costs next to nothing. Where a head is spread over several blocks, the last to end merges them
// in the order of the tokens.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  decode_mma
//@ param   T             type in half, bfloat16 = half      "element type of q, the cache and o; sums are float"
//@ param   HEAD_DIM      int in 64, 128 = 128               "elements of a query, key or value"
//@ param   GQA_GROUP     int in 1, 2, 4, 8 = 4              "query heads per head of the cache"
//@ param   PAGE_SIZE     int in 16, 32, 64 = 16             "tokens per page"
//@ param   WARPS         int in 2, 4, 8 = 4                 "warps per block"
//@ param   STAGES        int in 2..4 = 2                    "tiles of a warp under way, and the one in use"
//@ param   BLOCKS_PER_SM int in 1..4 = 2                    "blocks per multiprocessor"
//@ let     THREADS = WARPS * 32
//@ let     PITCH   = HEAD_DIM + 4                       "of a warp's results, so that 4 rows at once lie in different banks"
//@ require WARPS * BLOCKS_PER_SM <= 8                   "a thread takes over 200 registers, so 8 warps are what a multiprocessor holds; choose fewer warps or blocks"
//@ size    batch      = 32   test 3    "sequences"
//@ size    kv_heads   = 8    test 2    "heads of the cache"
//@ size    max_length = 4096 test 1201 "the most tokens of a sequence"
//@ input   q [batch, kv_heads * GQA_GROUP, HEAD_DIM] align 16
//@ input   k_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's keys"
//@ input   v_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's values"
//@ input   page_table [batch, ceil_div(max_length, PAGE_SIZE)] permutation "which page of the pool holds a sequence's page"
//@ input   lengths [batch] in 1..max_length "tokens of each sequence"
//@ output  o [batch, kv_heads * GQA_GROUP, HEAD_DIM] by decode_mma_reference
//@ scratch partials [2 * BLOCKS_PER_SM * max(device.multiprocessors, 1), GQA_GROUP, HEAD_DIM]
//@ scratch partial_stats [2 * BLOCKS_PER_SM * max(device.multiprocessors, 1), GQA_GROUP, 2]
//@ scratch tickets [batch * kv_heads] = 0
//@ flops   2 * batch * kv_heads * GQA_GROUP * HEAD_DIM * (max_length + 1)
//@ bytes   sizeof(T) * batch * kv_heads * HEAD_DIM * (max_length + 1) + 2 * sizeof(T) * batch * kv_heads * GQA_GROUP * HEAD_DIM + 4 * batch * (max_length + 1) / 2 / PAGE_SIZE + 4 * batch
//@ naive   decode_naive
//@ backend cuda, host
//@ arch    sm_80+
//@ block   THREADS
//@ grid    BLOCKS_PER_SM * max(device.multiprocessors, 1)
//@ shared  WARPS * (STAGES * 32 * HEAD_DIM * sizeof(T) + GQA_GROUP * PITCH * sizeof(float))
//@ model   engine mma
//@ model   search [STAGES, BLOCKS_PER_SM]
#include "kiln/async.h"
#include "kiln/decode_line.h"
#include "kiln/last_block.h"
#include "kiln/mma.h"
#include "kiln/prefetch.h"
#include "kiln/reduce.h"
#include "kiln/softmax.h"
#include "kiln/tile_layout.h"

using kiln::i64;

constexpr int kTokens = 16;  // per tile: what the second product sums up at a time, and no more than a page
constexpr int kVec = 8;      // elements per copy, and per row of an 8 x 8 matrix
constexpr int kChunks = HEAD_DIM / kVec;
constexpr int kRowsAtOnce = 32 / kChunks;  // that a warp's copy covers
constexpr int kTile = kTokens * HEAD_DIM;
constexpr int kStage = 2 * kTile;  // keys, values
constexpr int kStepsD = HEAD_DIM / 16;
constexpr int kResults = GQA_GROUP * HEAD_DIM;
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

using Accumulator = float[4];

using Layout = kiln::TileLayout<HEAD_DIM, 0, kiln::LineSwizzle<T, HEAD_DIM, kVec>>;

using Line = kiln::TokenLine<kTokens, WARPS>;
using Part = Line::Part;
using Items = Line::Items;

// The cache, and what says where in it a sequence's tokens are.
struct Cache {
    const T* k;
    const T* v;
    const int* page_table;
    int kv_heads;
    int pages;  // of a sequence, at most
};

// One warp's copies: every WARPS-th place of the block, if that is a tile, whichever heads these belong to.
// Pages are looked up some tiles before they are copied.
class Loader {
  public:
    __device__ __forceinline__ Loader(const Cache& cache, const Items& items, int first, int count, T* ring)
        : cache_(cache), items_(items), place_(items.from(first)), count_(count), ring_(ring) {
#pragma unroll
        for (int i = 0; i < kAhead; ++i) look_up(ahead_[i]);
    }

    template <class Copies>
    __device__ __forceinline__ void load(Copies& copies) {
        const Found now = ahead_[0];
#pragma unroll
        for (int i = 1; i < kAhead; ++i) ahead_[i - 1] = ahead_[i];
        look_up(ahead_[kAhead - 1]);
        if (now.tokens > 0) {
            const int lane = static_cast<int>(threadIdx.x) % 32;
            const int chunk = lane % kChunks;
            const i64 corner =
                (static_cast<i64>(now.page) * cache_.kv_heads * PAGE_SIZE + now.place) * HEAD_DIM + chunk * kVec;
            T* const keys = ring_ + stage_ * kStage;
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                const T* const from = (side == 0 ? cache_.k : cache_.v) + corner;
#pragma unroll
                for (int step = 0; step < kTokens / kRowsAtOnce; ++step) {
                    const int row = step * kRowsAtOnce + lane / kChunks;
                    copies.template copy<kVec>(keys + side * kTile + Layout::group_at(row, chunk), from + row * HEAD_DIM,
                                               row < now.tokens ? kVec : 0);
                }
            }
        }
        copies.commit();
        stage_ = stage_ == STAGES - 1 ? 0 : stage_ + 1;
    }

  private:
    static constexpr int kAhead = STAGES;
    struct Found {
        int page;
        int place;   // of the first token, in the page's tokens of all heads
        int tokens;  // from there to the sequence's end; 0: no tile
    };

    __device__ __forceinline__ void look_up(Found& found) {
        found = {0, 0, 0};
        while (place_ >= items_.tiles_end && place_ < count_) {
            if (place_ < items_.end)
                place_ += WARPS;
            else
                items_.advance();
        }
        if (place_ >= count_) return;
        const int token = (place_ - items_.begin) * kTokens;
        found.page = cache_.page_table[static_cast<i64>(items_.sequence) * cache_.pages + token / PAGE_SIZE];
        found.place = items_.head * PAGE_SIZE + token % PAGE_SIZE;
        found.tokens = items_.length - token;
        place_ += WARPS;
    }

    const Cache& cache_;
    Items items_;
    int place_, count_;
    T* ring_;
    int stage_ = 0;
    Found ahead_[kAhead];
};

// The GQA_GROUP queries of a head of the cache, as a fragment without the rows 8 to 15, which are zeros.
struct Queries {
    unsigned pairs[kStepsD][2];

    __device__ __forceinline__ void load(const T* from) {
        const int row = static_cast<int>(threadIdx.x) % 32 / 4,
                  column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
        for (int i = 0; i < kStepsD * 2; ++i)
            pairs[i / 2][i % 2] =
                row < GQA_GROUP ? *reinterpret_cast<const unsigned*>(from + row * HEAD_DIM + i * 8 + column) : 0u;
    }
};

// A warp's running softmax of a head. Of scores and weights, this lane holds columns (tokens) lane % 4 * 2 and
// the next of each 8 of row (query) lane / 4; of results, which lie transposed, columns (queries) lane % 4 * 2
// and the next of rows lane / 4 and 8 further of each 16.
struct Attention {
    Accumulator out[kStepsD] = {};
    kiln::OnlineSoftmax softmax = kiln::OnlineSoftmax::none();
    float sum = 0.0f;

    // tokens: how many of the tile's there are, if less than all.
    __device__ __forceinline__ void add(const Queries& queries, const T* keys, int tokens) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        Accumulator scores[2] = {};
#pragma unroll
        for (int step = 0; step < kStepsD; ++step) {
            const unsigned q[4] = {queries.pairs[step][0], 0u, queries.pairs[step][1], 0u};
            unsigned b[4];
            kiln::ldmatrix_x4(b, keys + Layout::group_at(lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
            kiln::mma_m16n8k16<T>(scores[0], q, b[0], b[1]);
            kiln::mma_m16n8k16<T>(scores[1], q, b[2], b[3]);
        }
        float largest = kiln::kMinusInfinity;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float& score = scores[i / 2][i % 2];
            if (i / 2 * 8 + lane % 4 * 2 + i % 2 >= tokens) score = kiln::kMinusInfinity;
            largest = fmaxf(largest, score);
        }
        const float rescale = softmax.raise(kiln::warp_reduce<4>(largest, kiln::Max{}) * kScale);
        sum *= rescale;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float& score = scores[i / 2][i % 2];
            score = kiln::fast_exp2(fmaf(score, kScale, -softmax.base));
            sum += score;
        }
        // The scores' accumulators are, rounded, what the transposed product wants as its second operand.
        const unsigned weights[2] = {kiln::pack2<T>(scores[0][0], scores[0][1]),
                                     kiln::pack2<T>(scores[1][0], scores[1][1])};
        const float rescales[2] = {__shfl_sync(0xffffffffu, rescale, lane % 4 * 8),
                                   __shfl_sync(0xffffffffu, rescale, lane % 4 * 8 + 4)};
        const T* const values = keys + kTile;
#pragma unroll
        for (int step = 0; step < kStepsD; ++step) {
            unsigned v[4];
            kiln::ldmatrix_x4_trans(v, values + Layout::group_at(lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
#pragma unroll
            for (int i = 0; i < 4; ++i) out[step][i] *= rescales[i % 2];
            kiln::mma_m16n8k16<T>(out[step], v, weights[0], weights[1]);
        }
    }
    // Leaves GQA_GROUP rows of results, and what they are relative to.
    __device__ __forceinline__ void store(float* results, kiln::MaxAndSum* stats) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const float total = kiln::warp_reduce<4>(sum, kiln::Sum{});
        if (lane % 4 == 0 && lane / 4 < GQA_GROUP) stats[lane / 4] = {softmax.max, total};
#pragma unroll
        for (int i = 0; i < kStepsD * 4; ++i) {
            const int row = lane % 4 * 2 + i % 2;
            if (row < GQA_GROUP)
                results[row * PITCH + i / 4 * 16 + i % 4 / 2 * 8 + lane / 4] = out[i / 4][i % 4];
        }
    }
};

// Joins partial results of one head in their order: stats_at(i) and value_at(i) are those of part i.
struct Joined {
    float max, sum, value;
};
template <class StatsAt, class ValueAt>
__device__ __forceinline__ Joined join(int count, StatsAt stats_at, ValueAt value_at) {
    Joined all = {kiln::kMinusInfinity, 0.0f, 0.0f};
    for (int i = 0; i < count; ++i) all.max = fmaxf(all.max, stats_at(i).max);
    const float base = all.max == kiln::kMinusInfinity ? 0.0f : all.max;
    for (int i = 0; i < count; ++i) {
        const kiln::MaxAndSum stats = stats_at(i);
        const float scale = kiln::fast_exp2(stats.max - base);
        all.sum += scale * stats.sum;
        all.value += scale * value_at(i);
    }
    return all;
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS_PER_SM) void decode_mma(
    int batch, int kv_heads, int max_length, const T* __restrict__ q, const T* __restrict__ k_cache,
    const T* __restrict__ v_cache, const int* __restrict__ page_table, const int* __restrict__ lengths,
    T* __restrict__ o, float* __restrict__ partials, float* __restrict__ partial_stats,
    unsigned* __restrict__ tickets) {
    __shared__ kiln::MaxAndSum warp_stats[WARPS][GQA_GROUP];
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32;
    auto* const stats = reinterpret_cast<kiln::MaxAndSum*>(partial_stats);
    T* const ring = kiln::dynamic_shared<T>() + warp * STAGES * kStage;
    float* const warp_results = reinterpret_cast<float*>(kiln::dynamic_shared<T>() + WARPS * STAGES * kStage);

    // The lengths say what to look up; meanwhile the whole table, or much of it, comes nearer.
    const int pages = kiln::ceil_div(max_length, PAGE_SIZE);
    const i64 entry = (static_cast<i64>(blockIdx.x) * THREADS + thread) * (128 / sizeof(int));
    if (entry < static_cast<i64>(batch) * pages) kiln::prefetch_to_l2(page_table + entry);

    const Part part = Line::part(lengths, batch, kv_heads);
    const auto item_of = [=](const Items& items) {
        return static_cast<i64>(items.sequence) * kv_heads + items.head;
    };
    const int count = static_cast<int>(part.end - part.begin);
    if (count > 0) {
        const Cache cache = {k_cache, v_cache, page_table, kv_heads, pages};
        Items items(part, lengths, kv_heads);
        if (items.tiles_end <= 0 && items.end < count) items.advance();  // another block had its last tile
        Loader loader(cache, items, warp, count, ring);
        kiln::AsyncCopies<> copies;
#pragma unroll
        for (int i = 0; i < STAGES - 1; ++i) loader.load(copies);
        Queries next_queries;
        next_queries.load(q + item_of(items) * kResults);

        int place = warp;
        int stage = 0;
        while (items.tiles_end > 0) {
            const Queries queries = next_queries;
            Items next_items = items;
            const bool is_last = items.end >= count;
            if (!is_last) {
                next_items.advance();
                next_queries.load(q + item_of(next_items) * kResults);
            }
            Attention attention;
            const int end = items.tiles_end < count ? items.tiles_end : count;
            for (place = items.from(place); place < end; place += WARPS) {
                copies.template wait<STAGES - 2>();
                __syncwarp();  // this tile is there for all lanes, and the one before has been read
                loader.load(copies);
                attention.add(queries, ring + stage * kStage, items.length - (place - items.begin) * kTokens);
                stage = stage == STAGES - 1 ? 0 : stage + 1;
            }
            attention.store(warp_results + warp * GQA_GROUP * PITCH, warp_stats[warp]);
            __syncthreads();

            const bool whole = items.begin >= 0 && items.tiles_end <= count;
            const i64 item = item_of(items);
            T* const out = o + item * kResults;
            const i64 slot = 2 * static_cast<i64>(blockIdx.x) + (items.begin >= 0 ? 1 : 0);
            for (int i = thread; i < kResults; i += THREADS) {
                const Joined all = join(
                    WARPS, [&](int w) { return warp_stats[w][i / HEAD_DIM]; },
                    [&](int w) { return warp_results[(w * GQA_GROUP + i / HEAD_DIM) * PITCH + i % HEAD_DIM]; });
                if (whole) {
                    out[i] = T(all.value / all.sum);
                } else {
                    partials[slot * kResults + i] = all.value;
                    if (i % HEAD_DIM == 0) stats[slot * GQA_GROUP + i / HEAD_DIM] = {all.max, all.sum};
                }
            }
            if (!whole) {
                const unsigned first = part.block_of(part.begin + items.begin);
                const unsigned blocks = part.block_of(part.begin + items.tiles_end - 1) - first + 1;
                if (kiln::is_last_block(tickets + item, blocks)) {
                    const auto slot_of = [=](int i) {
                        return 2 * static_cast<i64>(first + i) + (i == 0 ? 1 : 0);
                    };
                    for (int i = thread; i < kResults; i += THREADS) {
                        const Joined all = join(
                            static_cast<int>(blocks),
                            [&](int r) { return stats[slot_of(r) * GQA_GROUP + i / HEAD_DIM]; },
                            [&](int r) { return partials[slot_of(r) * kResults + i]; });
                        out[i] = T(all.value / all.sum);
                    }
                }
            }
            if (is_last) break;
            __syncthreads();  // the warps' results have been read
            items = next_items;
        }
        copies.template wait<0>();
    }

    // Sequences without tokens are on nobody's part.
    for (int i = blockIdx.x; i < batch; i += gridDim.x) {
        if (lengths[i] > 0) continue;
        for (int j = thread; j < kv_heads * kResults; j += THREADS)
            o[static_cast<i64>(i) * kv_heads * kResults + j] = T(0.0f);
    }
}
