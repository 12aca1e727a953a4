// attention_wgmma: fused softmax(Q K^T / sqrt(HEAD_DIM)) V on Hopper's tensor cores
//
// Layouts, causal alignment, grouped heads and lse: as in attention. Weights are rounded to T before they meet
// V. TMA wants addresses of q, k and v that are multiples of 16 bytes.
//
// One thread, the producer, has TMA fill a pipeline of tiles of keys and one of tiles of values; each of the other
// warpgroups, the consumers, owns 64 queries. Q K^T takes both operands from shared memory. Its accumulators lie in
// registers as P V wants its first operand, so they only have to be rounded. While a tile's scores become weights, the
// tensor cores multiply the weights and values of the tile before. With PINGPONG the warpgroups also alternate, so
// that one issues its wgmma while the other computes exponentials. With PERSISTENT, a block per multiprocessor
// computes one tile of queries after the other, whichever is next when it asks, and the next tile's loads start
// before the results of this one are stored. The order in which a row is summed is fixed. Shah et al.,
// FlashAttention-3, 2024.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  attention_wgmma
//@ param   T          type in half, bfloat16 = half    "element type of q, k, v and o; sums are float"
//@ param   HEAD_DIM   int in 64, 96, 128, 192, 256 = 128       "elements of a query or key"
//@ param   VALUE_DIM  int in 64, 96, 128, 192, 256 = HEAD_DIM  "elements of a value"
//@ param   CAUSAL     bool = false                     "queries see no keys behind them"
//@ param   BM         int in 128, 192 = 128            "queries per block, 64 per warpgroup"
//@ param   BN         int in 64, 96, 128, 144, 160, 176, 192 = VALUE_DIM == 256 ? 64 : VALUE_DIM == 192 ? 96 : 128  "keys per tile"
//@ param   STAGES     int in 2..4 = 2                  "stages of the pipeline of keys, and of that of values"
//@ param   PINGPONG   bool = true                      "warpgroups issue wgmma alternately"
//@ param   PERSISTENT bool = false                     "persistent blocks, one per multiprocessor"
//@ let     CONSUMERS   = BM / 64                       "warpgroups that multiply"
//@ let     THREADS     = 128 * (CONSUMERS + 1)
//@ let     SLICES_K    = ceil_div(HEAD_DIM, 64)    "of 64 columns of queries and keys; TMA fills what is not there with zeros"
//@ let     SLICES_V    = ceil_div(VALUE_DIM, 64)   "of values"
//@ let     QUERY_BYTES = BM * SLICES_K * 128       "the block's queries"
//@ let     KEY_BYTES   = BN * SLICES_K * 128       "a tile of keys"
//@ let     VALUE_BYTES = BN * SLICES_V * 128       "a tile of values"
//@ let     BARRIERS    = 2 + 4 * STAGES                "full and empty: of the queries, and of each stage of keys and of values"
//@ let     PRODUCER_REGISTERS = CONSUMERS == 2 ? 24 : 32    "a thread begins with 168, or with three warpgroups that multiply 128"
//@ let     CONSUMER_REGISTERS = CONSUMERS == 2 ? 240 : 160
//@ require VALUE_DIM == HEAD_DIM || (HEAD_DIM == 192 && VALUE_DIM == 128)  "values have as many elements as keys, or 128 where keys have 192; choose VALUE_DIM = HEAD_DIM"
//@ require BN * 3 / 4 + VALUE_DIM / 2 <= (BM == 128 ? 208 : 128)  "a thread has registers for 64 queries' scores, weights and results only with fewer keys per tile"
//@ size    batch    = 4    test 2    "sequences"
//@ size    kv_heads = 16   test 1    "heads of k and v"
//@ size    group    = 1    test 2    "heads of q per head of k and v"
//@ size    queries  = 4096 test 131  "queries per sequence and head"
//@ size    keys     = 4096 test 150  "keys per sequence and head"
//@ input   q [batch, kv_heads * group, queries, HEAD_DIM]
//@ input   k [batch, kv_heads, keys, HEAD_DIM]
//@ input   v [batch, kv_heads, keys, VALUE_DIM]
//@ output  o [batch, kv_heads * group, queries, VALUE_DIM] align 16 by attention_mma_reference
//@ output  lse [batch, kv_heads * group, queries] by attention_lse_reference "ln of the sum of e^score"
//@ scratch counters [2] = 0
//@ tensormap q_map = q [batch * kv_heads * group, queries, HEAD_DIM] box [1, BM, 64] swizzle 128
//@ tensormap k_map = k [batch * kv_heads, keys, HEAD_DIM] box [1, BN, 64] swizzle 128
//@ tensormap v_map = v [batch * kv_heads, keys, VALUE_DIM] box [1, BN, 64] swizzle 128
//@ flops   2 * batch * kv_heads * group * (HEAD_DIM + VALUE_DIM) * (CAUSAL ? min(queries, keys) * (min(queries, keys) + 1) / 2 + min(queries, keys) * (keys - min(queries, keys)) : queries * keys)
//@ naive   attention_naive
//@ backend cuda, host
//@ arch    sm_90a
//@ block   THREADS
//@ grid    PERSISTENT ? min(batch * kv_heads * group * ceil_div(queries, BM), max(device.multiprocessors, 1)) : batch * kv_heads * group * ceil_div(queries, BM)
//@ shared  QUERY_BYTES + STAGES * (KEY_BYTES + VALUE_BYTES) + (BARRIERS + 1) * 8
//@ model   engine wgmma
//@ model   edge BM of queries
//@ model   step BN of keys
//@ model   search [BM, BN, STAGES], [BN, STAGES, PINGPONG]
#include "kiln/reduce.h"
#include "kiln/softmax.h"
#include "kiln/tma.h"
#include "kiln/wgmma.h"
#include "kiln/wgmma_registers.h"

using kiln::i64;

constexpr int kRowBytes = 128;  // of 64 columns, a slice
constexpr int kSliceBytesQ = BM * kRowBytes;
constexpr int kSliceBytes = BN * kRowBytes;  // of keys or values
static_assert(SLICES_K * kSliceBytesQ == QUERY_BYTES && SLICES_K * kSliceBytes == KEY_BYTES);
constexpr int kSteps = BN / 16;  // of the product with V
constexpr int kGroupThreads = 128;
constexpr int kFirstBarrier = 1;  // of the named ones, one per consumer
constexpr float kScale = kiln::kScoreScale<HEAD_DIM>;

using Scores = kiln::WgmmaAccumulator<BN>;
using Weights = kiln::WgmmaFragments<kSteps>;
using Out = kiln::WgmmaAccumulator<VALUE_DIM>;
using Pipeline = kiln::MbarrierPipeline<STAGES>;

// Stages of tiles of keys or values, of so many slices.
template <int SLICES>
struct Tiles {
    static constexpr int kTileBytes = SLICES * kSliceBytes;

    unsigned char* memory;
    Pipeline pipeline;

    __device__ __forceinline__ unsigned char* stage(const Pipeline::State& state) const {
        return memory + state.index * kTileBytes;
    }
    __device__ __forceinline__ void load(Pipeline::State& state, const kiln::TensorMap& map, int head, int key) const {
        kiln::Barrier* const full = &pipeline.full[state.index];
        pipeline.producer_acquire(state);
        kiln::barrier_arrive_and_expect_tx(full, kTileBytes);
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice)
            kiln::tma_load(stage(state) + slice * kSliceBytes, map, full, head, key, slice * 64);
        state.advance();
    }
};
struct Shared {
    unsigned char* q;
    unsigned* number;  // of the tile of queries in q
    kiln::Barrier* q_full;
    kiln::Barrier* q_empty;
    Tiles<SLICES_K> k;
    Tiles<SLICES_V> v;
};

// A tile of queries. The last queries of a head see the most keys and go first.
struct Work {
    int queries, keys;
    int head = 0;        // of q, over all sequences
    int first = 0;       // query
    int tiles_seen = 0;  // of keys

    __device__ __forceinline__ Work(int queries_, int keys_) : queries(queries_), keys(keys_) {}

    __device__ __forceinline__ void take(unsigned number) {
        const unsigned tiles = (static_cast<unsigned>(queries) + BM - 1) / BM;
        head = static_cast<int>(number / tiles);
        first = static_cast<int>(tiles - 1 - number % tiles) * BM;
        tiles_seen = (visible((queries - first < BM ? queries : first + BM) - 1) + BN - 1) / BN;
    }
    // A query sees this many keys, the first ones.
    __device__ __forceinline__ int visible(int query) const {
        if (!CAUSAL) return keys;
        const int count = query + 1 + (keys - queries);
        return count < 0 ? 0 : count < keys ? count : keys;
    }
};

// By one thread. The consumers need keys one tile ahead of values.
__device__ __forceinline__ void produce(const Shared& shared, Work work, unsigned count, unsigned* counters,
                                        int group, const kiln::TensorMap& q_map, const kiln::TensorMap& k_map,
                                        const kiln::TensorMap& v_map) {
    Pipeline::State state_k, state_v;
    unsigned phase_q = 1;
    unsigned number = blockIdx.x;
    while (number < count) {
        // Asked for early, since the answer takes a while.
        const unsigned next = PERSISTENT ? gridDim.x + atomicAdd(&counters[0], 1u) : count;
        work.take(number);
        kiln::barrier_wait(shared.q_empty, phase_q);
        phase_q ^= 1u;
        if (PERSISTENT) *shared.number = number;
        number = next;
        if (work.tiles_seen == 0) {
            kiln::barrier_arrive(shared.q_full);
            continue;
        }
        const int kv_head = work.head / group;
        kiln::barrier_arrive_and_expect_tx(shared.q_full, QUERY_BYTES);
#pragma unroll
        for (int slice = 0; slice < SLICES_K; ++slice)
            kiln::tma_load(shared.q + slice * kSliceBytesQ, q_map, shared.q_full, work.head, work.first,
                           slice * 64);
        shared.k.load(state_k, k_map, kv_head, 0);
        for (int tile = 1; tile < work.tiles_seen; ++tile) {
            shared.k.load(state_k, k_map, kv_head, tile * BN);
            shared.v.load(state_v, v_map, kv_head, (tile - 1) * BN);
        }
        shared.v.load(state_v, v_map, kv_head, (work.tiles_seen - 1) * BN);
    }
    if (!PERSISTENT) return;
    kiln::barrier_wait(shared.q_empty, phase_q);
    *shared.number = count;
    kiln::barrier_arrive(shared.q_full);
    // The last block resets the counters for the next launch.
    __threadfence();
    if (atomicAdd(&counters[1], 1u) == gridDim.x - 1) counters[0] = counters[1] = 0;
}

// Starts scores = Q K^T. q: a descriptor of this warpgroup's queries.
__device__ __forceinline__ void multiply_keys(Scores& scores, kiln::u64 q, const unsigned char* tile) {
    const kiln::u64 k = kiln::wgmma_k_major(tile);
#pragma unroll
    for (int d = 0; d < HEAD_DIM; d += 16) {
        const unsigned byte = d % 64 * 2;
        kiln::wgmma<T, false, false>(scores, q + kiln::wgmma_advance(d / 64 * kSliceBytesQ + byte),
                                     k + kiln::wgmma_advance(d / 64 * kSliceBytes + byte), d != 0);
    }
    kiln::wgmma_commit();
}

// Starts out += P V.
__device__ __forceinline__ void multiply_values(Out& out, const Weights& weights, const unsigned char* tile,
                                                bool accumulate) {
    const kiln::u64 v = kiln::wgmma_mn_major(tile, kSliceBytes);
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
        kiln::wgmma<T, true>(out, weights, step, v + kiln::wgmma_advance(step * 16 * kRowBytes),
                             accumulate || step != 0);
    kiln::wgmma_commit();
}

// What is known of a thread's two rows.
struct Rows {
    kiln::OnlineSoftmax softmax[2];
    float sums[2];  // of weights
};

// Makes weights of scores. rescale: the factors of the results so far.
__device__ __forceinline__ void weigh(Scores& scores, Rows& rows, float (&rescale)[2]) {
    constexpr int kChains = 4;  // independent ones, since each of their steps waits for the one before
#pragma unroll
    for (int row = 0; row < scores.kRows; ++row) {
        float largest[kChains];
#pragma unroll
        for (int col = 0; col < scores.kCols; ++col) {
            const float score = scores(row, col);
            largest[col % kChains] = col < kChains ? score : fmaxf(largest[col % kChains], score);
        }
        const float most = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
        rescale[row] = rows.softmax[row].raise(kiln::warp_reduce<4>(most, kiln::Max{}) * kScale);
    }
#pragma unroll
    for (int row = 0; row < scores.kRows; ++row) {
        float sums[kChains] = {};
#pragma unroll
        for (int col = 0; col < scores.kCols; ++col) {
            float& score = scores(row, col);
            score = kiln::fast_exp2(fmaf(score, kScale, -rows.softmax[row].base));
            sums[col % kChains] += score;
        }
        rows.sums[row] = rows.sums[row] * rescale[row] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
}

// Of 4 neighbouring lanes, lane t gives in words[j] the t-th word of 4-word piece j, and has all of piece t
// afterwards.
__device__ __forceinline__ void transpose_words(unsigned (&words)[4], int lane) {
    const bool odd = lane % 2 != 0, upper = lane / 2 % 2 != 0;
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, odd ? words[j] : words[j + 1], 1);
        words[j] = odd ? other : words[j];
        words[j + 1] = odd ? words[j + 1] : other;
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, upper ? words[j] : words[j + 2], 2);
        words[j] = upper ? other : words[j];
        words[j + 2] = upper ? words[j + 2] : other;
    }
}

// By the warpgroup `consumer`.
__device__ __forceinline__ void consume(const Shared& shared, Work work, unsigned consumer, unsigned count,
                                        T* o, float* lse) {
    const int thread = threadIdx.x % kGroupThreads;
    const int lane = thread % 32;
    const int first_col = Scores::col_of(thread, 0);
    // What this warp has read may be overwritten.
    const auto release = [&](kiln::Barrier* empty) {
        if (lane == 0) kiln::barrier_arrive(empty);
    };
    const auto wait_for_turn = [&] {
        if (PINGPONG) kiln::named_barrier_sync(kFirstBarrier + consumer, 2 * kGroupThreads);
    };
    const auto pass_turn = [&] {
        if (PINGPONG)
            kiln::named_barrier_arrive(kFirstBarrier + (consumer + 1) % CONSUMERS, 2 * kGroupThreads);
    };
    if (consumer == CONSUMERS - 1) pass_turn();

    const kiln::u64 q = kiln::wgmma_k_major(shared.q) + kiln::wgmma_advance(consumer * 64 * kRowBytes);
    Pipeline::State state_k, state_v;
    unsigned phase_q = 0;
    Scores scores;
    Weights weights;
    Out out;
    while (true) {
        kiln::barrier_wait(shared.q_full, phase_q);
        phase_q ^= 1u;
        // The lane that reads the tile's number is the one that arrives on q_empty, so that its own program order
        // puts the read before the next write.
        const unsigned number =
            PERSISTENT ? __shfl_sync(0xffffffffu, lane == 0 ? *shared.number : 0u, 0) : blockIdx.x;
        if (number >= count) break;
        work.take(number);
        const int first_row = work.first + static_cast<int>(consumer) * 64 + Scores::row_of(thread, 0);
        const int limits[2] = {work.visible(first_row), work.visible(first_row + Scores::row_of(0, 1))};
        const int whole = work.visible(work.first);  // all of the block's queries see the keys before this
        Rows rows = {{kiln::OnlineSoftmax::none(), kiln::OnlineSoftmax::none()}, {0.0f, 0.0f}};
        const auto mask = [&](int begin) {
            if (begin + BN <= whole) return;
            scores.for_each([&](float& score, int row, int col) {
                if (begin + Scores::col_of(0, col) + first_col >= limits[row]) score = kiln::kMinusInfinity;
            });
        };

        if (work.tiles_seen > 0) {
            kiln::wgmma_define(out);
            float rescale[2];
            shared.k.pipeline.consumer_wait(state_k);
            kiln::wgmma_fence();
            multiply_keys(scores, q, shared.k.stage(state_k));
            kiln::wgmma_wait<0>(scores);
            release(&shared.k.pipeline.empty[state_k.index]);
            state_k.advance();
            mask(0);
            weigh(scores, rows, rescale);
            kiln::wgmma_pack<T>(weights, scores);

            for (int tile = 1; tile < work.tiles_seen; ++tile) {
                shared.k.pipeline.consumer_wait(state_k);
                wait_for_turn();
                kiln::wgmma_fence();
                multiply_keys(scores, q, shared.k.stage(state_k));
                shared.v.pipeline.consumer_wait(state_v);
                kiln::wgmma_fence();
                multiply_values(out, weights, shared.v.stage(state_v), tile != 1);
                pass_turn();
                kiln::wgmma_wait<1>(scores);
                release(&shared.k.pipeline.empty[state_k.index]);
                state_k.advance();
                mask(tile * BN);
                weigh(scores, rows, rescale);
                kiln::wgmma_wait<0>(out);
                release(&shared.v.pipeline.empty[state_v.index]);
                state_v.advance();
                out.for_each([&](float& value, int row, int) { value *= rescale[row]; });
                kiln::wgmma_pack<T>(weights, scores);
            }
            release(shared.q_empty);
            shared.v.pipeline.consumer_wait(state_v);
            kiln::wgmma_fence();
            multiply_values(out, weights, shared.v.stage(state_v), work.tiles_seen != 1);
            kiln::wgmma_wait<0>(out);
            release(&shared.v.pipeline.empty[state_v.index]);
            state_v.advance();
        } else {
            release(shared.q_empty);
        }

#pragma unroll
        for (int row = 0; row < out.kRows; ++row) {
            const int query = first_row + Out::row_of(0, row);
            const i64 place = static_cast<i64>(work.head) * work.queries + query;
            const float sum = kiln::warp_reduce<4>(rows.sums[row], kiln::Sum{});
            const float scale = 1.0f / sum;
            if (lane % 4 == 0 && query < work.queries) lse[place] = rows.softmax[row].log_sum_exp(sum);
#pragma unroll
            for (int part = 0; part < VALUE_DIM; part += 32) {
                unsigned words[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const int col = part / 4 + j * 2;
                    // Without keys there is nothing in `out`, not even zeros. A sum that is a NaN stays one.
                    words[j] =
                        sum == 0.0f ? 0u : kiln::pack2<T>(out(row, col) * scale, out(row, col + 1) * scale);
                }
                transpose_words(words, lane);
                const kiln::Vec<unsigned, 4> piece = {{words[0], words[1], words[2], words[3]}};
                if (query < work.queries)
                    kiln::store(reinterpret_cast<unsigned*>(o + place * VALUE_DIM + part + lane % 4 * 8),
                                piece);
            }
        }
        if (!PERSISTENT) break;
    }
    if (consumer == 0) wait_for_turn();  // the turn that was passed last
}

extern "C" __global__ __launch_bounds__(THREADS, 1) void attention_wgmma(
    int batch, int kv_heads, int group, int queries, int keys, const T* __restrict__ q,
    const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ o, float* __restrict__ lse,
    unsigned* __restrict__ counters, const __grid_constant__ kiln::TensorMap q_map,
    const __grid_constant__ kiln::TensorMap k_map, const __grid_constant__ kiln::TensorMap v_map) {
    unsigned char* const memory = kiln::dynamic_shared<unsigned char>();
    unsigned char* const tiles_k = memory + QUERY_BYTES;
    unsigned char* const tiles_v = tiles_k + STAGES * KEY_BYTES;
    kiln::Barrier* const barriers = reinterpret_cast<kiln::Barrier*>(tiles_v + STAGES * VALUE_BYTES);
    const Shared shared = {memory,
                           reinterpret_cast<unsigned*>(barriers + BARRIERS),
                           barriers,
                           barriers + 1,
                           {tiles_k, {barriers + 2, barriers + 2 + STAGES}},
                           {tiles_v, {barriers + 2 + 2 * STAGES, barriers + 2 + 3 * STAGES}}};
    if (threadIdx.x == 0) {
        kiln::tma_prefetch(q_map);
        kiln::tma_prefetch(k_map);
        kiln::tma_prefetch(v_map);
        constexpr unsigned kWarps = CONSUMERS * 4;
        kiln::barrier_init(shared.q_full, 1);
        kiln::barrier_init(shared.q_empty, kWarps);
        for (int stage = 0; stage < STAGES; ++stage) {
            shared.k.pipeline.init_stage(stage, 1, kWarps);
            shared.v.pipeline.init_stage(stage, 1, kWarps);
        }
        kiln::barrier_init_fence();
    }
    __syncthreads();

    const Work work(queries, keys);
    const unsigned count =
        static_cast<unsigned>(batch * kv_heads * group) * ((static_cast<unsigned>(queries) + BM - 1) / BM);
    // Equal in all lanes of a warp, which the compiler cannot know of threadIdx.
    const unsigned role = __shfl_sync(0xffffffffu, threadIdx.x / kGroupThreads, 0);
    if (role == 0) {
        kiln::setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x < 32 && kiln::elect_one())
            produce(shared, work, count, counters, group, q_map, k_map, v_map);
    } else {
        kiln::setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(shared, work, role - 1, count, o, lse);
    }
}
