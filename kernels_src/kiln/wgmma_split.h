// SPDX-License-Identifier: Apache-2.0
//
// Split-K of a GEMM on Hopper's tensor cores: the blocks of a cluster, and several clusters, each take a part of the steps
// of k of one tile of C. The accumulators of a cluster are added out of each other's shared memory. Each cluster
// then leaves its sums in global memory, and the last to end adds them. Both in the order of k, so that equal inputs give
// equal bits.
//   kiln::WgmmaSplit    which part a block has; its accumulators to C
// A template that uses it has the parameters SPLIT_K, the blocks of a cluster, and SPLIT_CLUSTERS, and as scratch memory
// tickets [tiles, SPLIT_K] = 0 and partial [SPLIT_CLUSTERS, tiles, BM * BN] if SPLIT_CLUSTERS > 1. Its grid has
// tiles * SPLIT_K * SPLIT_CLUSTERS blocks.
#pragma once

#include "kiln/gemm_wgmma.h"

namespace kiln {

/// Leaves the accumulators of THREADS threads in shared memory, 16 bytes per thread and 8 columns, in the order of the
/// columns: without bank conflicts, and only for the same thread of any block of the cluster.
template <int THREADS, int N>
__device__ __forceinline__ void share_accumulators(const WgmmaAccumulator<N>& accumulator,
                                                   Vec<float, 4>* shared, unsigned thread) {
#pragma unroll
    for (int i = 0; i < N / 8; ++i) {
        shared[i * THREADS + thread] = {{accumulator(0, i * 2), accumulator(0, i * 2 + 1),
                                         accumulator(1, i * 2), accumulator(1, i * 2 + 1)}};
    }
}

/// Adds COUNT parts of the accumulators of THREADS threads, in their order, in N / SPLIT of the columns, and hands each sum
/// that lies in C to visit(sum, at, row, column): that of two neighbours in a row, and of those 8 rows below. load(i, at):
/// what part i has at place `at` of share_accumulators. `part`: which columns, counted in such parts.
template <int COUNT, int SPLIT, int THREADS, int N, class Load, class Visit>
__device__ __forceinline__ void for_each_sum(unsigned thread, unsigned part, int m, int n, unsigned first_row,
                                             unsigned first_column, unsigned lane, const Load& load,
                                             const Visit& visit) {
    constexpr int kPieces = N / SPLIT / 8;
    const i64 row = static_cast<i64>(first_row) + lane / 4;
    // Who stores nothing reads nothing: it would not wait for the values, and the block that they come from could end
    // before they are read.
    if (row >= m) return;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const i64 column = static_cast<i64>(first_column) + (part * kPieces + i) * 8 + lane % 4 * 2;
        if (column >= n) continue;
        const unsigned at = (part * kPieces + i) * THREADS + thread;
        Vec<float, 4> parts[COUNT];
#pragma unroll
        for (unsigned j = 0; j < COUNT; ++j) parts[j] = load(j, at);
        Vec<float, 4> total = parts[0];
#pragma unroll
        for (int j = 1; j < COUNT; ++j) {
#pragma unroll
            for (int v = 0; v < 4; ++v) total[v] += parts[j][v];
        }
        visit(total, at, row, column);
    }
}

/// True in all of THREADS threads, whole warps that meet at named barrier 1, of the last of `count` blocks that call it
/// with this ticket; see kiln/last_block.h, which asks all threads of a block. flag: shared memory.
template <int THREADS>
__device__ __forceinline__ bool is_last_to_join(unsigned* ticket, unsigned count, unsigned* flag,
                                                unsigned thread) {
    __threadfence();
    named_barrier_sync(1, THREADS);
    if (thread == 0) {
        const unsigned arrived = atomicAdd(ticket, 1u);
        if (arrived == count - 1) *ticket = 0;
        *flag = arrived;
    }
    named_barrier_sync(1, THREADS);
    const bool is_last = *flag == count - 1;
    if (is_last) __threadfence();
    return is_last;
}

/// Steps of k.
struct StepRange {
    unsigned first, count;
};

/// A tile of BM x BN, multiplied by CONSUMERS warpgroups.
template <int BM, int BN, int SPLIT_K, int SPLIT_CLUSTERS, int CONSUMERS>
class WgmmaSplit {
    static constexpr int kThreads = CONSUMERS * 128;
    static constexpr int kCount = BM / CONSUMERS / 64;  ///< accumulators of a thread
    static constexpr int kPlaces = BN / 8 * kThreads;   ///< of share_accumulators
    using Sums = Vec<float, 4>;

  public:
    /// The blocks of a cluster; on the host, where a cluster is one block, it takes the cluster's part.
    static constexpr unsigned kBlocks = kHasClusters ? SPLIT_K : 1;
    static constexpr bool kJoins = SPLIT_CLUSTERS > 1;      ///< the sums of several clusters
    static constexpr bool kShares = kBlocks > 1 || kJoins;  ///< a tile with other blocks

    /// False for a block without a part of a tile. flag: 4 bytes of shared memory.
    template <class Tiles>
    __device__ __forceinline__ bool start(const Tiles& tiles, float* partial, unsigned* tickets, void* flag) {
        if constexpr (kShares) rank_ = kBlocks > 1 ? cluster_rank() : 0;
        if constexpr (kJoins) {
            const unsigned index = blockIdx.x / kBlocks;
            tile_ = index % tiles.count();
            cluster_ = index / tiles.count();
            if (cluster_ >= SPLIT_CLUSTERS) return false;
            sums_ = reinterpret_cast<Sums*>(partial) + static_cast<i64>(tile_) * (BM * BN / 4);
            step_ = static_cast<i64>(tiles.count()) * (BM * BN / 4);
            ticket_ = tickets + tile_ * SPLIT_K + rank_;
            flag_ = static_cast<unsigned*>(flag);
        }
        return true;
    }
    /// This block's. steps: less than 2^32 / kParts.
    __device__ __forceinline__ StepRange part_of(unsigned steps) const {
        if constexpr (!kShares) return {0, steps};
        constexpr unsigned kParts = kBlocks * SPLIT_CLUSTERS;
        const unsigned part = cluster_ * kBlocks + rank_;
        const unsigned first = steps * part / kParts;
        return {first, steps * (part + 1) / kParts - first};
    }
    template <class Tiles>
    __device__ __forceinline__ Tiles tiles_of(Tiles tiles) const {
        if constexpr (kJoins) tiles.start_at(tile_);
        return tiles;
    }

    /// By all consumers, of which none has a wgmma under way: leaves their accumulators in shared memory, in place of the
    /// stages. `thread` counts the consumers' threads. is_empty: the part has no steps.
    template <int COUNT>
    __device__ __forceinline__ void share(WgmmaAccumulator<BN> (&accumulators)[COUNT], bool is_empty,
                                          unsigned char* shared, unsigned thread) const {
        // Once all consumers are here, nobody reads the stages any more, and no load is under way.
        named_barrier_sync(1, kThreads);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
#pragma unroll
            for (int j = 0; j < BN / 2; ++j)
                if (is_empty) accumulators[i].values[j] = 0;
            share_accumulators<kThreads>(accumulators[i],
                                         reinterpret_cast<Sums*>(shared) + i * (BN / 8) * kThreads, thread);
        }
    }

    /// Adds what the blocks of the cluster and the clusters left, and stores this block's part of the columns. By the
    /// consumers, when all blocks of the cluster have called share().
    template <bool PAIRS, class Tiles, class OUT, class Epilogue>
    __device__ __forceinline__ void reduce(const unsigned char* shared, Tiles tiles, unsigned consumer,
                                           unsigned thread, OUT* c, int m, const Epilogue& epilogue) const {
        const unsigned warp = threadIdx.x / 32 % 4;
        const unsigned lane = threadIdx.x % 32;
        if (!tiles.advance()) return;
        const auto store = [&](float first, float second, i64 row, i64 column) {
            if constexpr (!Epilogue::kIsNone) epilogue.template apply<PAIRS>(first, second, row, column);
            store_pair<PAIRS>(c, epilogue.n, first, second, row, column);
        };
        const auto finish = [&](const Sums& sum, i64 row, i64 column) {
            store(sum[0], sum[1], row, column);
            if (row + 8 < m) store(sum[2], sum[3], row + 8, column);
        };
        const auto first_row = [&](int i) { return tiles.row + ((consumer * kCount + i) * 4 + warp) * 16; };
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const auto* const left = reinterpret_cast<const Sums*>(shared) + i * kPlaces;
            for_each_sum<static_cast<int>(kBlocks), static_cast<int>(kBlocks), kThreads, BN>(
                thread, cluster_rank(), m, epilogue.n, first_row(i), tiles.column, lane,
                [&](unsigned rank, unsigned at) { return load_shared_cluster(left + at, rank); },
                [&](const Sums& sum, unsigned at, i64 row, i64 column) {
                    if constexpr (kJoins)
                        sums_[cluster_ * step_ + i * kPlaces + at] = sum;
                    else
                        finish(sum, row, column);
                });
        }
        if constexpr (kJoins) {
            if (!is_last_to_join<kThreads>(ticket_, SPLIT_CLUSTERS, flag_, thread)) return;
#pragma unroll
            for (int i = 0; i < kCount; ++i)
                for_each_sum<SPLIT_CLUSTERS, static_cast<int>(kBlocks), kThreads, BN>(
                    thread, cluster_rank(), m, epilogue.n, first_row(i), tiles.column, lane,
                    [&](unsigned cluster, unsigned at) { return sums_[cluster * step_ + i * kPlaces + at]; },
                    [&](const Sums& sum, unsigned, i64 row, i64 column) { finish(sum, row, column); });
        }
    }

  private:
    Sums* sums_ = nullptr;  ///< in global memory, of this tile and the first cluster that has a part of it
    i64 step_ = 0;          ///< to those of the next
    unsigned rank_ = 0, cluster_ = 0, tile_ = 0;
    unsigned* ticket_ = nullptr;
    unsigned* flag_ = nullptr;
};

}  // namespace kiln
