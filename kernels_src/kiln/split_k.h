// SPDX-License-Identifier: Apache-2.0
//
// GEMMs whose tiles are shared by SPLIT_K blocks, each for a part of k:
//   kiln::SplitTile      a block's tile of C and its part of k. Blocks leave their sums in global memory, and the last one to
//                        end adds them in the order of k, so that equal inputs give equal bits
//   kiln::StagedValues   elements of a small matrix on their way to shared memory, where they are floats
#pragma once

#include "kiln/last_block.h"

namespace kiln {

/// ROWS x COLUMNS elements of C, which is m x n, row-major. The grid is a line of tiles times SPLIT_K, since its y and z extents
/// could not hold every m. partial: SPLIT_K * ROWS * COLUMNS elements for each tile; tickets: one for each, zero at first.
template <int SPLIT_K, int ROWS, int COLUMNS>
class SplitTile {
  public:
    __device__ __forceinline__ SplitTile(int m, int n, float* c, float* partial, unsigned* tickets)
        : m_(m), n_(n), c_(c) {
        const unsigned across = ceil_div(static_cast<unsigned>(n), static_cast<unsigned>(COLUMNS));
        const unsigned count = across * ceil_div(static_cast<unsigned>(m), static_cast<unsigned>(ROWS));
        const unsigned tile = blockIdx.x % count;
        split_ = static_cast<int>(blockIdx.x / count);
        row_ = static_cast<int>(tile / across) * ROWS;
        column_ = static_cast<int>(tile % across) * COLUMNS;
        all_ = partial + static_cast<i64>(tile) * SPLIT_K * (ROWS * COLUMNS);
        ticket_ = tickets + tile;
    }

    /// The tile's first row and column.
    __device__ __forceinline__ int row() const { return row_; }
    __device__ __forceinline__ int column() const { return column_; }

    /// Steps of k of this block: a multiple of `step` but for the end of k. The last blocks may have none.
    struct Part {
        int begin, end;
    };
    __device__ __forceinline__ Part part_of(int k, int step) const {
        const i64 part = static_cast<i64>((k - 1) / step / SPLIT_K + 1) * step;
        const i64 begin = min(split_ * part, static_cast<i64>(k));
        return {static_cast<int>(begin), static_cast<int>(min(begin + part, static_cast<i64>(k)))};
    }

    /// The block's sum for an element of the tile, which may lie outside of C.
    __device__ __forceinline__ void put(int row, int column, float sum) const {
        if constexpr (SPLIT_K > 1)
            all_[split_ * (ROWS * COLUMNS) + row * COLUMNS + column] = sum;
        else
            store(row, column, sum);
    }
    /// Behind the last put() of all THREADS threads of the block.
    template <int THREADS>
    __device__ __forceinline__ void join(int thread) const {
        if constexpr (SPLIT_K > 1) {
            if (!is_last_block(ticket_, SPLIT_K)) return;
            for (int i = thread; i < ROWS * COLUMNS; i += THREADS) {
                float sum = 0.0f;
#pragma unroll
                for (int s = 0; s < SPLIT_K; ++s) sum += all_[s * (ROWS * COLUMNS) + i];
                store(i / COLUMNS, i % COLUMNS, sum);
            }
        }
    }

  private:
    __device__ __forceinline__ void store(int row, int column, float sum) const {
        if (row_ + row < m_ && column_ + column < n_)
            c_[static_cast<i64>(row_ + row) * n_ + column_ + column] = sum;
    }

    int m_, n_;
    int split_, row_, column_;
    float* c_;
    float* all_;
    unsigned* ticket_;
};

/// COUNT elements, distributed over THREADS threads.
template <class T, int COUNT, int THREADS>
class StagedValues {
  public:
    /// value_of(element): read from global memory.
    template <class Source>
    __device__ __forceinline__ void fetch(int thread, Source value_of) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) values_[i] = value_of(thread + i * THREADS);
    }
    /// place_of(element): where it goes.
    template <class Place>
    __device__ __forceinline__ void store(int thread, Place place_of) const {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            const int element = thread + i * THREADS;
            if (COUNT % THREADS == 0 || element < COUNT) *place_of(element) = static_cast<float>(values_[i]);
        }
    }

  private:
    static constexpr int kEach = (COUNT + THREADS - 1) / THREADS;

    T values_[kEach];
};

}  // namespace kiln
