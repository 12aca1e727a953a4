// SPDX-License-Identifier: Apache-2.0
//
// AnyTile: a tile of a row-major matrix of 16-bit elements whose rows begin at any element, by plain loads
// into shared memory, in the layout that TMA gives with a swizzle of 128 bytes. Offered: load(), by THREADS
// threads. Who waits for whom is the kernel's.
// Nothing outside the matrix is read.
#pragma once

#include "kiln/any_piece.h"
#include "kiln/tma.h"

namespace kiln {

/// A matrix of rows x cols, row-major and without gaps.
template <class T>
struct AnyMatrix {
    const T* first;
    int rows, cols;
};

/// ROWS x COLS elements, COLS a multiple of 64: slices of 64 columns, each ROWS rows of 128 bytes, from
/// a multiple of 1024 bytes on.
template <class T, int ROWS, int COLS, int THREADS>
class AnyTile {
    static_assert(sizeof(T) == 2 && COLS % 64 == 0, "");

  public:
    /// The tile that begins at `row` and `column`; zeros outside the matrix. `thread`: from 0 on.
    static __device__ __forceinline__ void load(unsigned char* tile, const AnyMatrix<T>& matrix, i64 row,
                                                i64 column, int thread) {
        const u64 begin = reinterpret_cast<u64>(matrix.first);
        const u64 end = begin + static_cast<u64>(matrix.rows) * matrix.cols * sizeof(T);
        const T* const corner = matrix.first + row * matrix.cols + column;
        const bool is_inside =
            row + ROWS <= matrix.rows && column + COLS <= matrix.cols &&
            AnyPiece<T>::may_fetch_whole(corner, corner + static_cast<i64>(ROWS - 1) * matrix.cols + COLS - 8,
                                         begin, end);
        const int first_row = thread / kPiecesPerRow, piece = thread % kPiecesPerRow;
        if (first_row >= kRowsPerPass) return;
        const T* from = corner + static_cast<i64>(first_row) * matrix.cols + piece * 8;
        const i64 pass = static_cast<i64>(kRowsPerPass) * matrix.cols;
        i64 left = matrix.cols - column - piece * 8;
        const int count = left < 0 ? 0 : left < 8 ? static_cast<int>(left) : 8;
        unsigned char* const slice = tile + piece / 8 * (ROWS * 128);
#pragma unroll 1
        for (int at = first_row; at < ROWS; at += kBatch * kRowsPerPass, from += kBatch * pass) {
            // All loads of a batch are under way before the first is waited for.
            AnyPiece<T> pieces[kBatch];
            const auto place = [&](int i) {
                return reinterpret_cast<unsigned*>(slice + swizzled(at + i * kRowsPerPass, piece % 8 * 16));
            };
            if (is_inside) {
#pragma unroll
                for (int i = 0; i < kBatch; ++i)
                    if (kIsWhole || at + i * kRowsPerPass < ROWS) pieces[i].fetch_whole(from + i * pass);
#pragma unroll
                for (int i = 0; i < kBatch; ++i)
                    if (kIsWhole || at + i * kRowsPerPass < ROWS) store(place(i), pieces[i].cut());
                continue;
            }
            const auto count_of = [&](int i) {
                return row + at + i * kRowsPerPass < matrix.rows ? count : 0;
            };
#pragma unroll
            for (int i = 0; i < kBatch; ++i) pieces[i].fetch(from + i * pass, count_of(i), begin, end);
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
                if (kIsWhole || at + i * kRowsPerPass < ROWS)
                    store(place(i), pieces[i].cut(from + i * pass, count_of(i)));
        }
    }

  private:
    static constexpr int kPiecesPerRow = COLS / 8;
    static constexpr int kRowsPerPass = THREADS / kPiecesPerRow;  ///< threads that are too many rest
    static constexpr int kPasses = (ROWS + kRowsPerPass - 1) / kRowsPerPass;
    static constexpr int kBatch = kPasses < 8 ? kPasses : 8;
    static constexpr bool kIsWhole = ROWS % (kBatch * kRowsPerPass) == 0;
};

}  // namespace kiln
