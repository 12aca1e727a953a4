// SPDX-License-Identifier: Apache-2.0
//
// kiln::Decode: one block's part in attention of one query token per sequence against a paged cache of keys
// and values. Offered: the tokens of a range, by chunks (attend), and the merge of several ranges' results
// (finish). Which block takes which range is the kernel's: decode_paged.cu, decode_persistent.cu.
//
// GROUP query heads share a head of the cache, so each key and value is read once for all of them. Steps of a
// chunk:
//   1. scores: kLanes neighbouring threads share a token, 2 x 16 bytes of its key each. The query lies scaled
//      in shared memory, as floats; the sums of the lanes are joined by shuffles.
//   2. the chunk's largest scores, over the block in two levels; weights take the place of the scores.
//   3. values, in the same arrangement, into sums in registers.
// At the end the sums of the groups of lanes are joined by shuffles and then through the shared memory that
// held the scores. The order of all sums depends on the tokens' range only.
#pragma once

#include "kiln/last_block.h"
#include "kiln/ptxas.h"
#include "kiln/reduce.h"
#include "kiln/softmax.h"

namespace kiln {

/// The cache and its addressing, as the kernels' arguments give them.
template <class T>
struct PagedCache {
    const T* k;             ///< [pages of the pool, kv_heads, PAGE, HEAD]
    const T* v;             ///< the same
    const int* page_table;  ///< of this sequence: the pool's page of each of its pages
    int kv_heads;
    int kv_head;
};

template <class T, int HEAD, int GROUP, int PAGE, int CHUNK, int THREADS>
class Decode {
  public:
    static constexpr int kVec = 8;                    ///< elements per access: 16 bytes
    static constexpr int kLanes = HEAD / (2 * kVec);  ///< threads that share a token
    static constexpr int kTokens = THREADS / kLanes;  ///< tokens at once
    static constexpr int kUnroll = 4;                 ///< tokens of a thread under way
    /// The same while scores are computed, where the sums of 8 heads leave few registers.
    static constexpr int kUnrollScores = kLaterPtxas && GROUP == 8 ? 2 : kUnroll;

    static_assert(sizeof(T) == 2, "half or bfloat16");
    static_assert(THREADS % kWarpSize == 0 && THREADS > kWarpSize, "block_reduce's barriers are counted on");
    static_assert(CHUNK % THREADS == 0 && CHUNK % (kTokens * kUnroll) == 0, "chunks are whole steps");

    /// The largest score and the sum of weights of a head.
    using Stats = MaxAndSum;

    /// memory: the block's dynamic shared memory, of
    /// (GROUP * HEAD + max(GROUP * CHUNK, ceil_div(THREADS, 32) * GROUP * HEAD)) * sizeof(float) bytes.
    explicit __device__ __forceinline__ Decode(float* memory)
        : query_(memory), scores_(memory + GROUP * HEAD), thread_(static_cast<int>(threadIdx.x)) {}

    /// Attends to the tokens from begin to end, at least one. Afterwards thread i has elements i, i +
    /// THREADS, ... of GROUP * HEAD in `result`, not yet divided by their head's sum in `stats`. query: GROUP
    /// rows of HEAD.
    __device__ __forceinline__ void attend(const T* query, const PagedCache<T>& cache, int begin, int end) {
        __syncthreads();  // an earlier range's shared memory has been read
        constexpr float kScale = kScoreScale<HEAD>;
        for (int i = thread_; i < GROUP * HEAD; i += THREADS)
            query_[i] = static_cast<float>(query[i]) * kScale;
        __syncthreads();

        float sums[GROUP][2][kVec] = {};
        PerHead weights = {};
        OnlineSoftmax softmax[GROUP];
#pragma unroll
        for (int h = 0; h < GROUP; ++h) softmax[h] = OnlineSoftmax::none();
        for (; begin < end; begin += CHUNK) {
            const int count = end - begin < CHUNK ? end - begin : CHUNK;
            const PerHead largest = block_reduce<THREADS>(compute_scores(cache, begin, count), Larger{});
#pragma unroll
            for (int h = 0; h < GROUP; ++h) {
                const float rescale = softmax[h].raise(largest.v[h]);
                weights.v[h] *= rescale;
#pragma unroll
                for (int i = 0; i < 2 * kVec; ++i) sums[h][i / kVec][i % kVec] *= rescale;
#pragma unroll
                for (int step = 0; step < CHUNK / THREADS; ++step) {
                    const int token = step * THREADS + thread_;
                    float* const place = scores_ + h * CHUNK + token;
                    const float weight = token < count ? softmax[h].weight(*place) : 0.0f;
                    weights.v[h] += weight;
                    *place = weight;
                }
            }
            __syncthreads();
            add_values(cache, begin, count, sums);
            __syncthreads();  // the weights have been read
        }
        const PerHead totals = block_reduce<THREADS>(weights, Add{});
#pragma unroll
        for (int h = 0; h < GROUP; ++h) stats[h] = {softmax[h].max, totals.v[h]};
        join(sums);
    }

    /// Writes the result where the range was the sequence's only one. out: GROUP rows of HEAD.
    __device__ __forceinline__ void write(T* out) const {
#pragma unroll
        for (int step = 0; step < kResults; ++step) {
            const int i = step * THREADS + thread_;
            if (i < GROUP * HEAD) out[i] = T(result[step] / sum_of(i / HEAD));
        }
    }

    /// Leaves the result of range `range` of `ranges` behind; the last block to do so merges them all, in
    /// their order. partials: [ranges, GROUP, HEAD]; partial_stats: [ranges, GROUP, 2]; ticket: zero, and so
    /// again after.
    __device__ __forceinline__ void merge(T* out, int range, int ranges, float* partials,
                                          float* partial_stats, unsigned* ticket) const {
        float* const mine = partials + static_cast<i64>(range) * (GROUP * HEAD);
#pragma unroll
        for (int step = 0; step < kResults; ++step) {
            const int i = step * THREADS + thread_;
            if (i < GROUP * HEAD) mine[i] = result[step];
        }
        if (thread_ == 0) {
#pragma unroll
            for (int h = 0; h < GROUP; ++h) {
                partial_stats[(range * GROUP + h) * 2] = stats[h].max;
                partial_stats[(range * GROUP + h) * 2 + 1] = stats[h].sum;
            }
        }
        if (!is_last_block(ticket, static_cast<unsigned>(ranges))) return;
        for (int i = thread_; i < GROUP * HEAD; i += THREADS) {
            const float* const of_head = partial_stats + i / HEAD * 2;
            float largest = kMinusInfinity;
            for (int r = 0; r < ranges; ++r) largest = fmaxf(largest, of_head[r * GROUP * 2]);
            float sum = 0.0f, value = 0.0f;
            for (int r = 0; r < ranges; ++r) {
                const float scale = fast_exp2(of_head[r * GROUP * 2] - largest);
                sum += scale * of_head[r * GROUP * 2 + 1];
                value += scale * partials[static_cast<i64>(r) * (GROUP * HEAD) + i];
            }
            out[i] = T(value / sum);
        }
    }

  private:
    static constexpr int kResults = (GROUP * HEAD + THREADS - 1) / THREADS;

    struct PerHead {
        float v[GROUP];
    };
    struct Larger {
        __device__ __forceinline__ PerHead operator()(PerHead a, const PerHead& b) const {
#pragma unroll
            for (int h = 0; h < GROUP; ++h) a.v[h] = fmaxf(a.v[h], b.v[h]);
            return a;
        }
    };
    struct Add {
        __device__ __forceinline__ PerHead operator()(PerHead a, const PerHead& b) const {
#pragma unroll
            for (int h = 0; h < GROUP; ++h) a.v[h] += b.v[h];
            return a;
        }
    };
    struct Halves {
        Vec<T, kVec> part[2];
    };

    /// This thread's columns are 8 from each half of a row.
    __device__ __forceinline__ int col(int side) const { return side * (HEAD / 2) + thread_ % kLanes * kVec; }

    __device__ __forceinline__ Halves load_row(const T* pool, const PagedCache<T>& cache, int token) const {
        const i64 page = static_cast<i64>(cache.page_table[token / PAGE]) * cache.kv_heads + cache.kv_head;
        const T* const row = pool + (page * PAGE + token % PAGE) * HEAD;
        return {{load<kVec>(row + col(0)), load<kVec>(row + col(1))}};
    }

    /// Fills scores_[head][token of the chunk]; returns the largest of those that this thread has seen.
    __device__ __forceinline__ PerHead compute_scores(const PagedCache<T>& cache, int begin, int count) {
        PerHead largest;
#pragma unroll
        for (int h = 0; h < GROUP; ++h) largest.v[h] = kMinusInfinity;
#pragma unroll 1
        for (int first = 0; first < count; first += kTokens * kUnrollScores) {
            Halves keys[kUnrollScores];
#pragma unroll
            for (int t = 0; t < kUnrollScores; ++t) {
                // Behind the end the last token is read again, and its score dropped.
                const int token = first + t * kTokens + thread_ / kLanes;
                keys[t] = load_row(cache.k, cache, begin + (token < count ? token : count - 1));
            }
#pragma unroll
            for (int h = 0; h < GROUP; ++h) {
                float dots[kUnrollScores] = {};
#pragma unroll
                for (int side = 0; side < 2; ++side) {
#pragma unroll
                    for (int i = 0; i < kVec; i += 4) {
                        const auto q = load<4>(query_ + h * HEAD + col(side) + i);
#pragma unroll
                        for (int t = 0; t < kUnrollScores; ++t) {
#pragma unroll
                            for (int e = 0; e < 4; ++e)
                                dots[t] += q[e] * static_cast<float>(keys[t].part[side][i + e]);
                        }
                    }
                }
#pragma unroll
                for (int t = 0; t < kUnrollScores; ++t) {
                    const float score = warp_reduce<kLanes>(dots[t], Sum{});
                    const int token = first + t * kTokens + thread_ / kLanes;
                    if (token < count) {
                        largest.v[h] = fmaxf(largest.v[h], score);
                        if (thread_ % kLanes == h % kLanes) scores_[h * CHUNK + token] = score;
                    }
                }
            }
        }
        return largest;
    }

    __device__ __forceinline__ void add_values(const PagedCache<T>& cache, int begin, int count,
                                               float (&sums)[GROUP][2][kVec]) {
#pragma unroll 1
        for (int first = 0; first < count; first += kTokens * kUnroll) {
            Halves values[kUnroll];
#pragma unroll
            for (int t = 0; t < kUnroll; ++t) {
                // Behind the end the last token is read again; its weight there is 0.
                const int token = first + t * kTokens + thread_ / kLanes;
                values[t] = load_row(cache.v, cache, begin + (token < count ? token : count - 1));
            }
#pragma unroll
            for (int t = 0; t < kUnroll; ++t) {
                const int token = first + t * kTokens + thread_ / kLanes;
#pragma unroll
                for (int h = 0; h < GROUP; ++h) {
                    const float weight = scores_[h * CHUNK + token];
#pragma unroll
                    for (int i = 0; i < 2 * kVec; ++i)
                        sums[h][i / kVec][i % kVec] +=
                            weight * static_cast<float>(values[t].part[i / kVec][i % kVec]);
                }
            }
        }
    }

    /// Joins the sums of all groups of lanes: those of a warp by shuffles, those of the warps in their order
    /// through shared memory.
    __device__ __forceinline__ void join(float (&sums)[GROUP][2][kVec]) {
        float* const parts = scores_ + thread_ / kWarpSize * (GROUP * HEAD);
#pragma unroll
        for (int h = 0; h < GROUP; ++h) {
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                Vec<float, 4> joined[2];
#pragma unroll
                for (int i = 0; i < kVec; ++i) {
                    float sum = sums[h][side][i];
#pragma unroll
                    for (int distance = kWarpSize / 2; distance >= kLanes; distance /= 2)
                        sum += shuffle_xor(sum, distance);
                    joined[i / 4][i % 4] = sum;
                }
                if (thread_ % kWarpSize < kLanes) {
                    store(parts + h * HEAD + col(side), joined[0]);
                    store(parts + h * HEAD + col(side) + 4, joined[1]);
                }
            }
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < kResults; ++step) {
            const int i = step * THREADS + thread_;
            result[step] = 0.0f;
            if (i >= GROUP * HEAD) continue;
            for (int warp = 0; warp < warps_of(THREADS); ++warp)
                result[step] += scores_[warp * (GROUP * HEAD) + i];
        }
    }

    /// A choice instead of an index, which would put stats into memory.
    __device__ __forceinline__ float sum_of(int head) const {
        float sum = stats[0].sum;
#pragma unroll
        for (int h = 1; h < GROUP; ++h) sum = head == h ? stats[h].sum : sum;
        return sum;
    }

    float* query_;   // [GROUP, HEAD]
    float* scores_;  // [GROUP, CHUNK], later [warps, GROUP, HEAD]
    int thread_;

    float result[kResults];
    Stats stats[GROUP];
};

}  // namespace kiln
