// SPDX-License-Identifier: Apache-2.0
//
// Parts of a GEMM on Hopper's tensor cores that do not depend on how its operands arrive:
//   kiln::ClusterTiles   which tiles of C a block computes, one after the other
//   kiln::multiply_stage the wgmma of a warpgroup for a stage
//   kiln::prefetch_residual, EpilogueOperands    what an epilogue reads, ahead of its use
//   kiln::store_empty_sums    C where k is 0
//   kiln::store_accumulators, store_accumulators_by_tma, store_accumulators_by_rows    registers to global memory
// The pipeline, its producers and its consumers are the kernel's; split-K is kiln/wgmma_split.h.
#pragma once

#include "kiln/gemm_epilogue.h"
#include "kiln/prefetch.h"
#include "kiln/raster.h"
#include "kiln/rounded_pair.h"
#include "kiln/tma.h"
#include "kiln/wgmma.h"

namespace kiln {

/// The tiles of C, BM x BN, of a persistent block. A cluster computes DOWN x RIGHT tiles at a time, the ranks of its
/// blocks running down first; all of them take the same steps. With SPLIT > 1 it computes one tile, of which each block
/// takes a part of k. GROUP: see kiln/raster.h; it counts clusters.
template <int BM, int BN, unsigned DOWN, unsigned RIGHT, unsigned SPLIT, unsigned GROUP>
class ClusterTiles {
  public:
    static constexpr unsigned kBlocks = DOWN * RIGHT * SPLIT;  ///< of a cluster
    static_assert(SPLIT == 1 || DOWN * RIGHT == 1, "a cluster shares operands or a tile");

    // The tile's first; past the last of C in the last blocks of a cluster. What passes 2^31 then is
    // negative as an int, which is outside of C as well.
    unsigned row = 0;
    unsigned column = 0;

    __device__ __forceinline__ ClusterTiles(int m, int n)
        : down_(tiles_of(m, BM * DOWN)), across_(tiles_of(n, BN * RIGHT)), next_(blockIdx.x / kBlocks) {}

    /// Of these tiles.
    __device__ __forceinline__ unsigned count() const { return down_ * across_; }
    /// Only one tile, of any number of clusters that have parts of its k.
    __device__ __forceinline__ void start_at(unsigned index) { next_ = index; }

    __device__ __forceinline__ bool advance() {
        if (next_ >= down_ * across_) return false;
        const TileCoord cluster = rasterize<GROUP>(next_, down_, across_);
        row = static_cast<unsigned>(cluster.row) * DOWN;
        column = static_cast<unsigned>(cluster.col) * RIGHT;
        if constexpr (DOWN > 1) row += cluster_rank() % DOWN;
        if constexpr (RIGHT > 1) column += cluster_rank() / DOWN;
        row *= BM;
        column *= BN;
        next_ += gridDim.x / kBlocks;
        return true;
    }

  private:
    unsigned down_, across_, next_;
};

/// Starts to add the product of COUNT x 64 rows of a tile of A, from `a` on, with a tile of B, as a group. The tiles
/// are 64 deep. An operand that is MN-major lies in slices of 64 rows of A or columns of B, each 64 rows of 128 bytes;
/// one that is K-major is as many such rows as it has rows of A or columns of B.
template <class T, bool A_MN, bool B_MN, int N, int COUNT>
__device__ __forceinline__ void multiply_stage(WgmmaAccumulator<N> (&c)[COUNT], const unsigned char* a,
                                               const unsigned char* b, bool accumulate) {
    constexpr unsigned kSliceBytes = 64 * 128;
    constexpr int kAdvanceA = A_MN ? 128 : static_cast<int>(sizeof(T));  // per step of k, in bytes
    constexpr int kAdvanceB = B_MN ? 128 : static_cast<int>(sizeof(T));
    const u64 a_tile = A_MN ? wgmma_mn_major(a, kSliceBytes) : wgmma_k_major(a);
    const u64 b_tile = B_MN ? wgmma_mn_major(b, kSliceBytes) : wgmma_k_major(b);
    wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < 64; depth += 16) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            wgmma<T, A_MN, B_MN>(c[i], a_tile + wgmma_advance(i * 64 * 128 + depth * kAdvanceA),
                                 b_tile + wgmma_advance(depth * kAdvanceB), depth != 0 || accumulate);
    }
    wgmma_commit();
}

/// What the epilogue of a warp's 16 rows reads where rows are aligned to pairs, COUNT pairs of each of a thread's two rows
/// at a time. With PARTS_HELD = 2 loads of one part are under way while the part before it is stored. What C does not have
/// counts as zero, since branches cost more.
template <class Epilogue, int COUNT, int PARTS_HELD>
class EpilogueOperands {
    using OUT = typename Epilogue::Out;
    static constexpr int BIAS = Epilogue::kBias;
    static constexpr bool RESIDUAL = Epilogue::kResidual;

  public:
    __device__ __forceinline__ EpilogueOperands(const Epilogue& epilogue, int m, unsigned first_row,
                                                unsigned first_column, unsigned lane) {
        const i64 row = static_cast<i64>(first_row) + lane / 4;
        const i64 column = static_cast<i64>(first_column) + lane % 4 * 2;
        left_ = static_cast<int>(kiln::min(epilogue.n - column, static_cast<i64>(1) << 20));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            has_row_[half] = row + half * 8 < m;
            if constexpr (RESIDUAL)
                residual_[half] = epilogue.residual + (row + half * 8) * epilogue.n + column;
            if constexpr (BIAS == kRowBias)
                if (has_row_[half]) row_bias_[half] = epilogue.bias[row + half * 8];
        }
        if constexpr (BIAS == kColumnBias) bias_ = epilogue.bias + column;
    }

    __device__ __forceinline__ void load(int part) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int at = (part * COUNT + i) * 8;
            if constexpr (BIAS == kColumnBias)
                added_[part % PARTS_HELD][i] = Epilogue::template pair_of<true>(bias_ + at, left_ - at);
            if constexpr (RESIDUAL) {
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    old_[part % PARTS_HELD][i][half] = Epilogue::template pair_of<true>(
                        residual_[half] + at, has_row_[half] ? left_ - at : 0);
            }
        }
    }

    template <int N>
    __device__ __forceinline__ void apply(WgmmaAccumulator<N>& accumulator, const Epilogue& epilogue,
                                          int part) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int col = (part * COUNT + i) * 2;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                Vec<OUT, 2> old = {}, added = {};
                if constexpr (RESIDUAL) old = old_[part % PARTS_HELD][i][half];
                if constexpr (BIAS == kColumnBias) added = added_[part % PARTS_HELD][i];
                if constexpr (BIAS == kRowBias) added[0] = added[1] = row_bias_[half];
                epilogue.finish(accumulator(half, col), accumulator(half, col + 1), old, added);
            }
        }
    }

  private:
    int left_;  ///< columns of C from the thread's first on
    bool has_row_[2];
    const OUT* bias_ = nullptr;
    const OUT* residual_[2] = {};
    OUT row_bias_[2] = {};
    Vec<OUT, 2> added_[PARTS_HELD][COUNT];
    Vec<OUT, 2> old_[PARTS_HELD][COUNT][2];
};

/// Fetches a warp's 16 rows of a tile of the residual into the L2 cache, while the tile's product is computed.
template <int N, class Epilogue>
__device__ __forceinline__ void prefetch_residual(const Epilogue& epilogue, int m, unsigned first_row,
                                                  unsigned first_column, unsigned lane) {
    if constexpr (Epilogue::kResidual) {
        constexpr int kLine = 128 / static_cast<int>(sizeof(typename Epilogue::Out));  // elements
        constexpr int kLines = N / kLine;                                              // of a row
#pragma unroll
        for (unsigned line = 0; line < 16 * kLines; line += 32) {
            const i64 row = static_cast<i64>(first_row) + (line + lane) / kLines;
            const i64 column = static_cast<i64>(first_column) + (line + lane) % kLines * kLine;
            if (row < m && column < epilogue.n) prefetch_to_l2(epilogue.residual + row * epilogue.n + column);
        }
    }
}

/// C where there are no steps of k, by all threads of the grid.
template <class OUT, class Epilogue>
__device__ __forceinline__ void store_empty_sums(OUT* c, int m, int n, const Epilogue& epilogue) {
    const i64 count = static_cast<i64>(m) * n, threads = static_cast<i64>(gridDim.x) * blockDim.x;
#pragma unroll 1
    for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += threads)
        c[i] = OUT(epilogue(0.0f, i / n, i % n));
}

/// Two neighbours in a row of C, at an even column, of which the second may be past the last. PAIRS: n is even, and c
/// aligned to pairs.
template <bool PAIRS, class OUT>
__device__ __forceinline__ void store_pair(OUT* c, int n, float first, float second, i64 row, i64 column) {
    const Vec<OUT, 2> pair = rounded_pair<OUT>(first, second);
    OUT* const to = c + row * n + column;
    if constexpr (PAIRS) {
        store(to, pair);
    } else {
        to[0] = pair[0];
        if (column + 1 < n) to[1] = pair[1];
    }
}

/// Each element's place follows from WgmmaAccumulator's row_of and col_of: a warp has 16 rows, and a thread two of them,
/// 8 apart, with two neighbouring columns out of each 8. PAIRS: n is even, and c aligned to pairs.
template <bool PAIRS, class OUT, int N, class Epilogue>
__device__ __forceinline__ void store_accumulators(WgmmaAccumulator<N>& accumulator, OUT* c, int m,
                                                   const Epilogue& epilogue, unsigned first_row,
                                                   unsigned first_column, unsigned lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const i64 row = static_cast<i64>(first_row) + lane / 4 + half * 8;
        if (row >= m) continue;
#pragma unroll
        for (int i = 0; i < accumulator.kCols; i += 2) {
            const i64 column = static_cast<i64>(first_column) + i * 4 + lane % 4 * 2;
            if (column >= epilogue.n) continue;
            float &first = accumulator(half, i), &second = accumulator(half, i + 1);
            if constexpr (!Epilogue::kIsNone) epilogue.template apply<PAIRS>(first, second, row, column);
            store_pair<PAIRS>(c, epilogue.n, first, second, row, column);
        }
    }
}

constexpr int kStoreBoxRows = 16;
constexpr int kStoreBoxBytes = kStoreBoxRows * 128;
template <class OUT>
constexpr int kStoreBoxColumns = 128 / static_cast<int>(sizeof(OUT));

/// Puts 32 of a warp's columns, or 64 of 16-bit types, into a box of 16 rows of 128 bytes in shared memory, as TMA
/// swizzles it. `part` counts the columns so.
template <class OUT, int N>
__device__ __forceinline__ void fill_store_box(const WgmmaAccumulator<N>& accumulator, unsigned char* box,
                                               int part, unsigned lane) {
    const unsigned row = lane / 4;
    if constexpr (sizeof(OUT) == 2) {
        // The 8 rows of a column of 16 bytes lie in different banks.
#pragma unroll
        for (int eight = 0; eight < 8; ++eight) {
            const int col = (part * 8 + eight) * 2;
#pragma unroll
            for (int half = 0; half < 2; ++half)
                *reinterpret_cast<Vec<OUT, 2>*>(box + swizzled(row + half * 8, eight * 16 + lane % 4 * 4)) =
                    rounded_pair<OUT>(accumulator(half, col), accumulator(half, col + 1));
        }
        return;
    }
    // Lanes of odd rows write the third and fourth 8 columns when others write the first and second: with
    // the swizzle this makes the accesses of half a warp fall into different banks.
    const bool is_odd = row % 2 != 0;
#pragma unroll
    for (int eight = 0; eight < 4; ++eight) {
        const int col = (part * 4 + eight) * 2, swapped = (part * 4 + (eight ^ 2)) * 2;
        const unsigned byte = (is_odd ? eight ^ 2 : eight) * 32 + lane % 4 * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Vec<float, 2> pair = {
                {is_odd ? accumulator(half, swapped) : accumulator(half, col),
                 is_odd ? accumulator(half, swapped + 1) : accumulator(half, col + 1)}};
            *reinterpret_cast<Vec<float, 2>*>(box + swizzled(row + half * 8, byte)) = pair;
        }
    }
}

/// Through two boxes in shared memory, `staging`, while the accelerator still reads the other one. `next`: which
/// of them is next, 0 at first. FEW_REGISTERS: the accumulators leave fewer than about 80.
template <bool FEW_REGISTERS, class OUT, int N, class Epilogue>
__device__ __forceinline__ void store_accumulators_by_tma(WgmmaAccumulator<N>& accumulator,
                                                          const TensorMap& c_map, TmaStores& stores,
                                                          unsigned char* staging, unsigned& next, int m,
                                                          const Epilogue& epilogue, unsigned first_row,
                                                          unsigned first_column, unsigned lane) {
    constexpr int kParts = N / kStoreBoxColumns<OUT>;
    constexpr bool kHasBoth = Epilogue::kBias != kNoBias && Epilogue::kResidual;
    constexpr int kPairs = FEW_REGISTERS ? 1 : kHasBoth ? 4 : kStoreBoxColumns<OUT> / 8;
    constexpr int kPieces = kStoreBoxColumns<OUT> / 8 / kPairs;  // of a box
    EpilogueOperands<Epilogue, kPairs, FEW_REGISTERS ? 1 : 2> operands(epilogue, m, first_row, first_column,
                                                                       lane);
    if constexpr (!Epilogue::kIsNone && !FEW_REGISTERS) operands.load(0);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
        unsigned char* const box = staging + next * kStoreBoxBytes;
        if (lane == 0) stores.wait_read<1>();
        __syncwarp();
        if constexpr (!Epilogue::kIsNone) {
#pragma unroll
            for (int piece = part * kPieces; piece < (part + 1) * kPieces; ++piece) {
                const int next_piece = FEW_REGISTERS ? piece : piece + 1;
                if (next_piece < kParts * kPieces) operands.load(next_piece);
                operands.apply(accumulator, epilogue, piece);
            }
        }
        fill_store_box<OUT>(accumulator, box, part, lane);
        fence_async_proxy();
        __syncwarp();
        if (lane == 0) {
            stores.store(c_map, box, static_cast<int>(first_row),
                         static_cast<int>(first_column + part * kStoreBoxColumns<OUT>));
            stores.commit();
        }
        next ^= 1u;
    }
}

/// body(0) to body(COUNT - 1), each a copy of its own. NVRTC 12.4 leaves a large body's #pragma unroll undone, and accumulators
/// that the body takes by the loop's counter are then in local memory.
template <int COUNT, int FIRST = 0, class Body>
__device__ __forceinline__ void unrolled(const Body& body) {
    if constexpr (FIRST < COUNT) {
        body(FIRST);
        unrolled<COUNT, FIRST + 1>(body);
    }
}

/// Through a box in shared memory, row by row, to rows that begin at any element. A lane stores one column of each part, so
/// that what the epilogue reads is read by whole warps, and a column's bias once for 16 rows.
template <class OUT, int N, class Epilogue>
__device__ __forceinline__ void store_accumulators_by_rows(const WgmmaAccumulator<N>& accumulator,
                                                           unsigned char* box, OUT* c, int m,
                                                           const Epilogue& epilogue, unsigned first_row,
                                                           unsigned first_column, unsigned lane) {
    constexpr int kColumns = kStoreBoxColumns<float>, kParts = N / kColumns;
    // As many rows at once as there are registers for.
    constexpr bool kHasBoth = Epilogue::kBias == kColumnBias && Epilogue::kResidual;
    constexpr int kRowsAtOnce = N <= 192 ? 8 : kHasBoth ? 2 : 4;
    const int n = epilogue.n;
    const auto rows =
        static_cast<int>(kiln::min(m - static_cast<i64>(first_row), static_cast<i64>(kStoreBoxRows)));
    const auto columns = static_cast<int>(  // of C, from the lane's first on
        kiln::min(n - static_cast<i64>(first_column) - lane, static_cast<i64>(N)));
    const i64 corner = static_cast<i64>(first_row) * n + first_column + lane;
    float row_bias = 0.0f, column_bias = 0.0f;
    if constexpr (Epilogue::kBias == kRowBias)
        if (static_cast<int>(lane) < rows) row_bias = static_cast<float>(epilogue.bias[first_row + lane]);
    const auto bias_of = [&](int part) {
        if (part * kColumns < columns)
            column_bias = static_cast<float>(epilogue.bias[first_column + lane + part * kColumns]);
    };
    if constexpr (Epilogue::kBias == kColumnBias) bias_of(0);
    unrolled<kParts>([&](int part) {
        fill_store_box<float>(accumulator, box, part, lane);
        __syncwarp();
        const bool is_inside = part * kColumns < columns;
        float added = column_bias;
        if constexpr (Epilogue::kBias == kColumnBias)
            if (part + 1 < kParts) bias_of(part + 1);
        i64 at = corner + part * kColumns;
#pragma unroll 1
        for (int first = 0; first < kStoreBoxRows;
             first += kRowsAtOnce, at += static_cast<i64>(kRowsAtOnce) * n) {
            OUT old[kRowsAtOnce] = {};
            if constexpr (Epilogue::kResidual) {
#pragma unroll
                for (int i = 0; i < kRowsAtOnce; ++i)
                    if (is_inside && first + i < rows)
                        old[i] = epilogue.residual[at + static_cast<i64>(i) * n];
            }
            float sums[kRowsAtOnce];
#pragma unroll
            for (int i = 0; i < kRowsAtOnce; ++i)
                sums[i] = *reinterpret_cast<const float*>(box + swizzled(first + i, lane * 4));
            OUT* to = c + at;
#pragma unroll
            for (int i = 0; i < kRowsAtOnce; ++i, to += n) {
                if constexpr (Epilogue::kBias == kRowBias)
                    added = __shfl_sync(0xffffffffu, row_bias, first + i);
                const OUT value = OUT(epilogue.finish(sums[i], static_cast<float>(old[i]), added));
                if (is_inside && first + i < rows) *to = value;
            }
        }
        __syncwarp();
    });
}

}  // namespace kiln
