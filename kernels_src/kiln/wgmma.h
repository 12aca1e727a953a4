// SPDX-License-Identifier: Apache-2.0
//
// Hopper's matrix instruction (sm_90a; the host emulates it): the 128 threads of a warpgroup, warps 4 i to
// 4 i + 3 of the block, multiply a 64 x 16 piece of A with a 16 x N piece of B, both half or both bfloat16 in
// dynamic shared memory, into 64 x N floats spread over their registers. Offered:
//   kiln::wgmma_k_major, wgmma_mn_major, wgmma_advance    descriptors of what TMA put into shared memory
//   kiln::WgmmaAccumulator<N>                             a thread's accumulators, by rows and columns
//   kiln::wgmma_fence, wgmma, wgmma_commit, wgmma_wait    start, multiply, end a group, wait for groups
//   kiln::wgmma_define                                    before loops, for earlier compilers
//   kiln::setmaxnreg_inc, setmaxnreg_dec, elect_one       for blocks whose warpgroups differ in their work
// Operands lie in rows of 128 bytes (64 elements) with a swizzle of 128 bytes; others are not covered.
// The layouts are those of the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
// Instructions". What the host does differently, and which mistakes that shows, is told in kiln/host_wgmma.h.
#pragma once

#include "kiln/device.h"
#include "kiln/ptxas.h"

namespace kiln {

/// What a descriptor adds to reach `bytes` further into shared memory, a multiple of 16.
__host__ __device__ __forceinline__ constexpr u64 wgmma_advance(unsigned bytes) { return bytes >> 4; }

/// A thread's share of a 64 x N result: 2 rows, 8 apart, with N / 4 columns each, two neighbouring ones out of every 8.
template <int N>
struct WgmmaAccumulatorValues {
    static_assert(N == 64 || N == 96 || N == 128 || N == 144 || N == 160 || N == 176 || N == 192 || N == 256,
                  "N is one of 64, 96, 128, 144, 160, 176, 192, 256");
    static constexpr int kRows = 2;
    static constexpr int kCols = N / 4;

    float values[N / 2];  ///< in the order of the instruction's registers

    __host__ __device__ __forceinline__ float& operator()(int row, int col) {
        return values[place(row, col)];
    }
    __host__ __device__ __forceinline__ float operator()(int row, int col) const {
        return values[place(row, col)];
    }

    /// Calls visit(value, row, col) for all of them, in the order of the registers.
    template <class Visit>
    __host__ __device__ __forceinline__ void for_each(Visit visit) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) visit(values[i], i % 4 / 2, i / 4 * 2 + i % 2);
    }

    /// Where a thread's row and column are in the 64 x N result. `thread`: in its warpgroup.
    static __host__ __device__ __forceinline__ constexpr int row_of(int thread, int row) {
        return thread / 32 * 16 + thread % 32 / 4 + row * 8;
    }
    static __host__ __device__ __forceinline__ constexpr int col_of(int thread, int col) {
        return col / 2 * 8 + thread % 4 * 2 + col % 2;
    }

  private:
    static __host__ __device__ __forceinline__ constexpr int place(int row, int col) {
        return col / 2 * 4 + row * 2 + col % 2;
    }
};

/// A descriptor but for the address. leading_bytes: from 64 columns to the next 64; unused when K-major.
__host__ __device__ __forceinline__ constexpr u64 wgmma_layout(unsigned leading_bytes) {
    constexpr u64 kSwizzle128 = 1, kBytesOf8Rows = 1024;
    return kSwizzle128 << 62 | (kBytesOf8Rows >> 4) << 32 | static_cast<u64>(leading_bytes >> 4) << 16;
}

}  // namespace kiln

#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
#include "kiln/host_wgmma.h"
#else

namespace kiln {

/// Between wgmma and the wgmma_wait for it, accumulators are neither read nor written.
template <int N>
struct WgmmaAccumulator : WgmmaAccumulatorValues<N> {};

__device__ __forceinline__ u64 wgmma_address(const void* shared) {
    return (shared_address(shared) & 0x3ffffu) >> 4;
}
/// A tile whose rows of 128 bytes run along k: A[m][k], or B[n][k]. Starts at a multiple of 1024 bytes;
/// wgmma_advance by 32 goes to the next 16 of k, and by 128 r to row r, a multiple of 8.
__device__ __forceinline__ u64 wgmma_k_major(const void* tile) {
    return wgmma_layout(16) | wgmma_address(tile);
}
/// A tile whose rows of 128 bytes run along m or n: B[k][n], or A[k][m], as slices of 64 columns that start
/// `slice_bytes` apart. Starts at a multiple of 1024 bytes; wgmma_advance by 128 r goes to row r of k, a
/// multiple of 8.
__device__ __forceinline__ u64 wgmma_mn_major(const void* tile, unsigned slice_bytes) {
    return wgmma_layout(slice_bytes) | wgmma_address(tile);
}

/// Before the first wgmma, and when other instructions changed the accumulators or what the descriptors describe.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
/// Ends a group: all wgmma since the last one.
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}

/// Before a loop in which a flag that is not constant says whether wgmma overwrites the accumulator. ptxas of CUDA 12.8 and
/// before must see it initialised there: it would else initialise it between the wgmma, and serialize them (its C7515). For
/// later ones this is nothing. What the accumulator held is lost; no wgmma of it may be under way. The host checks both.
template <int N>
__device__ __forceinline__ void wgmma_define([[maybe_unused]] WgmmaAccumulator<N>& accumulator) {
    if constexpr (kEarlierPtxas) {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) accumulator.values[i] = 0.0f;
    }
}

/// The compiler takes the accumulators as changed here, so that it reads them after this and not before.
template <int N>
__device__ __forceinline__ void wgmma_touch(WgmmaAccumulator<N>& accumulator) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(accumulator.values[i]) : : "memory");
}
/// Until at most PENDING of the groups that this thread committed last are under way. What the operands of
/// the others occupy may then be written, and their accumulators read if they are named here.
template <int PENDING, class... Accumulators>
__device__ __forceinline__ void wgmma_wait(Accumulators&... accumulators) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(PENDING) : "memory");
    (wgmma_touch(accumulators), ...);
}
template <int PENDING, int N, int COUNT>
__device__ __forceinline__ void wgmma_wait(WgmmaAccumulator<N> (&accumulators)[COUNT]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(PENDING) : "memory");
#pragma unroll
    for (int i = 0; i < COUNT; ++i) wgmma_touch(accumulators[i]);
}

// A PTX instruction names all its registers one by one: %0 to %9 and so on, and the operands that they stand
// for.
#define KILN_10(t) \
    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define KILN_30 KILN_10() KILN_10(1) KILN_10(2)
#define KILN_60 KILN_30 KILN_10(3) KILN_10(4) KILN_10(5)
#define KILN_90 KILN_60 KILN_10(6) KILN_10(7) KILN_10(8)
#define KILN_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KILN_F16(i) KILN_F4(i), KILN_F4(i + 4), KILN_F4(i + 8), KILN_F4(i + 12)
#define KILN_F32(i) KILN_F16(i), KILN_F16(i + 16)
#define KILN_F64(i) KILN_F32(i), KILN_F32(i + 32)
// The last five: the numbers of the operands that follow the registers.
#define KILN_WGMMA_OF(T, type, n, names, operands, a, b, more, a_mn, b_mn)                      \
    template <bool A_MN, bool B_MN>                                                             \
    __device__ __forceinline__ void wgmma_issue(T, float(&d)[n / 2], u64 a_tile, u64 b_tile,    \
                                                bool accumulate) {                              \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #more                                 \
                     ", 0;\n"                                                                   \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" names \
                     "}, "                                                                      \
                     "%" #a ", %" #b ", p, 1, 1, %" #a_mn ", %" #b_mn ";\n}"                    \
                     : KILN_LIST operands                                                       \
                     : "l"(a_tile), "l"(b_tile), "r"(static_cast<int>(accumulate)),             \
                       "n"(static_cast<int>(A_MN)), "n"(static_cast<int>(B_MN))                 \
                     : "memory");                                                               \
    }
#define KILN_WGMMA(...) KILN_WGMMA_OF(half, "f16", __VA_ARGS__) KILN_WGMMA_OF(bfloat16, "bf16", __VA_ARGS__)
#define KILN_LIST(...) __VA_ARGS__

KILN_WGMMA(64, KILN_30 "%30,%31", (KILN_F32(0)), 32, 33, 34, 35, 36)
KILN_WGMMA(96, KILN_30 KILN_10(3) "%40,%41,%42,%43,%44,%45,%46,%47", (KILN_F32(0), KILN_F16(32)), 48, 49, 50,
           51, 52)
KILN_WGMMA(128, KILN_60 "%60,%61,%62,%63", (KILN_F64(0)), 64, 65, 66, 67, 68)
KILN_WGMMA(144, KILN_60 KILN_10(6) "%70,%71", (KILN_F64(0), KILN_F4(64), KILN_F4(68)), 72, 73, 74, 75, 76)
KILN_WGMMA(160, KILN_60 KILN_10(6) "%70,%71,%72,%73,%74,%75,%76,%77,%78,%79", (KILN_F64(0), KILN_F16(64)), 80,
           81, 82, 83, 84)
KILN_WGMMA(176, KILN_60 KILN_10(6) KILN_10(7) "%80,%81,%82,%83,%84,%85,%86,%87",
           (KILN_F64(0), KILN_F16(64), KILN_F4(80), KILN_F4(84)), 88, 89, 90, 91, 92)
KILN_WGMMA(192, KILN_90 "%90,%91,%92,%93,%94,%95", (KILN_F64(0), KILN_F32(64)), 96, 97, 98, 99, 100)
KILN_WGMMA(256, KILN_90 KILN_10(9) KILN_10(10) KILN_10(11) "%120,%121,%122,%123,%124,%125,%126,%127",
           (KILN_F64(0), KILN_F64(64)), 128, 129, 130, 131, 132)

#undef KILN_10
#undef KILN_30
#undef KILN_60
#undef KILN_90
#undef KILN_F4
#undef KILN_F16
#undef KILN_F32
#undef KILN_F64
#undef KILN_WGMMA_OF
#undef KILN_WGMMA
#undef KILN_LIST

/// C = A * B, or C += A * B. Starts it; all 128 threads call it with the same descriptors. A_MN, B_MN: the
/// operand's descriptor comes from wgmma_mn_major, not from wgmma_k_major.
template <class T, bool A_MN, bool B_MN, int N>
__device__ __forceinline__ void wgmma(WgmmaAccumulator<N>& c, u64 a_tile, u64 b_tile, bool accumulate) {
    wgmma_issue<A_MN, B_MN>(T{}, c.values, a_tile, b_tile, accumulate);
}

/// Warpgroup register reallocation, by all warps of a warpgroup: from now on each thread has COUNT registers, a
/// multiple of 8 from 24 to 256. setmaxnreg_inc waits until other warpgroups have released as many by
/// setmaxnreg_dec. Needs __launch_bounds__(threads, blocks), and counts that add up to what a block was launched with.
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(COUNT));
}
template <int COUNT>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(COUNT));
}

/// True for one lane of the warp, which all lanes call together.
__device__ __forceinline__ bool elect_one() {
    unsigned elected;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(elected));
    return elected != 0;
}

}  // namespace kiln

#endif
