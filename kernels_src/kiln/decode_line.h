// SPDX-License-Identifier: Apache-2.0
//
// kiln::TokenLine: how decode attention distributes sequences of any lengths over the blocks of a grid of any size. All
// heads of all sequences, one after the other, make up one line of places, TOKENS tokens each, and each block
// takes an equal part of it. Offered: a block's part, and the heads along it. The warps of a block take its
// places alternately. What is done with a place is the kernel's: decode_mma.cu.
#pragma once

#include "kiln/reduce.h"

namespace kiln {

/// WARPS: of a block; all its threads make each call together.
template <int TOKENS, int WARPS>
struct TokenLine {
    static constexpr int kThreads = WARPS * 32;
    /// Places that a head takes up in addition to its tiles, for what its end costs a block. That many, so that
    /// tiles go on falling to all warps alike.
    static constexpr int kEnd = WARPS;

    static __device__ __forceinline__ int tiles_of(int length) {
        return length > 0 ? (length - 1) / TOKENS + 1 : 0;
    }
    static __device__ __forceinline__ int span_of(int length) {
        return length > 0 ? tiles_of(length) + kEnd : 0;
    }

    /// A block's part, and where it begins: in which sequence, whose first head's first place is number `base`.
    struct Part {
        i64 total;
        unsigned blocks;  ///< that have a part
        i64 begin, end;   ///< equal where the block has none
        i64 base;
        int sequence;

        /// Which block has this place.
        __device__ __forceinline__ unsigned block_of(i64 place) const {
            return static_cast<unsigned>(((place + 1) * blocks - 1) / total);
        }
    };

    /// This block's. lengths: of `batch` sequences, in tokens; 0 or less for none.
    static __device__ __forceinline__ Part part(const int* lengths, int batch, int kv_heads) {
        __shared__ i64 shared_total, shared_base;
        __shared__ int shared_sequence;
        const int each = (batch + kThreads - 1) / kThreads;
        const int first = static_cast<int>(threadIdx.x) * each;
        const int last = batch - first < each ? batch : first + each;
        i64 mine = 0;
        for (int i = first; i < last; ++i) mine += span_of(lengths[i]);
        const i64 until = block_scan<kThreads>(mine, Sum{});
        if (threadIdx.x == kThreads - 1) shared_total = until * kv_heads;
        __syncthreads();

        Part part = {};
        part.total = shared_total;
        part.blocks = part.total < gridDim.x ? static_cast<unsigned>(part.total) : gridDim.x;
        if (blockIdx.x >= part.blocks) return part;
        part.begin = part.total * blockIdx.x / part.blocks;
        part.end = part.total * (blockIdx.x + 1) / part.blocks;
        i64 base = (until - mine) * kv_heads;
        if (base <= part.begin && part.begin < until * kv_heads) {
            int sequence = first;
            for (;; ++sequence) {
                const i64 next = base + static_cast<i64>(span_of(lengths[sequence])) * kv_heads;
                if (part.begin < next) break;
                base = next;
            }
            shared_base = base;
            shared_sequence = sequence;
        }
        __syncthreads();
        part.base = shared_base;
        part.sequence = shared_sequence;
        return part;
    }

    /// Walks the heads along the line. Places are counted from the block's first one.
    class Items {
      public:
        int sequence, head;
        int length;      ///< of the sequence
        int begin, end;  ///< the head's places; the first head's may begin before the block's
        int tiles_end;   ///< those from begin to here are tiles

        /// Of a part that is not empty.
        __device__ __forceinline__ Items(const Part& part, const int* lengths, int kv_heads)
            : sequence(part.sequence), lengths_(lengths), kv_heads_(kv_heads) {
            length = lengths[sequence];
            const i64 before = part.begin - part.base;
            head = static_cast<int>(before / span_of(length));
            begin = -static_cast<int>(before % span_of(length));
            end = begin + span_of(length);
            tiles_end = begin + tiles_of(length);
        }
        /// To the next; not past the last of the line.
        __device__ __forceinline__ void advance() {
            begin = end;
            if (++head == kv_heads_) {
                head = 0;
                do {
                    length = lengths_[++sequence];
                } while (length <= 0);
            }
            end = begin + span_of(length);
            tiles_end = begin + tiles_of(length);
        }
        /// The first place of a warp, which has `place`, that is not before this head.
        __device__ __forceinline__ int from(int place) const {
            return place >= begin ? place : place + (begin - place + WARPS - 1) / WARPS * WARPS;
        }

      private:
        const int* lengths_;
        int kv_heads_;
    };
};

}  // namespace kiln
