// SPDX-License-Identifier: Apache-2.0
//
// Hopper's matrix instruction with A in registers (sm_90a; the host emulates it): the product of one wgmma
// becomes an operand of the next without a way through shared memory. Offered:
//   kiln::WgmmaFragments<STEPS>       a thread's share of A, 64 x (16 STEPS) of half or bfloat16
//   kiln::wgmma_pack<T>(a, c)         fills it from a 64 x (16 STEPS) result: both lie in the same places
//   kiln::wgmma<T, B_MN>(c, a, step, b_tile, accumulate)
//                                     64 x N floats += columns 16 step to 16 step + 15 of A, times B
// The rest, and what the fence and the waits are for, is in kiln/wgmma.h; fragments count as operands: they
// must not change, nor cease to be, before the wait. The layout is that of the PTX ISA, "Register Fragments"
// of wgmma.mma_async.m64nNk16.
#pragma once

#include "kiln/mma.h"
#include "kiln/wgmma.h"

#if !defined(__CUDACC_RTC__) && !defined(__CUDACC__)
#include "kiln/host_wgmma_registers.h"
#else

namespace kiln {

/// values[s][i] holds the columns 16 s + i / 2 * 8 + thread % 4 * 2 and the next one, in the low and the high
/// half, of row thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8. `thread`: in its warpgroup.
template <int STEPS>
struct WgmmaFragments {
    unsigned values[STEPS][4];
};

#define KILN_10(t) \
    "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9,"
#define KILN_30 KILN_10() KILN_10(1) KILN_10(2)
#define KILN_60 KILN_30 KILN_10(3) KILN_10(4) KILN_10(5)
#define KILN_90 KILN_60 KILN_10(6) KILN_10(7) KILN_10(8)
#define KILN_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define KILN_F16(i) KILN_F4(i), KILN_F4(i + 4), KILN_F4(i + 8), KILN_F4(i + 12)
#define KILN_F32(i) KILN_F16(i), KILN_F16(i + 16)
// The last seven: the numbers of the operands that follow the registers of the accumulators.
#define KILN_WGMMA_OF(T, type, n, names, operands, a0, a1, a2, a3, b, more, b_mn)                       \
    template <bool B_MN>                                                                                \
    __device__ __forceinline__ void wgmma_issue(T, float(&d)[n / 2], const unsigned(&a)[4], u64 b_tile, \
                                                bool accumulate) {                                      \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #more                                         \
                     ", 0;\n"                                                                           \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" names         \
                     "}, "                                                                              \
                     "{%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b ", p, 1, 1, %" #b_mn ";\n}"          \
                     : KILN_LIST operands                                                               \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_tile),                         \
                       "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(B_MN))                   \
                     : "memory");                                                                       \
    }
#define KILN_WGMMA(...) KILN_WGMMA_OF(half, "f16", __VA_ARGS__) KILN_WGMMA_OF(bfloat16, "bf16", __VA_ARGS__)
#define KILN_LIST(...) __VA_ARGS__

KILN_WGMMA(64, KILN_30 "%30,%31", (KILN_F32(0)), 32, 33, 34, 35, 36, 37, 38)
KILN_WGMMA(96, KILN_30 KILN_10(3) "%40,%41,%42,%43,%44,%45,%46,%47", (KILN_F32(0), KILN_F16(32)), 48, 49, 50,
           51, 52, 53, 54)
KILN_WGMMA(128, KILN_60 "%60,%61,%62,%63", (KILN_F32(0), KILN_F32(32)), 64, 65, 66, 67, 68, 69, 70)
KILN_WGMMA(192, KILN_90 "%90,%91,%92,%93,%94,%95", (KILN_F32(0), KILN_F32(32), KILN_F32(64)), 96, 97, 98, 99,
           100, 101, 102)
KILN_WGMMA(256, KILN_90 KILN_10(9) KILN_10(10) KILN_10(11) "%120,%121,%122,%123,%124,%125,%126,%127",
           (KILN_F32(0), KILN_F32(32), KILN_F32(64), KILN_F32(96)), 128, 129, 130, 131, 132, 133, 134)

#undef KILN_10
#undef KILN_30
#undef KILN_60
#undef KILN_90
#undef KILN_F4
#undef KILN_F16
#undef KILN_F32
#undef KILN_WGMMA_OF
#undef KILN_WGMMA
#undef KILN_LIST

/// C = A * B, or C += A * B, with 16 columns of A out of `a`. N is 64, 96, 128, 192 or 256. Starts it; all 128 threads
/// call it with the same descriptor. B_MN: that comes from wgmma_mn_major, not from wgmma_k_major.
template <class T, bool B_MN, int N, int STEPS>
__device__ __forceinline__ void wgmma(WgmmaAccumulator<N>& c, const WgmmaFragments<STEPS>& a, int step,
                                      u64 b_tile, bool accumulate) {
    wgmma_issue<B_MN>(T{}, c.values, a.values[step], b_tile, accumulate);
}

}  // namespace kiln

#endif

namespace kiln {

/// Rounds accumulators to nearest even, and makes them the A of the next product.
template <class T, int STEPS>
__device__ __forceinline__ void wgmma_pack(WgmmaFragments<STEPS>& a, const WgmmaAccumulator<STEPS * 16>& c) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = i % 2, col = step * 4 + i / 2 * 2;
            a.values[step][i] = pack2<T>(c(row, col), c(row, col + 1));
        }
    }
}

}  // namespace kiln
