// SPDX-License-Identifier: Apache-2.0
//
// A block's tile of attention on Hopper's tensor cores: BM queries against all tiles of BN keys and values that they
// see. One thread, the producer, has TMA fill a pipeline of tiles of keys and one of tiles of values; each of the other
// warpgroups, the consumers, owns 64 queries. Q K^T takes both operands from shared memory. Its accumulators lie in
// registers as P V wants its first operand, so they only have to be rounded. While a tile's scores become weights, the
// tensor cores multiply the weights and values of the tile before. With PINGPONG the warpgroups also alternate, so
// that one issues its wgmma while the other computes exponentials. Shah et al., FlashAttention-3, 2024.
//   kiln::causal_keys                   how many keys a query sees
//   kiln::WgmmaAttention                a block's constants, and its shared memory
//   kiln::WgmmaAttention::Producer      by one thread
//   kiln::WgmmaAttention::Consumer      by a warpgroup
// Where tiles lie is the template's: a Work has
//   int tiles_seen                      of keys
//   int first, queries                  the tile's first query, and how many there are of this sequence and head
//   int visible(int query)              how many keys it sees
//   i64 o_row(int query), lse_at(int query)   where its results go, in rows of VALUE_DIM elements, and in elements
#pragma once

#include "kiln/reduce.h"
#include "kiln/softmax.h"
#include "kiln/tma.h"
#include "kiln/wgmma.h"
#include "kiln/wgmma_registers.h"

namespace kiln {

/// With a causal mask a query of so many sees this many of the keys, the first ones; the last query sees the last key.
__device__ __forceinline__ int causal_keys(int query, int queries, int keys) {
    const int count = query + 1 + (keys - queries);
    return count < 0 ? 0 : count < keys ? count : keys;
}

/// Shared memory, of 1024 bytes' alignment: BM * SLICES(HEAD) * 128 bytes of queries, STAGES tiles of keys and of
/// values, of BN * SLICES * 128 bytes each with SLICES = ceil_div(elements, 64), and 3 + 4 STAGES words of 8 bytes.
/// A slice is 64 columns, whose rows have 128 bytes and are swizzled.
template <class T, int HEAD, int VALUE, int BM, int BN, int STAGES, bool PINGPONG>
struct WgmmaAttention {
    static constexpr int kConsumers = BM / 64;
    static constexpr int kGroupThreads = 128;
    static constexpr int kThreads = kGroupThreads * (kConsumers + 1);
    // A thread begins with 128 where there are three consumers, or one in each of two blocks of a multiprocessor, and else
    // with 168; a kernel's launch bounds have to say so.
    static constexpr int kProducerRegisters = kConsumers == 3 ? 32 : 24;
    static constexpr int kConsumerRegisters = kConsumers == 3 ? 160 : kConsumers == 2 ? 240 : 232;
    static constexpr int kSlicesK = (HEAD + 63) / 64, kSlicesV = (VALUE + 63) / 64;
    static constexpr int kRowBytes = 128;
    static constexpr int kSliceBytesQ = BM * kRowBytes;
    static constexpr int kSliceBytes = BN * kRowBytes;  // of keys or values
    static constexpr int kQueryBytes = kSlicesK * kSliceBytesQ;
    static constexpr int kSteps = BN / 16;  // of the product with V
    static constexpr int kBarriers = 2 + 4 * STAGES;
    static constexpr int kFirstBarrier = 1;  // of the named ones, one per consumer
    static constexpr int kAllConsumers = kFirstBarrier + kConsumers;
    static constexpr float kScale = kScoreScale<HEAD>;

    using Scores = WgmmaAccumulator<BN>;
    using Weights = WgmmaFragments<kSteps>;
    using Out = WgmmaAccumulator<VALUE>;
    using Pipeline = MbarrierPipeline<STAGES>;

    /// Stages of tiles of keys or values, of so many slices.
    template <int SLICES>
    struct Tiles {
        static constexpr int kTileBytes = SLICES * kSliceBytes;

        unsigned char* memory;
        Pipeline pipeline;

        __device__ __forceinline__ unsigned char* stage(const typename Pipeline::State& state) const {
            return memory + state.index * kTileBytes;
        }
        /// load_slice(to, barrier, key, column): starts to fill a slice.
        template <class Load>
        __device__ __forceinline__ void load(typename Pipeline::State& state, int key,
                                             const Load& load_slice) const {
            Barrier* const full = &pipeline.full[state.index];
            pipeline.producer_acquire(state);
            barrier_arrive_and_expect_tx(full, kTileBytes);
#pragma unroll
            for (int slice = 0; slice < SLICES; ++slice)
                load_slice(stage(state) + slice * kSliceBytes, full, key, slice * 64);
            state.advance();
        }
    };

    struct Shared {
        unsigned char* q;
        unsigned* number;  ///< of the tile of queries in q
        Barrier* q_full;
        Barrier* q_empty;
        Tiles<kSlicesK> k;
        Tiles<kSlicesV> v;

        static __device__ __forceinline__ Shared of(unsigned char* memory) {
            unsigned char* const tiles_k = memory + kQueryBytes;
            unsigned char* const tiles_v = tiles_k + STAGES * Tiles<kSlicesK>::kTileBytes;
            Barrier* const barriers =
                reinterpret_cast<Barrier*>(tiles_v + STAGES * Tiles<kSlicesV>::kTileBytes);
            return {memory,
                    reinterpret_cast<unsigned*>(barriers + kBarriers),
                    barriers,
                    barriers + 1,
                    {tiles_k, {barriers + 2, barriers + 2 + STAGES}},
                    {tiles_v, {barriers + 2 + 2 * STAGES, barriers + 2 + 3 * STAGES}}};
        }
        /// By one thread, before a barrier of the block.
        __device__ __forceinline__ void init(const TensorMap& q_map, const TensorMap& k_map,
                                             const TensorMap& v_map) const {
            tma_prefetch(q_map);
            tma_prefetch(k_map);
            tma_prefetch(v_map);
            constexpr unsigned kWarps = kConsumers * 4;
            barrier_init(q_full, 1);
            barrier_init(q_empty, kWarps);
            for (int stage = 0; stage < STAGES; ++stage) {
                k.pipeline.init_stage(stage, 1, kWarps);
                v.pipeline.init_stage(stage, 1, kWarps);
            }
            barrier_init_fence();
        }
    };

    struct Producer {
        const Shared& shared;
        typename Pipeline::State state_k, state_v;

        /// The loads of a tile of queries that sees one tile of keys at least, when q may be filled. Each load_...(to,
        /// barrier, row, column) starts to fill a slice. The consumers need keys one tile ahead of values.
        template <class LoadQ, class LoadK, class LoadV>
        __device__ __forceinline__ void load(int tiles_seen, int first, const LoadQ& load_q,
                                             const LoadK& load_k, const LoadV& load_v) {
            barrier_arrive_and_expect_tx(shared.q_full, kQueryBytes);
#pragma unroll
            for (int slice = 0; slice < kSlicesK; ++slice)
                load_q(shared.q + slice * kSliceBytesQ, shared.q_full, first, slice * 64);
            shared.k.load(state_k, 0, load_k);
            for (int tile = 1; tile < tiles_seen; ++tile) {
                shared.k.load(state_k, tile * BN, load_k);
                shared.v.load(state_v, (tile - 1) * BN, load_v);
            }
            shared.v.load(state_v, (tiles_seen - 1) * BN, load_v);
        }
    };

    /// Starts scores = Q K^T. q: a descriptor of this warpgroup's queries.
    static __device__ __forceinline__ void multiply_keys(Scores& scores, u64 q, const unsigned char* tile) {
        const u64 k = wgmma_k_major(tile);
#pragma unroll
        for (int d = 0; d < HEAD; d += 16) {
            const unsigned byte = d % 64 * 2;
            wgmma<T, false, false>(scores, q + wgmma_advance(d / 64 * kSliceBytesQ + byte),
                                   k + wgmma_advance(d / 64 * kSliceBytes + byte), d != 0);
        }
        wgmma_commit();
    }

    /// Starts out += P V.
    static __device__ __forceinline__ void multiply_values(Out& out, const Weights& weights,
                                                           const unsigned char* tile, bool accumulate) {
        const u64 v = wgmma_mn_major(tile, kSliceBytes);
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
            wgmma<T, true>(out, weights, step, v + wgmma_advance(step * 16 * kRowBytes),
                           accumulate || step != 0);
        wgmma_commit();
    }

    /// What is known of a thread's two rows.
    struct Rows {
        OnlineSoftmax softmax[2];
        float sums[2];  ///< of weights
    };

    /// Makes weights of scores. rescale: the factors of the results so far.
    static __device__ __forceinline__ void weigh(Scores& scores, Rows& rows, float (&rescale)[2]) {
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
            rescale[row] = rows.softmax[row].raise(warp_reduce<4>(most, Max{}) * kScale);
        }
#pragma unroll
        for (int row = 0; row < scores.kRows; ++row) {
            float sums[kChains] = {};
#pragma unroll
            for (int col = 0; col < scores.kCols; ++col) {
                float& score = scores(row, col);
                score = fast_exp2(fmaf(score, kScale, -rows.softmax[row].base));
                sums[col % kChains] += score;
            }
            rows.sums[row] = rows.sums[row] * rescale[row] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        }
    }

    /// Of 4 neighbouring lanes, lane t gives in words[j] the t-th word of 4-word piece j, and has all of piece t
    /// afterwards.
    static __device__ __forceinline__ void transpose_words(unsigned (&words)[4], int lane) {
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

    class Consumer {
      public:
        __device__ __forceinline__ Consumer(const Shared& shared, unsigned number)
            : shared_(shared),
              number_(number),
              thread_(threadIdx.x % kGroupThreads),
              lane_(thread_ % 32),
              q_(wgmma_k_major(shared.q) + wgmma_advance(number * 64 * kRowBytes)) {
            if (number_ == kConsumers - 1) pass_turn();
        }
        /// After the last tile: takes the turn that was passed last.
        __device__ __forceinline__ void end() {
            if (number_ == 0) wait_for_turn();
        }

        /// The results of a tile whose queries have been loaded. complete(values): before the last tile of values is
        /// multiplied, by all threads of all consumers.
        template <class Work, class Complete>
        __device__ __forceinline__ void attend(const Work& work, T* o, float* lse, const Complete& complete) {
            const int first_row = work.first + static_cast<int>(number_) * 64 + Scores::row_of(thread_, 0);
            const int first_col = Scores::col_of(thread_, 0);
            const int limits[2] = {work.visible(first_row), work.visible(first_row + Scores::row_of(0, 1))};
            const int whole =
                work.visible(work.first);  // all of the block's queries see the keys before this
            Rows rows = {{OnlineSoftmax::none(), OnlineSoftmax::none()}, {0.0f, 0.0f}};
            const auto mask = [&](int begin) {
                if (begin + BN <= whole) return;
                scores_.for_each([&](float& score, int row, int col) {
                    if (begin + Scores::col_of(0, col) + first_col >= limits[row]) score = kMinusInfinity;
                });
            };

            if (work.tiles_seen > 0) {
                wgmma_define(out_);
                float rescale[2];
                shared_.k.pipeline.consumer_wait(state_k_);
                wgmma_fence();
                multiply_keys(scores_, q_, shared_.k.stage(state_k_));
                wgmma_wait<0>(scores_);
                release(&shared_.k.pipeline.empty[state_k_.index]);
                state_k_.advance();
                mask(0);
                weigh(scores_, rows, rescale);
                wgmma_pack<T>(weights_, scores_);

                for (int tile = 1; tile < work.tiles_seen; ++tile) {
                    shared_.k.pipeline.consumer_wait(state_k_);
                    wait_for_turn();
                    wgmma_fence();
                    multiply_keys(scores_, q_, shared_.k.stage(state_k_));
                    shared_.v.pipeline.consumer_wait(state_v_);
                    wgmma_fence();
                    multiply_values(out_, weights_, shared_.v.stage(state_v_), tile != 1);
                    pass_turn();
                    wgmma_wait<1>(scores_);
                    release(&shared_.k.pipeline.empty[state_k_.index]);
                    state_k_.advance();
                    mask(tile * BN);
                    weigh(scores_, rows, rescale);
                    wgmma_wait<0>(out_);
                    release(&shared_.v.pipeline.empty[state_v_.index]);
                    state_v_.advance();
                    out_.for_each([&](float& value, int row, int) { value *= rescale[row]; });
                    wgmma_pack<T>(weights_, scores_);
                }
                release(shared_.q_empty);
                shared_.v.pipeline.consumer_wait(state_v_);
                complete(shared_.v.stage(state_v_));
                wgmma_fence();
                multiply_values(out_, weights_, shared_.v.stage(state_v_), work.tiles_seen != 1);
                wgmma_wait<0>(out_);
                release(&shared_.v.pipeline.empty[state_v_.index]);
                state_v_.advance();
            } else {
                release(shared_.q_empty);
            }
            store(work, rows, first_row, o, lse);
        }

        /// For `complete`: sets the rows of a tile of values from `first` on to zero, whatever the memory behind a
        /// sequence holds: with a weight of 0, an infinity would give a NaN.
        static __device__ __forceinline__ void clear_values(unsigned char* values, int first) {
            constexpr int kPieces = kRowBytes / 16;
            const Vec<unsigned, 4> zero = {{0u, 0u, 0u, 0u}};
            for (int piece = first * kPieces + static_cast<int>(threadIdx.x) - kGroupThreads;
                 piece < BN * kPieces; piece += kConsumers * kGroupThreads)
#pragma unroll
                for (int slice = 0; slice < kSlicesV; ++slice)
                    kiln::store(reinterpret_cast<unsigned*>(values + slice * kSliceBytes + piece * 16), zero);
            fence_async_proxy();
            named_barrier_sync(kAllConsumers, kConsumers * kGroupThreads);
        }

      private:
        // What this warp has read may be overwritten.
        __device__ __forceinline__ void release(Barrier* empty) const {
            if (lane_ == 0) barrier_arrive(empty);
        }
        __device__ __forceinline__ void wait_for_turn() const {
            if (PINGPONG) named_barrier_sync(kFirstBarrier + number_, 2 * kGroupThreads);
        }
        __device__ __forceinline__ void pass_turn() const {
            if (PINGPONG) named_barrier_arrive(kFirstBarrier + (number_ + 1) % kConsumers, 2 * kGroupThreads);
        }

        template <class Work>
        __device__ __forceinline__ void store(const Work& work, const Rows& rows, int first_row, T* o,
                                              float* lse) const {
#pragma unroll
            for (int row = 0; row < out_.kRows; ++row) {
                const int query = first_row + Out::row_of(0, row);
                const float sum = warp_reduce<4>(rows.sums[row], Sum{});
                const float scale = 1.0f / sum;
                if (lane_ % 4 == 0 && query < work.queries)
                    lse[work.lse_at(query)] = rows.softmax[row].log_sum_exp(sum);
                const i64 place = work.o_row(query);
#pragma unroll
                for (int part = 0; part < VALUE; part += 32) {
                    unsigned words[4];
#pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        const int col = part / 4 + j * 2;
                        // Without keys there is nothing in the results, not even zeros. A sum that is a NaN stays one.
                        words[j] =
                            sum == 0.0f ? 0u : pack2<T>(out_(row, col) * scale, out_(row, col + 1) * scale);
                    }
                    transpose_words(words, lane_);
                    const Vec<unsigned, 4> piece = {{words[0], words[1], words[2], words[3]}};
                    if (query < work.queries)
                        kiln::store(reinterpret_cast<unsigned*>(o + place * VALUE + part + lane_ % 4 * 8),
                                    piece);
                }
            }
        }

        const Shared& shared_;
        const unsigned number_;
        const int thread_;  // in its warpgroup
        const int lane_;
        const u64 q_;
        typename Pipeline::State state_k_, state_v_;
        Scores scores_;
        Weights weights_;
        Out out_;
    };
};

}  // namespace kiln
