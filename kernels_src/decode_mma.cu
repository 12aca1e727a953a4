// decode_mma: decode attention of one or several new tokens with a paged KV cache, on tensor cores
//
// The cache, its pages and the results are those of decode_paged; weights are rounded to T before they meet V. With
// NEW_TOKENS, as speculative decoding has them, q and o are [batch, NEW_TOKENS, heads, HEAD_DIM] in memory. A sequence's
// length counts its new tokens, whose keys and values are in the cache already, and each of them sees the tokens up to
// itself; those before the sequence's first token see nothing, and give zeros.
//
// All tokens of all sequences and heads make up one line of tiles of 16, and each warp of a fixed grid takes an
// equal part of it, whatever the lengths (kiln/decode_line.h). Warps work for themselves: each copies the tiles of
// its part into a pipeline of STAGES stages in shared memory, STAGES - 1 tiles ahead and across the ends of sequences,
// keeps a running
// softmax, and writes the heads that lie in its part. Those that lie in several parts are put together once, at the
// end: by the block, and where a head is spread over several blocks, by the last of them to end, in the order of the
// tokens. The ROWS queries of a head of the cache, GQA_GROUP heads of NEW_TOKENS tokens, are rows of the matrix
// instruction, so that keys and values are read once and multiplying costs next to nothing. A warp holds the accumulators
// of all of them. Up to 16 queries are held in registers, too; more of them in shared memory.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  decode_mma
//@ param   T             type in half, bfloat16 = half      "element type of q, the cache and o; sums are float"
//@ param   HEAD_DIM      int in 64, 128 = 128               "elements of a query, key or value"
//@ param   GQA_GROUP     int in 1, 2, 4, 8 = 4              "query heads per head of the cache"
//@ param   PAGE_SIZE     int in 16, 32, 64, 128 = 16        "tokens per page"
//@ param   NEW_TOKENS    int in 1..16 = 1                   "new tokens per sequence; the one before sees one token less"
//@ param   WARPS         int in 2, 4, 8 = GQA_GROUP * NEW_TOKENS * HEAD_DIM > 2048 ? 2 : 4  "warps per block"
//@ param   STAGES        int in 2..6 = 256 / HEAD_DIM + (GQA_GROUP * NEW_TOKENS * HEAD_DIM > 2048 ? 1 : 0)  "tiles of a warp under way, and the one in use"
//@ param   BLOCKS_PER_SM int in 1..4 = 2                    "blocks per multiprocessor"
//@ let     THREADS = WARPS * 32
//@ let     ROWS    = GQA_GROUP * NEW_TOKENS           "queries that share keys and values"
//@ let     QUERIES = ROWS > 16 ? ceil_div(ROWS, 16) * 16 : 0  "of those, how many have a place in shared memory"
//@ let     PITCH   = HEAD_DIM + 4                       "of a warp's results: behind each row its maximum and sum; 4 rows at once lie in different banks"
//@ require WARPS * BLOCKS_PER_SM <= 8                   "a thread takes over 200 registers, so 8 warps are what a multiprocessor holds; choose fewer warps or blocks"
//@ require ROWS <= (HEAD_DIM == 64 ? 48 : 24)          "a warp holds the accumulators of GQA_GROUP * NEW_TOKENS queries in registers, at most 24 queries of 128 elements or 48 of 64; choose fewer new tokens"
//@ require ROWS * PITCH * 4 <= STAGES * 32 * HEAD_DIM * sizeof(T) "a warp's stages hold its GQA_GROUP * NEW_TOKENS rows of results at the end; choose more stages"
//@ size    batch      = 32   test 3    "sequences"
//@ size    kv_heads   = 8    test 2    "heads of the cache"
//@ size    max_length = 4096 test 1201 "the most tokens of a sequence"
//@ input   q [batch * NEW_TOKENS, kv_heads * GQA_GROUP, HEAD_DIM] align 16
//@ input   k_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's keys"
//@ input   v_cache [batch * ceil_div(max_length, PAGE_SIZE), kv_heads, PAGE_SIZE, HEAD_DIM] align 16  "the pool's values"
//@ input   page_table [batch, ceil_div(max_length, PAGE_SIZE)] permutation "which page of the pool holds a sequence's page"
//@ input   lengths [batch] in 1..max_length "tokens of each sequence"
//@ output  o [batch * NEW_TOKENS, kv_heads * GQA_GROUP, HEAD_DIM] by decode_mma_reference
//@ scratch partials [2 * BLOCKS_PER_SM * max(device.multiprocessors, 1), ROWS, PITCH] align 16
//@ scratch tickets [batch * kv_heads] = 0
//@ flops   2 * batch * kv_heads * ROWS * HEAD_DIM * max(max_length + 2 - NEW_TOKENS, 1)
//@ bytes   sizeof(T) * batch * kv_heads * HEAD_DIM * (max_length + 1) + 2 * sizeof(T) * batch * kv_heads * ROWS * HEAD_DIM + 4 * batch * (max_length + 1) / 2 / PAGE_SIZE + 4 * batch
//@ naive   decode_naive
//@ backend cuda, host
//@ arch    sm_80+
//@ block   THREADS
//@ grid    BLOCKS_PER_SM * max(device.multiprocessors, 1)
//@ shared  WARPS * (STAGES * 32 * HEAD_DIM * sizeof(T) + ROWS * PITCH * sizeof(float) + QUERIES * HEAD_DIM * sizeof(T))
//@ model   engine mma
//@ model   stages STAGES
//@ model   blocks BLOCKS_PER_SM
//@ model   search [WARPS, STAGES, BLOCKS_PER_SM]
#include "kiln/async.h"
#include "kiln/decode_line.h"
#include "kiln/joined_attention.h"
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
constexpr int kGroup = GQA_GROUP * HEAD_DIM;
constexpr int kResults = ROWS * HEAD_DIM;
constexpr int kSegment = ROWS * PITCH;  // results, and what they are relative to
static_assert(2 * kResults * sizeof(T) <= kSegment * sizeof(float), "the queries of two heads fit where a segment's results lie");
constexpr int kEights = (ROWS + 7) / 8, kSixteens = (ROWS + 15) / 16;
static_assert(8 * PITCH * sizeof(float) <= kStage * sizeof(T), "8 rows of results fit in a stage of the ring");
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

using Accumulator = float[4];

using Layout = kiln::TileLayout<HEAD_DIM, 0, kiln::LineSwizzle<T, HEAD_DIM, kVec>>;

using Line = kiln::TokenLine<kTokens, WARPS>;
using Place = Line::Place;
using Results = kiln::Vec<float, 4>;
using Joined = kiln::JoinedAttention;

// The cache, and what says where in it a sequence's tokens are.
struct Cache {
    const T* k;
    const T* v;
    const int* page_table;
    const int* lengths;
    int kv_heads;
    int pages;  // of a sequence, at most
};

// Where a place's page is in the page table, where its tile begins in the tokens of all of the page's heads, and where
// these begin in the cache.
__device__ __forceinline__ i64 page_index(const Cache& cache, const Place& place) {
    return static_cast<i64>(place.sequence) * cache.pages + place.tile * kTokens / PAGE_SIZE;
}
__device__ __forceinline__ int token_in_page(const Place& place) {
    return place.head * PAGE_SIZE + place.tile * kTokens % PAGE_SIZE;
}
__device__ __forceinline__ i64 corner_of(const Cache& cache, int page, int token) {
    return static_cast<i64>(page) * (cache.kv_heads * (PAGE_SIZE * HEAD_DIM)) + token * HEAD_DIM;
}

// A warp's copies of the tiles of its part, one after the other, whichever heads these belong to. A tile's page is
// looked up before the tile ahead of it is copied.
class Loader {
  public:
    // likely, likely_page: a place whose page is known; a sequence of -1 for none.
    __device__ __forceinline__ Loader(const Cache& cache, const Line::Part& part, T* ring, const Place& likely,
                                      int likely_page)
        : cache_(cache), place_(part.first), left_(part.count), ring_(ring) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        row_ = lane / kChunks;
        from_ = lane * kVec;
#pragma unroll
        for (int i = 0; i < kOrders; ++i) to_[i] = Layout::group_at(i * kRowsAtOnce + row_, lane % kChunks);
        const bool known = place_.sequence == likely.sequence &&
                           place_.tile * kTokens / PAGE_SIZE == likely.tile * kTokens / PAGE_SIZE;
        look_up(known, likely_page);
    }

    // Copies the next tile, if there is one; what belongs to it may be copied before the commit.
    template <class Copies>
    __device__ __forceinline__ void copy(Copies& copies) {
        const int tokens = next_.tokens;
        i64 corner = 0;
        if (tokens > 0) corner = corner_of(cache_, next_.page, next_.token) + from_;
        look_up(false, 0);
        if (tokens > 0) {
            T* const keys = ring_ + stage_ * kStage;
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                const T* const from = (side == 0 ? cache_.k : cache_.v) + corner;
#pragma unroll
                for (int step = 0; step < kTokens / kRowsAtOnce; ++step) {
                    const int row = step * kRowsAtOnce;
                    T* const to = keys + to_[step % kOrders] + side * kTile + row / Layout::kPeriod * kPeriod;
                    copies.template copy<kVec>(to, from + row * HEAD_DIM, row_ < tokens - row ? kVec : 0);
                }
            }
        }
        stage_ = stage_ == STAGES - 1 ? 0 : stage_ + 1;
    }

  private:
    static constexpr int kOrders = Layout::kPeriod / kRowsAtOnce;  // later rows lie as these do
    static constexpr int kPeriod = Layout::kPeriod * HEAD_DIM;
    struct Found {
        int page;
        int token;   // the tile's first one, in the page's tokens of all heads
        int tokens;  // from there to the sequence's end; 0: no tile
    };

    __device__ __forceinline__ void look_up(bool known, int page) {
        next_.tokens = 0;
        if (left_ == 0) return;
        next_.page = known ? page : cache_.page_table[page_index(cache_, place_)];
        next_.token = token_in_page(place_);
        next_.tokens = place_.length - place_.tile * kTokens;
        ++place_.tile;
        if (--left_ > 0 && next_.tokens <= kTokens) place_.next_head(cache_.lengths, cache_.kv_heads);
    }

    const Cache& cache_;
    Place place_;  // of the tile after the next
    int left_;
    T* ring_;
    int row_, from_, to_[kOrders];  // of this lane's copies: the first row, where it begins, and where they end up
    int stage_ = 0;
    Found next_ = {0, 0, 0};
};

// Which of the new tokens a row is of.
__device__ __forceinline__ int token_of(int row) { return NEW_TOKENS == 1 ? 0 : row / GQA_GROUP; }

// Where in q and o the kResults elements of a head of the cache begin, and how far behind that one of them lies, of a new
// token's kGroup elements.
__device__ __forceinline__ i64 begin_of(const Place& place, int kv_heads) {
    return (static_cast<i64>(place.sequence) * (NEW_TOKENS * kv_heads) + place.head) * kGroup;
}
__device__ __forceinline__ i64 begin_of(int item, int kv_heads) {
    const int sequence = NEW_TOKENS == 1 ? 0 : item / kv_heads;
    return (static_cast<i64>(item) + static_cast<i64>(sequence) * ((NEW_TOKENS - 1) * kv_heads)) * kGroup;
}
__device__ __forceinline__ int offset_of(int element, int kv_heads) {
    return NEW_TOKENS == 1 ? element : element + element / kGroup * ((kv_heads - 1) * kGroup);
}

// Up to 16 queries of a head of the cache, as fragments in registers, which are loaded a head ahead. Without rows 8 to
// 15, those are zeros. load(): straight from memory.
struct HeldQueries {
    static constexpr bool kAhead = true;
    unsigned pairs[kStepsD][2][kEights];

    __device__ __forceinline__ explicit HeldQueries(T*) {}
    // Rows past the last read the last row again; their results are not stored.
    static __device__ __forceinline__ int row_of(int row) { return row < ROWS ? row : ROWS - 1; }
    __device__ __forceinline__ void load(const T* from, int kv_heads) {
        const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
            const int at = offset_of(row_of(e * 8 + static_cast<int>(threadIdx.x) % 32 / 4) * HEAD_DIM, kv_heads);
#pragma unroll
            for (int i = 0; i < kStepsD * 2; ++i)
                pairs[i / 2][i % 2][e] = *reinterpret_cast<const unsigned*>(from + at + i * 8 + column);
        }
    }
    // The same in two steps, by way of a tile in shared memory: nothing else that the warp loads then waits for them.
    template <class Copies>
    static __device__ __forceinline__ void copy(Copies& copies, T* tile, const T* from, int kv_heads) {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x) % 32; i < ROWS * kChunks; i += 32) {
            const int row = i / kChunks, chunk = i % kChunks;
            copies.template copy<kVec>(tile + Layout::group_at(row, chunk),
                                       from + offset_of(row * HEAD_DIM, kv_heads) + chunk * kVec);
        }
    }
    __device__ __forceinline__ void read(const T* tile) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        constexpr int kRows = kEights * 8, kStepsAtOnce = 2 / kEights;
        const int row = row_of(lane % kRows);
#pragma unroll
        for (int step = 0; step < kStepsD; step += kStepsAtOnce) {
            unsigned some[4];
            kiln::ldmatrix_x4(some, tile + Layout::group_at(row, step * 2 + lane / kRows));
#pragma unroll
            for (int i = 0; i < 4; ++i)
                pairs[step + i / kEights / 2][i / kEights % 2][i % kEights] = some[i];
        }
    }
    __device__ __forceinline__ void fragment(unsigned (&q)[4], int, int step) const {
        constexpr int kLast = kEights - 1;
        q[0] = pairs[step][0][0];
        q[1] = kLast > 0 ? pairs[step][0][kLast] : 0u;
        q[2] = pairs[step][1][0];
        q[3] = kLast > 0 ? pairs[step][1][kLast] : 0u;
    }
};

// More of them, in a tile in shared memory.
struct SharedQueries {
    static constexpr bool kAhead = false;
    T* tile;

    __device__ __forceinline__ explicit SharedQueries(T* memory) : tile(memory) {}
    template <class Copies>
    static __device__ __forceinline__ void copy(Copies&, T*, const T*, int) {}
    __device__ __forceinline__ void read(const T*) {}
    __device__ __forceinline__ void load(const T* from, int kv_heads) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 4
        for (int i = lane; i < QUERIES * kChunks; i += 32) {
            const int row = i / kChunks, chunk = i % kChunks;
            kiln::Vec<T, kVec> values = {};
            if (row < ROWS)
                values = kiln::load<kVec>(from + offset_of(row * HEAD_DIM, kv_heads) + chunk * kVec);
            kiln::store(tile + Layout::group_at(row, chunk), values);
        }
    }
    __device__ __forceinline__ void fragment(unsigned (&q)[4], int sixteen, int step) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        kiln::ldmatrix_x4(q, tile + Layout::group_at(sixteen * 16 + lane % 16, step * 2 + lane / 16));
    }
};

template <bool HELD>
struct QueriesOf {
    using Type = HeldQueries;
};
template <>
struct QueriesOf<false> {
    using Type = SharedQueries;
};
using Queries = QueriesOf<QUERIES == 0>::Type;

// What a row's results are multiplied with; a new token before the sequence's first one has no weights.
__device__ __forceinline__ float scale_of(float sum) {
    return NEW_TOKENS > 1 && sum == 0.0f ? 0.0f : 1.0f / sum;
}

// What row `row` of a segment's results is relative to.
__device__ __forceinline__ kiln::MaxAndSum& stats_of(float* results, int row) {
    return *reinterpret_cast<kiln::MaxAndSum*>(results + row * PITCH + HEAD_DIM);
}

// A warp's running softmax of a head. Of scores and weights, this lane holds columns (tokens) lane % 4 * 2 and
// the next of each 8 of row (query) lane / 4 of each 8; of results, which lie transposed, columns (queries) lane % 4 * 2
// and the next of each 8, and rows lane / 4 and 8 further of each 16.
struct Attention {
    Accumulator out[kEights][kStepsD] = {};
    struct {
        kiln::OnlineSoftmax softmax = kiln::OnlineSoftmax::none();
        float sum = 0.0f;
    } of[kEights];

    // tokens: how many there are from the tile's first one on.
    __device__ __forceinline__ void add(const Queries& queries, const T* keys, int tokens) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        Accumulator scores[kSixteens][2] = {};
#pragma unroll
        for (int step = 0; step < kStepsD; ++step) {
            unsigned b[4];
            kiln::ldmatrix_x4(b, keys + Layout::group_at(lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
#pragma unroll
            for (int s = 0; s < kSixteens; ++s) {
                unsigned q[4];
                queries.fragment(q, s, step);
                kiln::mma_m16n8k16<T>(scores[s][0], q, b[0], b[1]);
                kiln::mma_m16n8k16<T>(scores[s][1], q, b[2], b[3]);
            }
        }
        unsigned weights[kEights][2];
        float rescales[kEights][2];
#pragma unroll
        for (int e = 0; e < kEights; ++e) {
            const int seen = tokens - (NEW_TOKENS - 1 - token_of(e * 8 + lane / 4));
            float largest = kiln::kMinusInfinity;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& score = scores[e / 2][i / 2][e % 2 * 2 + i % 2];
                if (i / 2 * 8 + lane % 4 * 2 + i % 2 >= seen) score = kiln::kMinusInfinity;
                largest = fmaxf(largest, score);
            }
            const float rescale = of[e].softmax.raise(kiln::warp_reduce<4>(largest, kiln::Max{}) * kScale);
            of[e].sum *= rescale;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& score = scores[e / 2][i / 2][e % 2 * 2 + i % 2];
                score = kiln::fast_exp2(fmaf(score, kScale, -of[e].softmax.base));
                of[e].sum += score;
            }
            // The scores' accumulators are, rounded, what the transposed product wants as its second operand.
            const Accumulator(&both)[2] = scores[e / 2];
            weights[e][0] = kiln::pack2<T>(both[0][e % 2 * 2], both[0][e % 2 * 2 + 1]);
            weights[e][1] = kiln::pack2<T>(both[1][e % 2 * 2], both[1][e % 2 * 2 + 1]);
            rescales[e][0] = __shfl_sync(0xffffffffu, rescale, lane % 4 * 8);
            rescales[e][1] = __shfl_sync(0xffffffffu, rescale, lane % 4 * 8 + 4);
        }
        const T* const values = keys + kTile;
#pragma unroll
        for (int step = 0; step < kStepsD; ++step) {
            unsigned v[4];
            kiln::ldmatrix_x4_trans(v, values + Layout::group_at(lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
#pragma unroll
            for (int e = 0; e < kEights; ++e) {
#pragma unroll
                for (int i = 0; i < 4; ++i) out[e][step][i] *= rescales[e][i % 2];
                kiln::mma_m16n8k16<T>(out[e][step], v, weights[e][0], weights[e][1]);
            }
        }
    }
    // Leaves rows e * 8 to e * 8 + 7 of the results, and behind each what it is relative to.
    __device__ __forceinline__ void store(float* results, int e) const {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const float total = kiln::warp_reduce<4>(of[e].sum, kiln::Sum{});
        if (lane % 4 == 0 && lane / 4 < ROWS - e * 8) stats_of(results, lane / 4) = {of[e].softmax.max, total};
#pragma unroll
        for (int i = 0; i < kStepsD * 4; ++i) {
            const int row = lane % 4 * 2 + i % 2;
            if (row < ROWS - e * 8)
                results[row * PITCH + i / 4 * 16 + i % 4 / 2 * 8 + lane / 4] = out[e][i / 4][i % 4];
        }
    }
};

// A head of which this block and others have tiles.
struct SharedHead {
    int item;
    unsigned first, blocks;  // those that have; none: there is no such head
};

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS_PER_SM) void decode_mma(
    int batch, int kv_heads, int max_length, const T* __restrict__ q, const T* __restrict__ k_cache,
    const T* __restrict__ v_cache, const int* __restrict__ page_table, const int* __restrict__ lengths,
    T* __restrict__ o, float* __restrict__ partials, unsigned* __restrict__ tickets) {
    // A warp has up to two segments of heads that are not whole: 0, of a head that began before its part, and 1,
    // of one that begins there. Segment 1 is its last, so that its results can lie in the ring.
    __shared__ int segment_items[2 * WARPS];  // of which head; -1: none
    __shared__ SharedHead shared_heads[2];    // that began in an earlier block; that begins here and ends in a later one
    __shared__ bool is_last[2];
    const int thread = static_cast<int>(threadIdx.x);
    const int warp = thread / 32, lane = thread % 32;
    T* const rings = kiln::dynamic_shared<T>();
    T* const ring = rings + warp * STAGES * kStage;
    const auto results_of = [=](int segment) {
        if (segment % 2 == 1) return reinterpret_cast<float*>(rings + segment / 2 * STAGES * kStage);
        return reinterpret_cast<float*>(rings + WARPS * STAGES * kStage) + segment / 2 * kSegment;
    };

    // The lengths say what to look up; meanwhile the whole table, or much of it, comes nearer.
    const int pages = kiln::ceil_div(max_length, PAGE_SIZE);
    const i64 entry = (static_cast<i64>(blockIdx.x) * THREADS + thread) * (128 / sizeof(int));
    if (entry < static_cast<i64>(batch) * pages) kiln::prefetch_to_l2(page_table + entry);

    const Cache cache = {k_cache, v_cache, page_table, lengths, kv_heads, pages};

    if (thread < 2 * WARPS) segment_items[thread] = -1;
    if (thread < 2) shared_heads[thread] = {0, 0, 0};
    // Three reads one after the other lead to a warp's first tile: lengths, page, tile. So that the memory has something
    // to do until then, it is asked for the tile that is the first if all sequences are as long as possible. If they are
    // not, that tile is another warp's, or there is none.
    Place likely = {-1, 0, 0, 0};
    int likely_page = 0;
    const Line::Part part = Line::part(
        lengths, batch, kv_heads, max_length,
        [&](const Place& first) {
            likely = first;
            likely_page = page_table[page_index(cache, first)];
        },
        [&](const Place& first) {
            if (first.tile * kTokens >= first.length) return;
            const i64 corner = corner_of(cache, likely_page, token_in_page(first));
            kiln::prefetch_to_l2_by_warp<kTile * sizeof(T)>(k_cache + corner);
            kiln::prefetch_to_l2_by_warp<kTile * sizeof(T)>(v_cache + corner);
        });
    const auto item_of = [=](const Place& place) { return place.sequence * kv_heads + place.head; };
    Place place = part.first;
    // Those of the first two heads come with the first tile: behind all that the stages hold they would be the last to
    // arrive. They lie where segment 0's results will.
    Queries next_queries(reinterpret_cast<T*>(results_of(2 * WARPS)) + warp * QUERIES * HEAD_DIM);
    T* const first_queries = reinterpret_cast<T*>(results_of(2 * warp));
    kiln::AsyncCopies<> copies;
    Loader loader(cache, part, ring, likely, likely_page);
    // Not unrolled, as others below: code that runs once takes as long to fetch as to run.
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; ++i) {
        loader.copy(copies);
        if (Queries::kAhead && i == 0 && part.count > 0) {
            Queries::copy(copies, first_queries, q + begin_of(place, kv_heads), kv_heads);
            if (part.count > Line::tiles_of(place.length) - place.tile) {
                Place second = place;
                second.next_head(lengths, kv_heads);
                Queries::copy(copies, first_queries + kResults, q + begin_of(second, kv_heads), kv_heads);
            }
        }
        copies.commit();
    }

    // Sequences without tokens are on nobody's part.
#pragma unroll 1
    for (int i = blockIdx.x; i < batch; i += gridDim.x) {
        if (lengths[i] > 0) continue;
#pragma unroll 1
        for (int j = thread; j < kv_heads * kResults; j += THREADS)
            o[static_cast<i64>(i) * kv_heads * kResults + j] = T(0.0f);
    }

    int stage = 0;
    int left = part.count;
    while (left > 0) {
        const int of_head = Line::tiles_of(place.length);
        const int end = left < of_head - place.tile ? place.tile + left : of_head;
        const bool begins = place.tile == 0, ends = end == of_head;
        const unsigned head_begin = part.begin + (part.count - left) - place.tile;
        const bool is_first = left == part.count;
        left -= end - place.tile;
        if (!Queries::kAhead) {
            next_queries.load(q + begin_of(place, kv_heads), kv_heads);
        } else if (is_first) {
            copies.template wait<STAGES - 2>();
            __syncwarp();
            next_queries.read(first_queries);
        }
        const Queries queries = next_queries;
        Place next_place = place;
        if (left > 0) {
            next_place.next_head(lengths, kv_heads);
            if (is_first)
                next_queries.read(first_queries + kResults);
            else if (Queries::kAhead)
                next_queries.load(q + begin_of(next_place, kv_heads), kv_heads);
        }
        Attention attention;
        T* tile = ring;
        for (int i = place.tile; i < end; ++i) {
            copies.template wait<STAGES - 2>();
            __syncwarp();  // this tile is there for all lanes, and the one before has been read
            loader.copy(copies);
            copies.commit();
            tile = ring + stage * kStage;
            attention.add(queries, tile, place.length - i * kTokens);
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
        __syncwarp();  // this one as well: its stage is free until the next tile is awaited
        const int item = item_of(place);
        const int segment = 2 * warp + (begins ? 1 : 0);
        float* const results = begins && ends ? reinterpret_cast<float*>(tile) : results_of(segment);
        attention.store(results, 0);
        if (begins && ends) {
            T* const out = o + begin_of(place, kv_heads);
#pragma unroll
            for (int e = 0; e < kEights; ++e) {
                if (e > 0) {
                    __syncwarp();  // the 8 rows before have been read
                    attention.store(results, e);
                }
                __syncwarp();
                const int rows = ROWS - e * 8 < 8 ? ROWS - e * 8 : 8;
#pragma unroll 1
                for (int row = 0; row < rows; ++row) {
                    const int at = offset_of((e * 8 + row) * HEAD_DIM, kv_heads);
                    const float scale = scale_of(stats_of(results, row).sum);
#pragma unroll
                    for (int i = 0; i < HEAD_DIM; i += 32)
                        out[at + i + lane] = T(results[row * PITCH + i + lane] * scale);
                }
            }
        } else {
#pragma unroll
            for (int e = 1; e < kEights; ++e) attention.store(results + e * 8 * PITCH, e);
            if (lane == 0) {
                segment_items[segment] = item;
                const bool from_before = warp == 0 && !begins;
                if (from_before || (warp == WARPS - 1 && !ends)) {
                    const unsigned first = part.split.block_of(head_begin);
                    const unsigned last = part.split.block_of(head_begin + of_head - 1);
                    if (from_before || first == blockIdx.x)
                        shared_heads[from_before ? 0 : 1] = {item, first, last - first + 1};
                }
            }
        }
        place = next_place;
    }
    copies.template wait<0>();
    __syncthreads();

    // What the block's warps have of one head. Segment 0 of the first, or a segment 1, is followed by the segments 0
    // of the next warps.
    const unsigned begun = __ballot_sync(
        0xffffffffu, lane <= WARPS && segment_items[lane > 0 && lane <= WARPS ? 2 * lane - 1 : 0] >= 0);
#pragma unroll 1
    for (int i = thread; i < (WARPS + 1) * (kResults / 4); i += THREADS) {
        const int number = i / (kResults / 4);
        if ((begun >> number & 1) == 0) continue;
        const int row = i % (kResults / 4) * 4 / HEAD_DIM, column = i * 4 % HEAD_DIM;
        const bool begins = number > 0;
        const int item = segment_items[begins ? 2 * number - 1 : 0];
        const int first = begins ? number - 1 : 0;
        int count = 1;
#pragma unroll
        for (int w = 1; w < WARPS; ++w) count += w > first && segment_items[2 * w] == item ? 1 : 0;
        const auto segment_of = [=](int i) { return 2 * (first + i) + (begins && i == 0 ? 1 : 0); };
        const Joined all = kiln::join_attention<4>(
            count, [&](int i) { return stats_of(results_of(segment_of(i)), row); },
            [&](int i) { return kiln::load<4>(results_of(segment_of(i)) + row * PITCH + column); });
        if (begins && (shared_heads[1].blocks == 0 || item != shared_heads[1].item)) {
            all.write(o + begin_of(item, kv_heads) + offset_of(row * HEAD_DIM, kv_heads) + column, scale_of(all.sum));
        } else {
            const i64 slot = 2 * static_cast<i64>(blockIdx.x) + (begins ? 1 : 0);
            float* const to = partials + slot * kSegment + row * PITCH;
            kiln::store(to + column, all.values);
            if (column == 0) kiln::store(to + HEAD_DIM, Results{{all.max, all.sum, 0.0f, 0.0f}});
        }
    }
    __syncthreads();
    if (thread < 2) {
        const SharedHead head = shared_heads[thread];
        is_last[thread] = head.blocks > 0 && kiln::is_last_arrival(tickets + head.item, head.blocks);
    }
    __syncthreads();
#pragma unroll 1
    for (int side = 0; side < 2; ++side) {
        if (!is_last[side]) continue;
        const SharedHead head = shared_heads[side];
        const auto slot_of = [=](int i) { return 2 * static_cast<i64>(head.first + i) + (i == 0 ? 1 : 0); };
#pragma unroll 1
        for (int i = thread; i < kResults / 4; i += THREADS) {
            const int row = i * 4 / HEAD_DIM, column = i * 4 % HEAD_DIM;
            const auto stats_at = [&](int r) { return stats_of(partials + slot_of(r) * kSegment, row); };
            const auto values_at = [&](int r) {
                return kiln::load<4>(partials + slot_of(r) * kSegment + row * PITCH + column);
            };
            const int count = static_cast<int>(head.blocks);
            const Joined all =
                count > 8 ? kiln::join_attention<16>(count, stats_at, values_at) : kiln::join_attention<8>(count, stats_at, values_at);
            all.write(o + begin_of(head.item, kv_heads) + offset_of(i * 4, kv_heads), scale_of(all.sum));
        }
    }
}
