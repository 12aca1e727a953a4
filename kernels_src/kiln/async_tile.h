// SPDX-License-Identifier: Apache-2.0
//
// AsyncTile: a tile of a row-major matrix on its way into shared memory, VEC elements per copy, padded or
// swizzled, with zeros beyond the matrix. Offered: where its elements lie, and a loader per thread that takes
// one tile after the other. Pipelining (how many tiles are under way) is the kernel's.
#pragma once

#include "kiln/any_piece.h"
#include "kiln/async.h"

namespace kiln {

/// ROWS x COLS elements, COLS / VEC chunks per row. PAD: extra elements per row. SWIZZLE: chunks change
/// places within their row, by an XOR with the row, so that equal chunks of neighbouring rows lie in
/// different banks without padding; see at().
template <class T, int ROWS, int COLS, int VEC, int PAD, bool SWIZZLE, int THREADS>
class AsyncTile {
  public:
    static constexpr int kChunks = COLS / VEC;  ///< per row
    static constexpr int kPitch = COLS + PAD;
    static constexpr int kElements = ROWS * kPitch;
    static constexpr int kCopies = (ROWS * kChunks + THREADS - 1) / THREADS;  ///< of a thread, per tile

    static_assert(COLS % VEC == 0 && PAD % VEC == 0, "rows consist of whole chunks");
    static_assert(!SWIZZLE || (kChunks & (kChunks - 1)) == 0, "an XOR needs a power of two of chunks");

    /// Where the chunk of row `row` lies, in elements from the tile's start. A line is what all banks give at
    /// once, 128 bytes. Rows that share a line must not differ in their XOR, or they would gain nothing; rows
    /// of a line or more run through the chunks of one line.
    static __device__ __forceinline__ constexpr int at(int row, int chunk) {
        constexpr int kChunksPerLine = 128 / (VEC * static_cast<int>(sizeof(T)));
        constexpr int kRowsPerLine = kChunks < kChunksPerLine ? kChunksPerLine / kChunks : 1;
        constexpr int kMask = (kChunks < kChunksPerLine ? kChunks : kChunksPerLine) - 1;
        return row * kPitch + (SWIZZLE ? chunk ^ (row / kRowsPerLine & kMask) : chunk) * VEC;
    }
    /// After so many rows the XOR repeats.
    static constexpr int kSwizzleRows = 128 / (VEC * static_cast<int>(sizeof(T)));
    /// Where an element lies.
    static __device__ __forceinline__ constexpr int element(int row, int col) {
        return at(row, col / VEC) + col % VEC;
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
                copies.template copy<VEC>(kStepsAlike ? to + step * kRowsPerStep * kPitch
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
        static constexpr bool kStepsAlike = !SWIZZLE || kRowsPerStep % kSwizzleRows == 0;

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
