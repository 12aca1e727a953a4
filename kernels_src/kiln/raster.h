// SPDX-License-Identifier: Apache-2.0
//
// Threadblock rasterisation: which tile of a matrix a block computes.
//   kiln::rasterize<GROUP>(index, rows, cols)          down GROUP rows of tiles, then one column to the right
//   kiln::rasterize<GROUP, true>(index, rows, cols)    right over GROUP columns of tiles, then one row down
// Blocks that run at the same time have neighbouring indices. In a group they share few rows of A and few columns of
// B, and find them in the L2 cache.
#pragma once

#include "kiln/device.h"

namespace kiln {

/// Counted in tiles.
struct TileCoord {
    int row, col;
};

/// The place of tile `index` among `rows` x `cols` tiles. The last group may have fewer than GROUP rows.
template <unsigned GROUP, bool ALONG_M = false>
__device__ __forceinline__ TileCoord rasterize(unsigned index, unsigned rows, unsigned cols) {
    if constexpr (ALONG_M) {
        const TileCoord transposed = rasterize<GROUP>(index, cols, rows);
        return {transposed.col, transposed.row};
    } else {
        const unsigned group = index / (GROUP * cols);
        const unsigned within = index % (GROUP * cols);
        const unsigned height = kiln::min(rows - group * GROUP, GROUP);
        return {static_cast<int>(group * GROUP + within % height), static_cast<int>(within / height)};
    }
}

/// Tiles of `size` elements that cover `extent` of them.
__host__ __device__ __forceinline__ constexpr unsigned tiles_of(int extent, int size) {
    return (static_cast<unsigned>(extent) + size - 1) / size;
}

}  // namespace kiln
