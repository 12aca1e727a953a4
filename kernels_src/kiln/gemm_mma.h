// SPDX-License-Identifier: Apache-2.0
//
// MmaMainloop: the main loop of a tensor-core GEMM (mma.sync), for one block's tile of C: cp.async into a pipeline of
// STAGES stages, ldmatrix one step of k ahead, mma.sync. The epilogue is the kernel's.
#pragma once

#include "kiln/alignment.h"
#include "kiln/async_tile.h"
#include "kiln/mma.h"
#include "kiln/raster.h"

namespace kiln {

/// A tile of C of BM x BN; BK steps of k per stage; each warp computes WM x WN. A is m x k, or k x m when
/// TRANS_A; B is k x n, or n x k when TRANS_B; row-major. In shared memory they lie as in global memory, and
/// ldmatrix transposes where the fragments want it. SWIZZLE: kiln::LineSwizzle; else rows are padded by one
/// chunk of 16 bytes. Either is free of bank conflicts.
template <class T, int BM, int BN, int BK, int WM, int WN, int STAGES, bool SWIZZLE, bool TRANS_A,
          bool TRANS_B>
class MmaMainloop {
    static_assert(sizeof(T) == 2 && STAGES >= 2, "");
    static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0, "");

  public:
    static constexpr int kThreads = BM / WM * (BN / WN) * 32;

    __device__ __forceinline__ explicit MmaMainloop(int thread) : thread_(thread), lane_(thread % 32) {
        const int warp = thread / 32;
        warp_row_ = warp / (BN / WN) * WM;
        warp_col_ = warp % (BN / WN) * WN;
        place_fragments();
    }

    /// Computes the block's tile of C. a, b: the corners of the block's rows of A and columns of B at k = 0;
    /// a_pitch, b_pitch: elements per row as stored; rows, cols: how much of C is left from the tile's corner
    /// on. shared: STAGES stages of both tiles, aligned to 16 bytes.
    __device__ __forceinline__ void run(T* shared, const T* a, i64 a_pitch, const T* b, i64 b_pitch, int rows,
                                        int cols, int k) {
        typename TileA::Loader load_a(a, a_pitch, thread_);
        typename TileB::Loader load_b(b, b_pitch, thread_);
        AsyncCopies<STAGES*(TileA::kCopies + TileB::kCopies)> copies;
        int left = k;  // steps of k that no load has taken yet
        const bool is_inside = load_a.is_aligned() && load_b.is_aligned() && rows >= BM && cols >= BN;
        // Past the end of k a load reads nothing and writes zeros, so that no stage is ever uninitialised.
        const auto load_stage = [&](T* stage) {
            if (is_inside && left >= BK) {
                load_a.load_whole(copies, stage);
                load_b.load_whole(copies, stage + TileA::kElements);
            } else {
                load_a.load(copies, stage, TRANS_A ? left : rows, TRANS_A ? rows : left);
                load_b.load(copies, stage + TileA::kElements, TRANS_B ? cols : left, TRANS_B ? left : cols);
            }
            copies.commit();
            load_a.advance(TRANS_A ? BK * a_pitch : BK);
            load_b.advance(TRANS_B ? BK : BK * b_pitch);
            left = left > BK ? left - BK : 0;
        };

#pragma unroll 1
        for (int stage = 0; stage < STAGES - 1; ++stage) load_stage(shared + stage * kStage);
        copies.template wait<STAGES - 2>();
        __syncthreads();

        // While one step of k is multiplied the fragments of the next are on their way.
        constexpr int kSteps = BK / 16;
        unsigned fragments_a[2][WM / 16][4];
        unsigned fragments_b[2][WN / 16][4];
        int read_stage = 0, write_stage = STAGES - 1;
        const MatrixAddress tiles_at = matrix_address(shared);
        load_fragments(fragments_a[0], fragments_b[0], tiles_at, 0);
        const int tiles = (k - 1) / BK + 1;
#pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                if (step == 0) {
                    // Nobody reads this stage since the last barrier.
                    load_stage(shared + write_stage * kStage);
                    write_stage = write_stage + 1 == STAGES ? 0 : write_stage + 1;
                }
                if (step == kSteps - 1) {
                    copies.template wait<STAGES - 2>();
                    __syncthreads();
                    read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
                }
                // With an odd number of steps the two sets change roles from one tile to the next.
                const int now = kSteps == 1 ? 0 : step % 2, next = kSteps == 1 ? 1 : 1 - now;
                load_fragments(fragments_a[next], fragments_b[next], tiles_at + read_stage * kStageBytes,
                               (step + 1) % kSteps);
                multiply(fragments_a[now], fragments_b[now]);
                if (kSteps == 1) move(fragments_a, fragments_b);
            }
        }
        copies.template wait<0>();
    }

    /// Calls use(row, col, first, second) for each two accumulators that lie side by side, at (row, col) of the tile
    /// and to the right of it. col is even.
    template <class Use>
    __device__ __forceinline__ void for_each_pair(Use use) const {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
            for (int half_tile = 0; half_tile < 2; ++half_tile) {
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    use(warp_row_ + i * 16 + MmaFragment::c_row(lane_, 2 * half_tile),
                        warp_col_ + j * 8 + MmaFragment::c_col(lane_, 0), sums_[i][j][2 * half_tile],
                        sums_[i][j][2 * half_tile + 1]);
                }
            }
        }
    }

  private:
    static constexpr int kPad = SWIZZLE ? 0 : 8;
    template <int COLS>
    using Layout = TileLayout<COLS, kPad, LineSwizzle<T, COLS, 8, SWIZZLE>>;
    using LayoutA = Layout<TRANS_A ? BM : BK>;
    using LayoutB = Layout<TRANS_B ? BK : BN>;
    using TileA = AsyncTile<T, TRANS_A ? BK : BM, LayoutA, 8, kThreads>;
    using TileB = AsyncTile<T, TRANS_B ? BN : BK, LayoutB, 8, kThreads>;
    static constexpr int kStage = TileA::kElements + TileB::kElements;
    static constexpr unsigned kStageBytes = kStage * static_cast<unsigned>(sizeof(T));

    /// Where in a stage this lane's rows of the matrices begin, in bytes. The four matrices of an ldmatrix are
    /// those of A's four registers, or of B's two for 16 columns; lane l gives row l % 8 of matrix l / 8. A tile
    /// that ldmatrix transposes has its chunks along m or n, and further ones are reached by another XOR; one
    /// that it does not has them along k. The other way is a multiple of 16 rows, which no XOR changes.
    __device__ __forceinline__ void place_fragments() {
        const int row = lane_ % 8, low = lane_ / 8 % 2, high = lane_ / 16;
#pragma unroll
        for (int i = 0; i < kPlacesA; ++i)
            a_at_[i] = TRANS_A ? TileA::at(high * 8 + row, warp_row_ / 8 + 2 * i + low)
                               : TileA::at(warp_row_ + low * 8 + row, 2 * i + high);
#pragma unroll
        for (int i = 0; i < kPlacesB; ++i)
            b_at_[i] = TileA::kElements + (TRANS_B ? TileB::at(warp_col_ + high * 8 + row, 2 * i + low)
                                                   : TileB::at(low * 8 + row, warp_col_ / 8 + 2 * i + high));
#pragma unroll
        for (unsigned& place : a_at_) place *= sizeof(T);
#pragma unroll
        for (unsigned& place : b_at_) place *= sizeof(T);
    }

    /// The fragments of 16 steps of k of a stage; `step`: which.
    __device__ __forceinline__ void load_fragments(unsigned (&a)[WM / 16][4], unsigned (&b)[WN / 16][4],
                                                   MatrixAddress stage, int step) const {
        constexpr unsigned kRowsA = 16 * LayoutA::kPitch * sizeof(T),
                           kRowsB = 16 * LayoutB::kPitch * sizeof(T);
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
            if constexpr (TRANS_A)
                ldmatrix_x4_trans(a[i], stage + a_at_[i] + step * kRowsA);
            else
                ldmatrix_x4(a[i], stage + a_at_[step] + i * kRowsA);
        }
#pragma unroll
        for (int j = 0; j < WN / 16; ++j) {
            if constexpr (TRANS_B)
                ldmatrix_x4(b[j], stage + b_at_[step] + j * kRowsB);
            else
                ldmatrix_x4_trans(b[j], stage + b_at_[j] + step * kRowsB);
        }
    }

    __device__ __forceinline__ void multiply(const unsigned (&a)[WM / 16][4],
                                             const unsigned (&b)[WN / 16][4]) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) {
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
                mma_m16n8k16<T>(sums_[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }

    static __device__ __forceinline__ void move(unsigned (&a)[2][WM / 16][4], unsigned (&b)[2][WN / 16][4]) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) a[0][i][r] = a[1][i][r];
#pragma unroll
            for (int j = 0; j < WN / 16; ++j) b[0][j][r] = b[1][j][r];
        }
    }

    int thread_, lane_;
    int warp_row_, warp_col_;  // the corner of the warp's part
    static constexpr int kPlacesA = TRANS_A ? WM / 16 : BK / 16;
    static constexpr int kPlacesB = TRANS_B ? BK / 16 : WN / 16;
    unsigned a_at_[kPlacesA], b_at_[kPlacesB];
    float sums_[WM / 16][WN / 8][4] = {};
};

}  // namespace kiln
