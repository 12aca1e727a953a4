// SPDX-License-Identifier: Apache-2.0
//
// Sequences of different lengths one behind the other, without padding: offsets[b] is where sequence b begins among the
// rows of all, and offsets[batch] is their number. They rise or stay; nothing checks it on the device.
//   kiln::packed_sequence      of a row
//   kiln::PackedTile           which rows a block has
#pragma once

#include "kiln/device.h"

namespace kiln {

/// The sequence that row `row` belongs to, of `batch` ones: the last that does not begin behind it.
__host__ __device__ __forceinline__ int packed_sequence(const int* __restrict__ offsets, int batch, int row) {
    int low = 0, high = batch;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        if (offsets[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/// A tile of ROWS rows, none of which belongs to two sequences. Sequence b has the tile indices from offsets[b] / ROWS + b on,
/// so that a tile's sequence is found without a sum over those before it. They are enough for its rows, and at most one
/// of them has none. Each head has all of them, and those of a sequence and head follow each other.
template <int ROWS>
struct PackedTile {
    int sequence, head;
    int index;  ///< of the tile among those of its sequence and head
    int tiles;  ///< how many these are

    static __device__ __forceinline__ int first_index(const int* __restrict__ offsets, int sequence) {
        return offsets[sequence] / ROWS + sequence;
    }
    /// Number `number` of (rows / ROWS + batch) * heads tiles. By all lanes of a warp of 32, with the same arguments.
    static __device__ __forceinline__ PackedTile of(const int* __restrict__ offsets, int batch, int heads,
                                                    unsigned number) {
        const int lane = static_cast<int>(threadIdx.x % 32);
        const int wanted = static_cast<int>(number / static_cast<unsigned>(heads));
        int low = 0, high = batch;
        while (high - low > 1) {
            const int step = (high - low + 31) / 32;
            const int probe = low + lane * step;
            const bool is_behind = probe >= high || first_index(offsets, probe) > wanted;
            const int reached = 32 - __popc(__ballot_sync(0xffffffffu, is_behind));  // the first one at least
            low += (reached - 1) * step;
            high = low + step < high ? low + step : high;
        }
        const int first = first_index(offsets, low);
        const int tiles = first_index(offsets, low + 1) - first;
        const int rest =
            static_cast<int>(number - static_cast<unsigned>(first) * static_cast<unsigned>(heads));
        return {low, rest / tiles, rest % tiles, tiles};
    }
};

}  // namespace kiln
