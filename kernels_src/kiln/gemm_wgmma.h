// SPDX-License-Identifier: Apache-2.0
//
// Parts of a GEMM on Hopper's tensor cores that do not depend on how its operands arrive:
//   kiln::ClusterTiles   which tiles of C a block computes, one after the other
//   kiln::multiply_stage the wgmma of a warpgroup for a stage
//   kiln::store_zeros    C where k is 0
//   kiln::store_accumulators, store_accumulators_by_tma, store_accumulators_by_rows    registers to global memory
//   kiln::share_accumulators, store_reduced_accumulators    split-K: the sum over the blocks of a cluster
// The pipeline, its producers and its consumers are the kernel's.
#pragma once

#include "kiln/raster.h"
#include "kiln/tma.h"
#include "kiln/wgmma.h"

namespace kiln {

/// The tiles of C, BM x BN, of a persistent block. A cluster computes DOWN x RIGHT tiles at a time, the ranks of its
/// blocks running down first; all of them take the same steps. With SPLIT > 1 it computes one tile, of which each block
/// takes a part of k. GROUP: see kiln/raster.h; it counts clusters.
template <int BM, int BN, unsigned DOWN, unsigned RIGHT, unsigned SPLIT, unsigned GROUP>
class ClusterTiles {
  public:
    static constexpr unsigned kBlocks = DOWN * RIGHT * SPLIT;  ///< of a cluster
    static_assert(SPLIT == 1 || DOWN * RIGHT == 1, "a cluster shares operands or a tile");

    // The tile's first; past the last of C in the last blocks of a cluster. What passes 2^31 then is
    // negative as an int, which is outside of C as well.
    unsigned row = 0;
    unsigned column = 0;

    __device__ __forceinline__ ClusterTiles(int m, int n)
        : down_(tiles_of(m, BM * DOWN)), across_(tiles_of(n, BN * RIGHT)), next_(blockIdx.x / kBlocks) {}

    __device__ __forceinline__ bool advance() {
        if (next_ >= down_ * across_) return false;
        const TileCoord cluster = rasterize<GROUP>(next_, down_, across_);
        row = static_cast<unsigned>(cluster.row) * DOWN;
        column = static_cast<unsigned>(cluster.col) * RIGHT;
        if constexpr (DOWN > 1) row += cluster_rank() % DOWN;
        if constexpr (RIGHT > 1) column += cluster_rank() / DOWN;
        row *= BM;
        column *= BN;
        next_ += gridDim.x / kBlocks;
        return true;
    }

  private:
    unsigned down_, across_, next_;
};

/// Starts to add the product of COUNT x 64 rows of a tile of A, from `a` on, with a tile of B, as a group. The
/// tiles are 64 deep: A's rows run along k, B's along n, in slices of 64 columns.
template <class T, int N, int COUNT>
__device__ __forceinline__ void multiply_stage(WgmmaAccumulator<N> (&c)[COUNT], const unsigned char* a,
                                               const unsigned char* b, unsigned slice_bytes,
                                               bool accumulate) {
    const u64 a_tile = wgmma_k_major(a), b_tile = wgmma_mn_major(b, slice_bytes);
    wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < 64; depth += 16) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            wgmma<T, false, true>(c[i],
                                  a_tile + wgmma_advance(i * 64 * 128 + depth * static_cast<int>(sizeof(T))),
                                  b_tile + wgmma_advance(depth * 128), depth != 0 || accumulate);
    }
    wgmma_commit();
}

/// C where there are no steps of k, by all threads of the grid.
__device__ __forceinline__ void store_zeros(float* c, int m, int n) {
    const i64 count = static_cast<i64>(m) * n, threads = static_cast<i64>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += threads) c[i] = 0;
}

/// Each element's place follows from wgmma_row and wgmma_column: a warp has 16 rows, and a thread two of them,
/// 8 apart, with two neighbouring columns out of each 8. n is even, and c aligned to 8 bytes.
template <int N>
__device__ __forceinline__ void store_accumulators(const WgmmaAccumulator<N>& accumulator, float* c, int m,
                                                   int n, unsigned first_row, unsigned first_column,
                                                   unsigned lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const i64 row = static_cast<i64>(first_row) + lane / 4 + half * 8;
        if (row >= m) continue;
        float* const c_row = c + row * n;
#pragma unroll
        for (int i = 0; i < accumulator.kCols; i += 2) {
            const i64 column = static_cast<i64>(first_column) + i * 4 + lane % 4 * 2;
            if (column < n)
                store(c_row + column, Vec<float, 2>{{accumulator(half, i), accumulator(half, i + 1)}});
        }
    }
}

constexpr int kStoreBoxRows = 16;
constexpr int kStoreBoxColumns = 32;
constexpr int kStoreBoxBytes = kStoreBoxRows * kStoreBoxColumns * 4;

/// Puts 32 of a warp's columns, `part` counts them, into a box of 16 x 32 in shared memory, as TMA swizzles it.
template <int N>
__device__ __forceinline__ void fill_store_box(const WgmmaAccumulator<N>& accumulator, unsigned char* box,
                                               int part, unsigned lane) {
    const unsigned row = lane / 4;
    // Lanes of odd rows write the third and fourth 8 columns when others write the first and second: with
    // the swizzle this makes the accesses of half a warp fall into different banks.
    const bool is_odd = row % 2 != 0;
#pragma unroll
    for (int eight = 0; eight < 4; ++eight) {
        const int col = (part * 4 + eight) * 2, swapped = (part * 4 + (eight ^ 2)) * 2;
        const unsigned byte = (is_odd ? eight ^ 2 : eight) * 32 + lane % 4 * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Vec<float, 2> pair = {
                {is_odd ? accumulator(half, swapped) : accumulator(half, col),
                 is_odd ? accumulator(half, swapped + 1) : accumulator(half, col + 1)}};
            *reinterpret_cast<Vec<float, 2>*>(box + swizzled(row + half * 8, byte)) = pair;
        }
    }
}

/// Through two boxes in shared memory, `staging`, while the accelerator still reads the other one. `next`: which
/// of them is next, 0 at first.
template <int N>
__device__ __forceinline__ void store_accumulators_by_tma(const WgmmaAccumulator<N>& accumulator,
                                                          const TensorMap& c_map, TmaStores& stores,
                                                          unsigned char* staging, unsigned& next,
                                                          unsigned first_row, unsigned first_column,
                                                          unsigned lane) {
#pragma unroll
    for (int part = 0; part < N / kStoreBoxColumns; ++part) {
        unsigned char* const box = staging + next * kStoreBoxBytes;
        if (lane == 0) stores.wait_read<1>();
        __syncwarp();
        fill_store_box(accumulator, box, part, lane);
        fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            stores.store(c_map, box, static_cast<int>(first_row),
                         static_cast<int>(first_column + part * kStoreBoxColumns));
            stores.commit();
        }
        next ^= 1u;
    }
}

/// Through a box in shared memory, row by row, to rows that begin at any float: whole sectors, but for a row's ends.
template <int N>
__device__ __forceinline__ void store_accumulators_by_rows(const WgmmaAccumulator<N>& accumulator,
                                                           unsigned char* box, float* c, int m, int n,
                                                           unsigned first_row, unsigned first_column,
                                                           unsigned lane) {
    const i64 left = m - static_cast<i64>(first_row);
    float* to = c + static_cast<i64>(first_row) * n + first_column + lane;
#pragma unroll
    for (int part = 0; part < N / kStoreBoxColumns; ++part, to += kStoreBoxColumns) {
        fill_store_box(accumulator, box, part, lane);
        __syncwarp();
        const bool is_inside = static_cast<i64>(first_column) + part * kStoreBoxColumns + lane < n;
        float* at = to;
#pragma unroll 4
        for (int row = 0; row < kStoreBoxRows; ++row, at += n) {
            const float value = *reinterpret_cast<const float*>(box + swizzled(row, lane * 4));
            if (is_inside && row < left) *at = value;
        }
        __syncwarp();
    }
}

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

/// Adds what SPLIT blocks of a cluster left for this thread in N / SPLIT of the columns, in the order of their
/// ranks, and stores it. `part`: which columns, counted in such parts.
template <int SPLIT, int THREADS, int N>
__device__ __forceinline__ void store_reduced_accumulators(const Vec<float, 4>* shared, unsigned thread,
                                                           unsigned part, float* c, int m, int n,
                                                           unsigned first_row, unsigned first_column,
                                                           unsigned lane) {
    constexpr int kPieces = N / SPLIT / 8;
    const i64 row = static_cast<i64>(first_row) + lane / 4;
    // Who stores nothing reads nothing: it would not wait for the values, and the block that they come from could end
    // before they are read.
    if (row >= m) return;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
        const i64 column = static_cast<i64>(first_column) + (part * kPieces + i) * 8 + lane % 4 * 2;
        if (column >= n) continue;
        const Vec<float, 4>* const from = shared + (part * kPieces + i) * THREADS + thread;
        Vec<float, 4> parts[SPLIT];
#pragma unroll
        for (unsigned rank = 0; rank < SPLIT; ++rank) parts[rank] = load_shared_cluster(from, rank);
        Vec<float, 4> total = parts[0];
#pragma unroll
        for (int rank = 1; rank < SPLIT; ++rank) {
#pragma unroll
            for (int j = 0; j < 4; ++j) total[j] += parts[rank][j];
        }
        store(c + row * n + column, Vec<float, 2>{{total[0], total[1]}});
        if (row + 8 < m) store(c + (row + 8) * n + column, Vec<float, 2>{{total[2], total[3]}});
    }
}

}  // namespace kiln
