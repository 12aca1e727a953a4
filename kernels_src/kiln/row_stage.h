// SPDX-License-Identifier: Apache-2.0
//
// Rows that follow each other as one piece of memory, for kernels whose rows are short:
//   kiln::RowStage   moves a piece to shared memory and back by accesses of 16 bytes, wherever its rows begin and however
//                    short they are. Its image there begins at the same byte of 16 as in memory: vectors of a row that are
//                    aligned in memory are so in the image
// All threads of a block take part in its calls. The image may be changed in place.
#pragma once

#include "kiln/async.h"

namespace kiln {

/// THREADS: of the block, 32 or more. MOST: elements of the longest piece.
template <class T, int THREADS, int MOST>
class RowStage {
    static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
    static constexpr int kVectors = ceil_div(MOST, kVector);
    static constexpr int kCopies = ceil_div(kVectors, THREADS);  // of a thread

  public:
    static constexpr int kElements = (kVectors + 1) * kVector;  ///< of shared memory
    using Copies = AsyncCopies<2 * kCopies>;                    ///< of two pieces at most

    /// memory: kElements of shared memory, aligned to 16 bytes. piece: where `count` elements begin, of this piece and of all that are
    /// moved to the image or from it.
    __device__ __forceinline__ RowStage(T* memory, const void* piece, int count)
        : thread_(static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x)),
          count_(count),
          lead_(min(count, (kVector - place_of(piece)) % kVector)),
          vectors_((count - lead_) / kVector),
          image_(memory + place_of(piece)) {}

    /// Whether pieces that begin there may share an image.
    static __device__ __forceinline__ bool alike(const void* piece, const void* other) {
        return place_of(piece) == place_of(other);
    }
    /// Element i of the piece.
    __device__ __forceinline__ T* at(int i) const { return image_ + i; }

    /// Begins to fill the image. It is there after wait().
    __device__ __forceinline__ void begin(Copies& copies, const T* __restrict__ piece) const {
#pragma unroll
        for (int copy = 0; copy < kCopies; ++copy) {
            const int vector = thread_ + copy * THREADS;
            const int i = lead_ + vector * kVector;
            if (vector < vectors_) copies.template copy<kVector>(image_ + i, piece + i);
        }
        each_end([&](int i) { image_[i] = piece[i]; });
    }
    static __device__ __forceinline__ void wait(Copies& copies) {
        copies.commit();
        copies.template wait<0>();
        __syncthreads();
    }

    /// Writes the image, with what each thread has changed.
    __device__ __forceinline__ void write(T* __restrict__ piece) const {
        __syncthreads();
#pragma unroll
        for (int copy = 0; copy < kCopies; ++copy) {
            const int vector = thread_ + copy * THREADS;
            const int i = lead_ + vector * kVector;
            if (vector < vectors_) store(piece + i, load<kVector>(image_ + i));
        }
        each_end([&](int i) { piece[i] = image_[i]; });
    }

  private:
    static __device__ __forceinline__ int place_of(const void* address) {
        return static_cast<int>(reinterpret_cast<u64>(address) / sizeof(T) % kVector);
    }
    /// Of what vectors leave: less than one in front of them, and one behind.
    template <class Each>
    __device__ __forceinline__ void each_end(Each each) const {
        if (thread_ < count_ - vectors_ * kVector)
            each(thread_ < lead_ ? thread_ : thread_ + vectors_ * kVector);
    }

    const int thread_, count_, lead_, vectors_;
    T* const image_;
};

}  // namespace kiln
