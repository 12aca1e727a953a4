// SPDX-License-Identifier: Apache-2.0
//
// How the elements of a tile lie in shared memory, row after row:
//   kiln::TileLayout<COLS>                    without gaps
//   kiln::TileLayout<COLS, PAD>               PAD elements behind each row
//   kiln::TileLayout<COLS, 0, SWIZZLE>        groups of columns change places within their row
//   kiln::Swizzle<GROUP, ROWS, ORDERS>        which ones do: by an XOR with the row
//   kiln::LineSwizzle<T, COLS, VEC>           the one for reads of VEC elements down a column
//   Layout::at(row, col)                      where an element is, counted in elements from the tile's start
// Shared memory has 32 banks of 4 bytes: a line of 128 bytes. Threads that read a column meet one bank where rows are a
// multiple of a line; either a padding or a swizzle spreads them over all of them, and the swizzle costs no memory.
#pragma once

#include "kiln/device.h"

namespace kiln {

/// GROUP columns keep together. ROWS rows after each other have the same order of their groups; after ORDERS of them the
/// first order comes again. Powers of two; the columns are a multiple of GROUP * ORDERS.
template <int GROUP, int ROWS, int ORDERS>
struct Swizzle {
    static_assert(GROUP > 0 && ROWS > 0 && ORDERS > 0, "");
    static_assert((GROUP & (GROUP - 1)) == 0 && (ROWS & (ROWS - 1)) == 0 && (ORDERS & (ORDERS - 1)) == 0,
                  "an XOR needs powers of two");
    static constexpr int kGroup = GROUP;
    static constexpr int kOrders = ORDERS;
    static constexpr int kPeriod = ROWS * ORDERS;  ///< rows that differ by it are swizzled alike

    /// The number of a group is XORed with it to find the group's place in the row.
    template <class Index>
    static __host__ __device__ __forceinline__ constexpr Index order(Index row) {
        return row / ROWS & (ORDERS - 1);
    }
};
using NoSwizzle = Swizzle<1, 1, 1>;

template <bool SWIZZLED, int GROUP, int ROWS, int ORDERS>
struct SwizzleIf {
    using Type = Swizzle<GROUP, ROWS, ORDERS>;
};
template <int GROUP, int ROWS, int ORDERS>
struct SwizzleIf<false, GROUP, ROWS, ORDERS> {
    using Type = NoSwizzle;
};

/// For accesses of VEC elements, the same ones of neighbouring rows: vectors change places. Rows that share a line must not
/// differ in their order, or they would gain nothing; rows of a line or more run through the vectors of one line.
template <class T, int COLS, int VEC, bool SWIZZLED = true>
struct LineSwizzleOf {
    static constexpr int kVectors = COLS / VEC, kPerLine = 128 / (VEC * static_cast<int>(sizeof(T)));
    static constexpr int kOrders = kVectors < kPerLine ? kVectors : kPerLine;
    using Type = typename SwizzleIf<SWIZZLED, VEC, kPerLine / kOrders, kOrders>::Type;
};
template <class T, int COLS, int VEC, bool SWIZZLED = true>
using LineSwizzle = typename LineSwizzleOf<T, COLS, VEC, SWIZZLED>::Type;

template <int COLS, int PAD = 0, class SWIZZLE = NoSwizzle>
struct TileLayout {
    static_assert(COLS % (SWIZZLE::kGroup * SWIZZLE::kOrders) == 0, "a swizzled group would leave its row");
    static constexpr int kCols = COLS;
    static constexpr int kPitch = COLS + PAD;  ///< elements from one row to the next
    static constexpr int kPeriod = SWIZZLE::kPeriod;
    static constexpr int kGroup = SWIZZLE::kGroup;

    template <class Index>
    static __host__ __device__ __forceinline__ constexpr Index at(Index row, Index col) {
        return row * kPitch + (col ^ SWIZZLE::order(row) * SWIZZLE::kGroup);
    }
    /// The first element of a group of columns; without a swizzle a group is a column.
    template <class Index>
    static __host__ __device__ __forceinline__ constexpr Index group_at(Index row, Index group) {
        return row * kPitch + (group ^ SWIZZLE::order(row)) * SWIZZLE::kGroup;
    }
};

}  // namespace kiln
