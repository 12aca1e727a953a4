// SPDX-License-Identifier: Apache-2.0
//
// AsyncTile: a tile of a row-major matrix on its way into shared memory, VEC elements per copy, in any layout of
// kiln/tile_layout.h, with zeros beyond the matrix. Offered: a loader per thread that takes one tile after the
// other. Pipelining (how many tiles are under way) is the kernel's.
#pragma once

#include "kiln/any_piece.h"
#include "kiln/async.h"
#include "kiln/tile_layout.h"

namespace kiln {

/// ROWS rows of Layout::kCols elements, in chunks of VEC. Layout: a TileLayout whose rows and groups are whole chunks.
template <class T, int ROWS, class Layout, int VEC, int THREADS>
class AsyncTile {
  public:
    static constexpr int kChunks = Layout::kCols / VEC;  ///< per row
    static constexpr int kElements = ROWS * Layout::kPitch;
    static constexpr int kCopies = (ROWS * kChunks + THREADS - 1) / THREADS;  ///< of a thread, per tile

    static_assert(Layout::kCols % VEC == 0 && Layout::kPitch % VEC == 0, "rows consist of whole chunks");
    static_assert(Layout::kPeriod == 1 || Layout::kGroup % VEC == 0, "a swizzle would tear chunks");

    /// Where the chunk of row `row` lies, in elements from the tile's start.
    static __device__ __forceinline__ constexpr int at(int row, int chunk) {
        return Layout::at(row, chunk * VEC);
    }

    /// One thread's part in loading tiles.
    class Loader {
      public:
        /// corner: the first tile's first element. Where its row pitch (in elements) or its address
        /// forbids copies of VEC elements, they pass through registers, and not asynchronously: pieces of 16
        /// bytes as in AnyPiece, smaller ones element by element.
        __device__ __forceinline__ Loader(const T* corner, i64 pitch, int thread)
            : from_(corner + thread / kChunks * pitch + thread % kChunks * VEC),
              step_(kRowsPerStep * pitch),
              begin_(reinterpret_cast<u64>(corner)),
              row_(thread / kChunks),
              chunk_(thread % kChunks),
              aligned_(pitch % VEC == 0 && reinterpret_cast<u64>(corner) % (VEC * sizeof(T)) == 0) {}

        /// Begins to load the tile; rows, cols: how much of the matrix is left from its corner on, 0 or less
        /// for nothing.
        template <class Copies>
        __device__ __forceinline__ void load(Copies& copies, T* tile, int rows, int cols) const {
            const int left = cols - chunk_ * VEC;
            const int most = left < 0 ? 0 : left < VEC ? left : VEC;
            if (aligned_) {
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    const int row = row_ + step * kRowsPerStep;
                    if (!kIsWhole && row >= ROWS) break;
                    copies.template copy<VEC>(tile + at(row, chunk_), from_ + step * step_,
                                              row < rows ? most : 0);
                }
            } else if constexpr (VEC * sizeof(T) == 16) {
                load_pieces(tile, rows, most, left);
            } else {
#pragma unroll 1
                for (int step = 0; step < kSteps; ++step) {
                    const int row = row_ + step * kRowsPerStep;
                    if (!kIsWhole && row >= ROWS) break;
                    const int there = row < rows ? most : 0;
                    Vec<T, VEC> values = {};
#pragma unroll
                    for (int i = 0; i < VEC; ++i)
                        if (i < there) values[i] = from_[step * step_ + i];
                    store(tile + at(row, chunk_), values);
                }
            }
        }

        /// Whether copies of VEC elements are allowed.
        __device__ __forceinline__ bool is_aligned() const { return aligned_; }

        /// Begins to load a tile that lies inside the matrix, when is_aligned(): with less to compute.
        template <class Copies>
        __device__ __forceinline__ void load_whole(Copies& copies, T* tile) const {
            T* const to = tile + at(row_, chunk_);
            const T* from = from_;
#pragma unroll
            for (int step = 0; step < kSteps; ++step, from += step_) {
                if (!kIsWhole && row_ + step * kRowsPerStep >= ROWS) break;
                copies.template copy<VEC>(kStepsAlike ? to + step * kRowsPerStep * Layout::kPitch
                                                      : tile + at(row_ + step * kRowsPerStep, chunk_),
                                          from);
            }
        }

        /// Goes on to the tile that begins `elements` further.
        __device__ __forceinline__ void advance(i64 elements) { from_ += elements; }

      private:
        /// left: columns of the matrix from the thread's first on.
        __device__ __forceinline__ void load_pieces(T* tile, int rows, int most, int left) const {
            const i64 pitch = step_ / kRowsPerStep;
            const u64 end = reinterpret_cast<u64>(from_ + (rows - 1 - row_) * pitch + left);
#pragma unroll 1
            for (int step = 0; step < kSteps; step += kBatch) {
                AnyPiece<T> pieces[kBatch];
                const auto count_of = [&](int i) {
                    const int row = row_ + (step + i) * kRowsPerStep;
                    return row < rows && row < ROWS ? most : 0;
                };
                const T* const from = from_ + step * step_;
#pragma unroll
                for (int i = 0; i < kBatch; ++i) pieces[i].fetch(from + i * step_, count_of(i), begin_, end);
#pragma unroll
                for (int i = 0; i < kBatch; ++i) {
                    const int row = row_ + (step + i) * kRowsPerStep;
                    if ((kIsWhole && kSteps % kBatch == 0) || row < ROWS)
                        store(reinterpret_cast<unsigned*>(tile + at(row, chunk_)),
                              pieces[i].cut(from + i * step_, count_of(i)));
                }
            }
        }

        static_assert(THREADS % kChunks == 0, "a step of all threads takes whole rows");
        static constexpr int kRowsPerStep = THREADS / kChunks;
        static constexpr int kSteps = (ROWS + kRowsPerStep - 1) / kRowsPerStep;
        static constexpr bool kIsWhole = ROWS % kRowsPerStep == 0;
        static constexpr bool kStepsAlike = kRowsPerStep % Layout::kPeriod == 0;

        /// Pieces under way at a time.
        static constexpr int kBatch = kSteps < 2 ? kSteps : 2;

        const T* from_;
        i64 step_;
        u64 begin_;  ///< of what may be read
        int row_, chunk_;
        bool aligned_;
    };
};

}  // namespace kiln
