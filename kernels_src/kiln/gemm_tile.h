// SPDX-License-Identifier: Apache-2.0
//
// The parts of a GEMM with tiles in shared memory and several results per thread:
//   kiln::ThreadTile     which results of a block's tile of C a thread computes
//   kiln::OperandTile    a tile of A or B, by way of registers into shared memory
//   kiln::multiply       adds the product of two tiles to a thread's results
//   kiln::multiply_all   the same for all tiles along k, the next one being fetched meanwhile
//   kiln::store_results  writes them to C
// In shared memory both operands lie alike: one step of k after the other, each with its rows of A or
// columns of B side by side, so that a thread reads its part of either as vectors.
#pragma once

#include "kiln/alignment.h"
#include "kiln/ptxas.h"
#include "kiln/tile_layout.h"

namespace kiln {

/// A block's tile of C, ROWS x COLS, with TM x TN results per thread. 32 threads cover 4 x 8 vectors, which
/// read the fewest bytes of A and B together; a thread's other vectors lie ROWS / TM vectors further down
/// and COLS / TN further right, so that neighbouring threads read neighbouring vectors.
template <int ROWS, int COLS, int TM, int TN, int VEC>
struct ThreadTile {
    static constexpr int kDown = ROWS / TM;
    static constexpr int kAcross = COLS / TN;
    static constexpr int kThreads = kDown * kAcross;
    static_assert(kDown % 4 == 0 && kAcross % 8 == 0 && TM % VEC == 0 && TN % VEC == 0, "");

    int y;
    int x;

    __device__ __forceinline__ explicit ThreadTile(int thread)
        : y(thread / 32 / (kAcross / 8) * 4 + thread % 32 / 8),
          x(thread / 32 % (kAcross / 8) * 8 + thread % 8) {}

    /// Where in the tile its i-th row is, and its j-th column.
    __device__ __forceinline__ int row(int i) const { return (i / VEC * kDown + y) * VEC + i % VEC; }
    __device__ __forceinline__ int col(int j) const { return (j / VEC * kAcross + x) * VEC + j % VEC; }
};

/// A tile of an operand: DEPTH steps of k, WIDTH rows of A or columns of B. ALONG_K: elements that follow
/// each other in global memory follow each other in k (a row-major A, a column-major B), and the tile is
/// transposed on its way into shared memory. Writing single elements down its columns then meets few banks;
/// PAD elements behind each row help, or SWIZZLE, which exchanges vectors within a row and takes no memory.
/// The object is one of THREADS threads: where it reads, and what it holds of the tile in registers.
template <class T, int DEPTH, int WIDTH, bool ALONG_K, int VEC, int THREADS, int PAD, bool SWIZZLE>
class OperandTile {
  public:
    static constexpr int kDepth = DEPTH;
    static constexpr bool kSwizzled = SWIZZLE && ALONG_K;
    // A warp that transposes writes 32 / (DEPTH / VEC) rows at each of DEPTH / VEC steps of k: the swizzle moves those
    // steps that far apart.
    static constexpr int kApart = 32 * VEC / DEPTH > VEC ? 32 * VEC / DEPTH : VEC;
    using Layout = TileLayout<WIDTH, PAD, typename SwizzleIf<kSwizzled, kApart, VEC, WIDTH / kApart>::Type>;
    static_assert(!kSwizzled || kApart <= WIDTH, "a swizzled tile must be wider");
    static constexpr int kElements = DEPTH * Layout::kPitch;  ///< in shared memory

    /// `corner`: where the block's first tile begins in `matrix`. There are `width` rows of A or columns of B
    /// from there on, which may be fewer or more than WIDTH.
    __device__ __forceinline__ OperandTile(const T* matrix, i64 corner, int pitch, int width, int thread)
        : row_(thread / kAcross),
          col_(thread % kAcross * VEC),
          pitch_(pitch),
          next_(matrix + corner + static_cast<i64>(row_) * pitch + col_),
          width_(width),
          whole_(width >= WIDTH && rows_aligned<VEC>(matrix, i64{pitch})) {}

    /// Reads the next tile, of which only `depth` steps of k may be left; what lies outside becomes zero.
    /// Only tiles that are whole, in a matrix whose rows are aligned, are read as vectors.
    __device__ __forceinline__ void fetch(int depth) {
        const T* from = next_;
        next_ += ALONG_K ? DEPTH : static_cast<i64>(DEPTH) * pitch_;
        if (whole_ && depth >= DEPTH) {
#pragma unroll
            for (int i = 0; i < kHeld; ++i)
                if (has(i)) held_[i] = load<VEC>(from + offset(i));
            return;
        }
        const int rows = ALONG_K ? width_ : depth;
        const int cols = ALONG_K ? depth : width_;
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            const T* const vector = from + offset(i);
#pragma unroll
            for (int v = 0; v < VEC; ++v) {
                const bool inside = has(i) && row_ + row_step(i) < rows && col_ + col_step(i) + v < cols;
                held_[i][v] = inside ? vector[v] : T(0.0f);
            }
        }
    }

    /// Writes what was fetched to a tile in shared memory.
    __device__ __forceinline__ void store_to(T* tile) const {
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            if (!has(i)) continue;
            const int row = row_ + row_step(i);
            const int col = col_ + col_step(i);
            if constexpr (ALONG_K) {
#pragma unroll
                for (int v = 0; v < VEC; ++v) tile[Layout::at(col + v, row)] = held_[i][v];
            } else {
                store(tile + Layout::at(row, col), held_[i]);
            }
        }
    }

  private:
    // The tile as it lies in global memory, and the part of it that all threads read at once.
    static constexpr int kRows = ALONG_K ? WIDTH : DEPTH;
    static constexpr int kCols = ALONG_K ? DEPTH : WIDTH;
    static constexpr int kAcross = kCols / VEC < THREADS ? kCols / VEC : THREADS;
    static constexpr int kDown = THREADS / kAcross;
    static constexpr int kColSteps = kCols / VEC / kAcross;
    static constexpr int kHeld = ceil_div(kRows, kDown) * kColSteps;
    static_assert(kCols % VEC == 0 && Layout::kPitch % VEC == 0 && THREADS % kAcross == 0 && kColSteps > 0,
                  "");

    __device__ __forceinline__ static constexpr int row_step(int i) { return i / kColSteps * kDown; }
    __device__ __forceinline__ static constexpr int col_step(int i) { return i % kColSteps * kAcross * VEC; }
    __device__ __forceinline__ i64 offset(int i) const {
        return static_cast<i64>(row_step(i)) * pitch_ + col_step(i);
    }
    /// False where there are more threads than vectors.
    __device__ __forceinline__ bool has(int i) const {
        return kRows % kDown == 0 || row_ + row_step(i) < kRows;
    }

    int row_, col_;
    int pitch_;
    const T* next_;
    int width_;
    bool whole_;
    Vec<T, VEC> held_[kHeld];
};

/// sums += a * b, for the results of one thread; a and b are tiles in shared memory.
template <class TileA, class TileB, int VEC, class T, class Threads, int TM, int TN>
__device__ __forceinline__ void multiply(const T* a, const T* b, const Threads& mine, float (&sums)[TM][TN]) {
    // Two steps at once hide each other's reads; with more of them ptxas runs out of registers, a later one of those
    // for exchanged addresses already with two.
    constexpr int kStepsAtOnce = kLaterPtxas && TileA::kSwizzled ? 1 : 2;
#pragma unroll kStepsAtOnce
    for (int k = 0; k < TileA::kDepth; ++k) {
        float a_values[TM];
        float b_values[TN];
#pragma unroll
        for (int i = 0; i < TM; i += VEC) {
            const auto values = load<VEC>(a + TileA::Layout::at(k, mine.row(i)));
#pragma unroll
            for (int v = 0; v < VEC; ++v) a_values[i + v] = static_cast<float>(values[v]);
        }
#pragma unroll
        for (int j = 0; j < TN; j += VEC) {
            const auto values = load<VEC>(b + TileB::Layout::at(k, mine.col(j)));
#pragma unroll
            for (int v = 0; v < VEC; ++v) b_values[j + v] = static_cast<float>(values[v]);
        }
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; ++j) sums[i][j] += a_values[i] * b_values[j];
        }
    }
}

/// sums += A * B along all `k` steps, by way of `shared`, which has room for BUFFERS pairs of tiles. next_a and
/// next_b stand at the block's first tiles. PREFETCH: the next tile is read into registers before the product,
/// and stored after it. With 2 buffers it has a place of its own, and one barrier per tile is enough.
template <int VEC, bool PREFETCH, int BUFFERS, class TileA, class TileB, class T, class Threads, int TM,
          int TN>
__device__ __forceinline__ void multiply_all(TileA& next_a, TileB& next_b, int k, T* shared,
                                             const Threads& mine, float (&sums)[TM][TN]) {
    // The next tile is fetched before the product when it has a place to wait: registers, or the other buffer.
    constexpr bool kFetchFirst = PREFETCH || BUFFERS == 2;
    constexpr bool kStoreFirst = !PREFETCH && BUFFERS == 2;
    constexpr int kBufferElements = TileA::kElements + TileB::kElements;
    int left = k;  // steps of k that are not fetched yet
    const auto fetch = [&] {
        next_a.fetch(left);
        next_b.fetch(left);
        left -= TileA::kDepth;
    };
    const auto store_to = [&](T* buffer) {
        next_a.store_to(buffer);
        next_b.store_to(buffer + TileA::kElements);
    };

    fetch();
    store_to(shared);
    __syncthreads();
    int current = 0;  // where in `shared` the tiles to be multiplied are
    while (true) {
        const int other = current ^ (BUFFERS - 1) * kBufferElements;
        const bool more = left > 0;
        if (more && kFetchFirst) fetch();
        if (more && kStoreFirst) store_to(shared + other);
        multiply<TileA, TileB, VEC>(shared + current, shared + current + TileA::kElements, mine, sums);
        if (!more) break;
        if (BUFFERS == 1) __syncthreads();  // all have read what is overwritten now
        if (!kFetchFirst) fetch();
        if (!kStoreFirst) store_to(shared + other);
        __syncthreads();
        current = other;
    }
}

/// Writes those results that lie within `rows` x `cols` of `c`, as vectors where its rows are aligned.
template <int VEC, class Threads, int TM, int TN>
__device__ __forceinline__ void store_results(float* c, i64 pitch, int rows, int cols, const Threads& mine,
                                              const float (&sums)[TM][TN]) {
    constexpr int kWidth = VEC < 4 ? VEC : 4;
    if (rows_aligned<kWidth>(c, pitch) && cols % kWidth == 0) {
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; j += kWidth) {
                Vec<float, kWidth> values;
#pragma unroll
                for (int v = 0; v < kWidth; ++v) values[v] = sums[i][j + v];
                if (mine.row(i) < rows && mine.col(j) < cols)
                    store(c + mine.row(i) * pitch + mine.col(j), values);
            }
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j)
            if (mine.row(i) < rows && mine.col(j) < cols) c[mine.row(i) * pitch + mine.col(j)] = sums[i][j];
    }
}

}  // namespace kiln
