// SPDX-License-Identifier: Apache-2.0
//
// The tile of C that a block of a one-dimensional grid computes.
//   kiln::block_tile<BM, BN>(block, n)   its corner; tiles follow each other along a row of C, which has n columns
//   kiln::store_strided                  writes a thread's results, which lie apart in the tile
// A grid is one-dimensional since its y and z extents could not hold every m. A kernel moves its pointers to the corner,
// so that no index passes 2^31.
#pragma once

#include "kiln/device.h"

namespace kiln {

struct BlockTile {
    int first_row, first_col;
};

template <int BM, int BN>
__device__ __forceinline__ BlockTile block_tile(unsigned block, int n) {
    const unsigned blocks_per_row = (static_cast<unsigned>(n) + BN - 1) / BN;
    return {static_cast<int>(block / blocks_per_row) * BM, static_cast<int>(block % blocks_per_row) * BN};
}

/// A thread's rows lie THREADS_Y apart, from y on; its columns in vectors of VEC, THREADS_X vectors apart, from vector x on.
/// c: the tile's corner. There are `rows` x `cols` elements of C from there on.
template <int THREADS_X, int THREADS_Y, int VEC, int TM, int TN>
__device__ __forceinline__ void store_strided(float* c, int n, int rows, int cols, int x, int y,
                                              const float (&sums)[TM][TN]) {
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int row = y + i * THREADS_Y;
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int col = j / VEC * VEC * THREADS_X + x * VEC + j % VEC;
            if (row < rows && col < cols) c[static_cast<i64>(row) * n + col] = sums[i][j];
        }
    }
}

}  // namespace kiln
