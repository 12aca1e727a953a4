// SPDX-License-Identifier: Apache-2.0
//
// The tensor cores of NVIDIA GPUs from sm_80 on (mma.sync, ldmatrix), one warp at a time:
//   mma_m16n8k16<T>(c, a, b0, b1)       C += A * B: 16 x 8 floats, A 16 x 16 and B 16 x 8 of half or bfloat16
//   ldmatrix_x4, _x4_trans, _x2, ...    4 or 2 matrices of 8 x 8 from shared memory, as fragments
//   MatrixAddress, matrix_address       where in shared memory they begin, to add bytes to
//   pack2<T>(low, high)                 two floats, rounded, in one register of a fragment
//   MmaFragment                         which lane holds which element
//   MmaAccumulator                      a lane's fragment of C, by rows and columns
// The matrices lie spread over the lanes: each holds a fragment of registers, two 16-bit elements in each,
// the one with the smaller column (A, C) or row (B) in the low half. All 32 lanes make each call together.
// The host exchanges fragments among the fibers of a warp by the same tables, so that a kernel with a wrong
// layout has wrong results there; it sums the 16 products and C in double, and rounds once.
// Source of the tables: PTX ISA 8.0, sections 9.7.13.4.8 (mma.m16n8k16) and 9.7.13.4.15 (ldmatrix).
// Not here: AMD (mfma.h), wgmma.
#pragma once

#include "kiln/device.h"

#if defined(__HIPCC_RTC__) || defined(__HIPCC__)
#error "kiln/mma.h is for NVIDIA GPUs and the host; the matrix cores of AMD are in kiln/mfma.h"
#endif

namespace kiln {

/// Element i of the fragment that `lane` holds of A (i below 8), B and C (below 4) in mma_m16n8k16. Elements
/// 2 r and 2 r + 1 of A and B are in register r.
struct MmaFragment {
    static __host__ __device__ constexpr int a_row(int lane, int i) { return lane / 4 + i / 2 % 2 * 8; }
    static __host__ __device__ constexpr int a_col(int lane, int i) {
        return lane % 4 * 2 + i % 2 + i / 4 * 8;
    }
    static __host__ __device__ constexpr int b_row(int lane, int i) {
        return lane % 4 * 2 + i % 2 + i / 2 * 8;
    }
    static __host__ __device__ constexpr int b_col(int lane, int) { return lane / 4; }
    static __host__ __device__ constexpr int c_row(int lane, int i) { return lane / 4 + i / 2 * 8; }
    static __host__ __device__ constexpr int c_col(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

/// A lane's fragment of C: 2 rows, 8 apart, with 2 neighbouring columns each.
struct MmaAccumulator {
    float values[4];  ///< in the order of the instruction's registers

    __host__ __device__ __forceinline__ float& operator()(int row, int col) { return values[row * 2 + col]; }
    __host__ __device__ __forceinline__ float operator()(int row, int col) const {
        return values[row * 2 + col];
    }
};

}  // namespace kiln

#if defined(__CUDA_ARCH__)

#if __CUDA_ARCH__ < 800
#error "kiln/mma.h needs sm_80 or later; say so in the template's arch line"
#endif

namespace kiln {

template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1) = delete;
template <>
__device__ __forceinline__ void mma_m16n8k16<half>(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                   unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma_m16n8k16<bfloat16>(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                       unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// An address in shared memory, in bytes: what is added to it stays in 32 bits, or in the instruction.
using MatrixAddress = unsigned;
__device__ __forceinline__ MatrixAddress matrix_address(const void* shared) { return shared_address(shared); }

/// Lane l gives the address of row l % 8 of matrix l / 8: 8 elements of 16 bits, aligned to 16 bytes.
/// Register i holds elements 2 (lane % 4) and the next of row lane / 4 of matrix i.
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], MatrixAddress row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], const void* row) {
    ldmatrix_x4(r, matrix_address(row));
}
/// The same with each matrix transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], MatrixAddress row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) {
    ldmatrix_x4_trans(r, matrix_address(row));
}
/// Two matrices; the addresses of lanes 16 to 31 are not used.
__device__ __forceinline__ void ldmatrix_x2(unsigned (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(matrix_address(row))
                 : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned (&r)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(matrix_address(row))
                 : "memory");
}

/// Both rounded to nearest even.
template <class T>
__device__ __forceinline__ unsigned pack2(float low, float high) = delete;
template <>
__device__ __forceinline__ unsigned pack2<half>(float low, float high) {
    unsigned result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}
template <>
__device__ __forceinline__ unsigned pack2<bfloat16>(float low, float high) {
    unsigned result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

}  // namespace kiln

#else

namespace kiln_host {

/// All lanes of the warp give a value of up to 16 bytes; read(lane, values) may look at those of all.
template <class T, class Read>
inline void gather(const T& mine, Read read) {
    static_assert(sizeof(T) <= sizeof(Deposit), "lanes exchange up to 16 bytes");
    [[maybe_unused]] const Muted muted{};
    const bool all = wait([&](Thread* self, const Runtime& runtime) {
        unsigned arrived;
        const Deposit* values = runtime.exchange(self, 0xffffffffu, &mine, sizeof(T), &arrived);
        if (arrived == 0xffffffffu) read(int(self->lane), values);
        return arrived == 0xffffffffu;
    });
    if (!all) trap("mma.sync and ldmatrix need all 32 lanes of the warp");
}

/// Element i of a register array that a lane gave.
template <class T>
inline float element(const Deposit& registers, int i) {
    T value;
    __builtin_memcpy(&value, registers.bytes + i * sizeof(T), sizeof(T));
    return static_cast<float>(value);
}

template <int MATRICES, bool TRANSPOSED>
inline void ldmatrix(unsigned (&r)[MATRICES], const void* row) {
    Deposit mine = {};
    const bool gives_row = int(lane_number()) < 8 * MATRICES;
    if (gives_row) tell(AccessKind::matrix_load, row, 16);
    [[maybe_unused]] const Muted muted{};
    if (gives_row) {
        if (reinterpret_cast<size_t>(row) % 16 != 0) trap("ldmatrix: a row is not aligned to 16 bytes");
        __builtin_memcpy(&mine, row, 16);
    }
    gather(mine, [&](int lane, const Deposit* rows) {
        for (int i = 0; i < MATRICES; ++i) {
            unsigned short pair[2];
            for (int e = 0; e < 2; ++e) {
                const int across = lane / 4, along = lane % 4 * 2 + e;
                const int matrix_row = TRANSPOSED ? along : across, matrix_col = TRANSPOSED ? across : along;
                __builtin_memcpy(&pair[e], rows[8 * i + matrix_row].bytes + 2 * matrix_col, 2);
            }
            __builtin_memcpy(&r[i], pair, 4);
        }
    });
}

}  // namespace kiln_host

namespace kiln {

template <class T>
inline void mma_m16n8k16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    static_assert(sizeof(T) == 2, "half or bfloat16");
    [[maybe_unused]] const kiln_host::Muted muted{};
    using F = MmaFragment;
    // What this lane's results need: two rows of A and two columns of B.
    float rows[2][16], cols[2][16];
    kiln_host::gather(a, [&](int lane, const kiln_host::Deposit* fragments) {
        for (int other = lane / 4 * 4; other < lane / 4 * 4 + 4; ++other)
            for (int i = 0; i < 8; ++i)
                rows[F::a_row(other, i) / 8][F::a_col(other, i)] = kiln_host::element<T>(fragments[other], i);
    });
    const unsigned b[2] = {b0, b1};
    kiln_host::gather(b, [&](int lane, const kiln_host::Deposit* fragments) {
        for (int e = 0; e < 2; ++e)
            for (int other = F::c_col(lane, e) * 4; other < F::c_col(lane, e) * 4 + 4; ++other)
                for (int i = 0; i < 4; ++i)
                    cols[e][F::b_row(other, i)] = kiln_host::element<T>(fragments[other], i);
    });
    for (int i = 0; i < 4; ++i) {
        double sum = 0;
        for (int k = 0; k < 16; ++k)
            sum += static_cast<double>(rows[i / 2][k]) * static_cast<double>(cols[i % 2][k]);
        c[i] = static_cast<float>(static_cast<double>(c[i]) + sum);
    }
}

using MatrixAddress = const unsigned char*;
inline MatrixAddress matrix_address(const void* shared) { return static_cast<const unsigned char*>(shared); }

inline void ldmatrix_x4(unsigned (&r)[4], const void* row) { kiln_host::ldmatrix<4, false>(r, row); }
inline void ldmatrix_x4_trans(unsigned (&r)[4], const void* row) { kiln_host::ldmatrix<4, true>(r, row); }
inline void ldmatrix_x2(unsigned (&r)[2], const void* row) { kiln_host::ldmatrix<2, false>(r, row); }
inline void ldmatrix_x2_trans(unsigned (&r)[2], const void* row) { kiln_host::ldmatrix<2, true>(r, row); }

template <class T>
inline unsigned pack2(float low, float high) {
    return unsigned(T(low).bits) | unsigned(T(high).bits) << 16;
}

}  // namespace kiln

#endif
