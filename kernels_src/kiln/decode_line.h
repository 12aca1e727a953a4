// SPDX-License-Identifier: Apache-2.0
//
// kiln::TokenLine: how decode attention distributes sequences of any lengths over the warps of a grid of any size. All
// heads of all sequences, one after the other, make up one line of tiles of TOKENS tokens each. Each block takes an
// equal part of it, and each of its warps an equal part of that, the next warp the next. Offered: a warp's part, and
// the heads along it. What is done with a tile, and how a head is put together of which several warps have tiles, is
// the kernel's: decode_mma.cu. No sequence is longer than is said, and a line on which all are as long has less than 2^31 tiles,
// which a cache of less than 4 TB never reaches.
#pragma once

#include "kiln/reduce.h"

namespace kiln {

/// WARPS: of a block; all its threads make each call together.
template <int TOKENS, int WARPS>
struct TokenLine {
    static constexpr int kThreads = WARPS * 32;

    static __device__ __forceinline__ int tiles_of(int length) {
        return length > 0 ? (length - 1) / TOKENS + 1 : 0;
    }

    /// The line among blocks: each has so many tiles, and the first `longer` ones another. Where there are several, all
    /// warps of each have tiles.
    struct Split {
        unsigned each, longer;

        __device__ __forceinline__ unsigned begin(unsigned block) const {
            return block * each + (block < longer ? block : longer);
        }
        /// Which block has this tile.
        __device__ __forceinline__ unsigned block_of(unsigned tile) const {
            const unsigned in_longer = longer * (each + 1);
            return tile < in_longer ? tile / (each + 1) : longer + (tile - in_longer) / each;
        }
    };

    /// A tile, by what it is of.
    struct Place {
        int sequence, head;
        int length;  ///< of the sequence
        int tile;    ///< of the head's

        /// To the first tile of the next head; not past the line's end.
        __device__ __forceinline__ void next_head(const int* lengths, int kv_heads) {
            tile = 0;
            if (++head < kv_heads) return;
            head = 0;
            do {
                length = lengths[++sequence];
            } while (length <= 0);
        }
    };

    /// A warp's part.
    struct Part {
        Split split;
        unsigned begin;  ///< the first tile's number on the line
        int count;       ///< of tiles; 0: none
        Place first;     ///< where there is one
    };

    /// Where a tile is if all sequences have so many.
    static __device__ __forceinline__ Place place_among_equals(unsigned tile, unsigned tiles_each,
                                                               int kv_heads) {
        const unsigned sequence = tile / tiles_each, of_head = tiles_each / static_cast<unsigned>(kv_heads);
        const unsigned in_sequence = tile - sequence * tiles_each, head = in_sequence / of_head;
        return {static_cast<int>(sequence), static_cast<int>(head), 0,
                static_cast<int>(in_sequence - head * of_head)};
    }

    /// The part of this warp if the line has `total` tiles; `first` is not set.
    static __device__ __forceinline__ Part part_of(unsigned total) {
        // As many blocks as have a tile for each warp, or one.
        Part part = {};
        const unsigned full = total >= WARPS ? total / WARPS : 1;
        const unsigned blocks = full < gridDim.x ? full : gridDim.x;
        if (blockIdx.x >= blocks) return part;
        part.split = {total / blocks, total % blocks};
        const unsigned warp = threadIdx.x / 32,
                       of_block = part.split.each + (blockIdx.x < part.split.longer ? 1 : 0);
        const unsigned longer = of_block % WARPS;
        part.begin =
            part.split.begin(blockIdx.x) + warp * (of_block / WARPS) + (warp < longer ? warp : longer);
        part.count = static_cast<int>(of_block / WARPS + (warp < longer ? 1 : 0));
        return part;
    }

    /// This warp's. lengths: of `batch` sequences, in tokens and at most max_length; 0 or less for none. Each thread counts
    /// some sequences' tiles, and each warp adds up all counts for itself, which takes one barrier.
    /// Before the lengths are there, the warp's first tile is taken to be what it is if all sequences are as long as
    /// possible. look_up(place) is called with it while the lengths are on their way, and prefetch(place), with its
    /// sequence's length, when they have arrived: of a sequence that is shorter than that, the tile may not exist.
    template <class LookUp, class Prefetch>
    static __device__ __forceinline__ Part part(const int* lengths, int batch, int kv_heads, int max_length,
                                                LookUp look_up, Prefetch prefetch) {
        constexpr int kAtOnce = WARPS < 4 ? WARPS : 4;
        alignas(16) __shared__ unsigned counts[kThreads];
        const int each = (batch + kThreads - 1) / kThreads;
        const int first = static_cast<int>(threadIdx.x) * each;
        const int last = batch - first < each ? batch : first + each;
        const int first_length = first < last ? lengths[first] : 0;
        const unsigned tiles_each =
            static_cast<unsigned>(tiles_of(max_length)) * static_cast<unsigned>(kv_heads);
        const unsigned total_at_most = tiles_each * static_cast<unsigned>(batch);
        Part likely = part_of(total_at_most);
        if (likely.count > 0) {
            likely.first = place_among_equals(likely.begin, tiles_each, kv_heads);
            likely.first.length = lengths[likely.first.sequence];
            look_up(likely.first);
        }
        auto mine = static_cast<unsigned>(tiles_of(first_length));
        for (int i = first + 1; i < last; ++i) mine += static_cast<unsigned>(tiles_of(lengths[i]));
        counts[threadIdx.x] = mine;
        if (likely.count > 0) prefetch(likely.first);
        __syncthreads();

        const auto lane = threadIdx.x % 32;
        unsigned of_lane[WARPS], sum = 0;
#pragma unroll
        for (int i = 0; i < WARPS; i += kAtOnce) {
            const auto some = load<kAtOnce>(counts + lane * WARPS + i);
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) sum += of_lane[i + j] = some[j];
        }
        const unsigned until = warp_scan(sum, Sum{});
        const auto heads = static_cast<unsigned>(kv_heads);
        const unsigned total = shuffle_from(until, 31) * heads;

        if (total == total_at_most) return likely;  // as it is where all sequences have equally many tiles
        Part part = part_of(total);
        if (part.count == 0) return part;

        // The lane, of its counts the one, and of the sequences counted there the one that has the first tile.
        unsigned begin = until - sum, next = begin;
        int thread = static_cast<int>(lane * WARPS);
#pragma unroll
        for (int i = 0; i < WARPS; ++i) {
            next += of_lane[i];
            if (part.begin < next * heads) continue;
            begin = next;
            ++thread;
        }
        const int found = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, part.begin < until * heads))) - 1;
        begin = shuffle_from(begin, found) * heads;
        int sequence = shuffle_from(thread, found) * each;
        for (;; ++sequence) {
            const int length = lengths[sequence];
            const auto tiles = static_cast<unsigned>(tiles_of(length));
            const unsigned before = part.begin - begin;
            if (before >= tiles * heads) {
                begin += tiles * heads;
                continue;
            }
            part.first = {sequence, static_cast<int>(before / tiles), length,
                          static_cast<int>(before % tiles)};
            return part;
        }
    }
};

}  // namespace kiln
