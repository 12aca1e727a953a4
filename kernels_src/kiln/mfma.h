// SPDX-License-Identifier: Apache-2.0
//
// The matrix cores of AMD's CDNA GPUs (gfx908, gfx90a), one wave of 64 lanes at a time: sums += A * B, with
//   mfma_f32_32x32x8f16, mfma_f32_16x16x16f16            half
//   mfma_f32_32x32x8bf16_1k, mfma_f32_16x16x16bf16_1k    bfloat16, from gfx90a on
//   mfma_f32_32x32x4bf16, mfma_f32_16x16x8bf16           bfloat16, the forms of gfx908
//   mfma_f32_32x32x2f32, mfma_f32_16x16x4f32             float
//   mfma<SIZE>(sums, a, b)                               the one of SIZE x SIZE for the type of a and b
//   MfmaFragment<SIZE>, MfmaSums<SIZE>, mfma_depth<T>    which lane holds which element, and how many
// On the host a wave is two warps of the block, and its fibers exchange what they hold by the same tables, so
// that a kernel with a wrong layout has wrong results there; the products of one call and the sum so far are
// added in double and rounded once.
// Source of the tables: AMD Instinct MI200 Instruction Set Architecture, chapter 7, and AMD's matrix
// instruction calculator. Compiled for gfx908 and gfx90a by the tests, run by none of them.
#pragma once

#include "kiln/device.h"

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#error "kiln/mfma.h is for AMD GPUs and the host; the tensor cores of NVIDIA are in kiln/mma.h"
#endif

namespace kiln {

/// Lanes that run a matrix instruction together, on the host too.
constexpr int kWaveSize = 64;

/// C of SIZE x SIZE. A lane holds `depth` elements of A's row and of B's column lane % SIZE: steps of k from
/// k(lane, 0, depth) on. Of C it holds the sums i = 0 .. kSums - 1.
template <int SIZE>
struct MfmaFragment {
    static_assert(SIZE == 16 || SIZE == 32, "C is 16 x 16 or 32 x 32");
    static constexpr int kSums = SIZE * SIZE / kWaveSize;
    static constexpr int kGroups = kWaveSize / SIZE;  ///< of lanes; each has other steps of k

    static __host__ __device__ constexpr int a_row(int lane) { return lane % SIZE; }
    static __host__ __device__ constexpr int b_col(int lane) { return lane % SIZE; }
    static __host__ __device__ constexpr int k(int lane, int i, int depth) { return lane / SIZE * depth + i; }
    static __host__ __device__ constexpr int c_row(int lane, int i) {
        return i / 4 * (4 * kGroups) + lane / SIZE * 4 + i % 4;
    }
    static __host__ __device__ constexpr int c_col(int lane) { return lane % SIZE; }
};

}  // namespace kiln

#if defined(__HIPCC_RTC__) || defined(__HIPCC__)

#if defined(__HIP_DEVICE_COMPILE__) && !defined(__gfx908__) && !defined(__gfx90a__)
#error "kiln/mfma.h needs gfx908 or gfx90a; say so in the template's arch line"
#endif

namespace kiln {

/// A lane's part of C. Zero at first.
template <int SIZE>
struct MfmaSums {
    typedef float Registers __attribute__((ext_vector_type(MfmaFragment<SIZE>::kSums)));
    Registers registers = 0.0f;

    __device__ __forceinline__ float operator[](int i) const { return registers[i]; }
};

typedef _Float16 MfmaHalf4 __attribute__((ext_vector_type(4)));
typedef short MfmaShort4 __attribute__((ext_vector_type(4)));
typedef short MfmaShort2 __attribute__((ext_vector_type(2)));

#define KILN_MFMA(SIZE, T, DEPTH, name, Operand)                                                           \
    __device__ __forceinline__ void name(MfmaSums<SIZE>& sums, const Vec<T, DEPTH>& a,                     \
                                         const Vec<T, DEPTH>& b) {                                         \
        sums.registers = __builtin_amdgcn_##name(__builtin_bit_cast(Operand, a),                           \
                                                 __builtin_bit_cast(Operand, b), sums.registers, 0, 0, 0); \
    }

#else

namespace kiln {

template <int SIZE>
struct MfmaSums {
    float registers[MfmaFragment<SIZE>::kSums] = {};

    float operator[](int i) const { return registers[i]; }
};

}  // namespace kiln

namespace kiln_host {

/// What the lanes of a wave hold of A and B, for as many waves as there are named barriers.
constexpr int kMostWaves = 15;
struct MfmaOperands {
    unsigned char a[8], b[8];
};
KILN_HOST_STATE MfmaOperands mfma_operands[kMostWaves][kiln::kWaveSize];

template <int SIZE, class T, int DEPTH>
inline void mfma(kiln::MfmaSums<SIZE>& sums, const kiln::Vec<T, DEPTH>& a, const kiln::Vec<T, DEPTH>& b) {
    using F = kiln::MfmaFragment<SIZE>;
    constexpr int kSteps = F::kGroups * DEPTH;
    static_assert(sizeof(a) <= sizeof(MfmaOperands::a), "");
    [[maybe_unused]] const Muted muted{};
    const int wave = int(current->warp) / 2, lane = int(current->warp % 2 * kWarpSize + current->lane);
    if (wave >= kMostWaves) trap("matrix instructions of AMD: the host has room for 15 waves per block");
    MfmaOperands* const operands = mfma_operands[wave];
    __builtin_memcpy(operands[lane].a, &a, sizeof(a));
    __builtin_memcpy(operands[lane].b, &b, sizeof(b));
    kiln::named_barrier_sync(unsigned(1 + wave), kiln::kWaveSize);

    const auto element = [](const unsigned char* bytes, int i) {
        T value;
        __builtin_memcpy(&value, bytes + i * sizeof(T), sizeof(T));
        return static_cast<double>(static_cast<float>(value));
    };
    double column[kSteps];
    for (int group = 0; group < F::kGroups; ++group) {
        const int other = group * SIZE + F::c_col(lane);
        for (int i = 0; i < DEPTH; ++i) column[F::k(other, i, DEPTH)] = element(operands[other].b, i);
    }
    for (int r = 0; r < F::kSums; ++r) {
        double sum = static_cast<double>(sums.registers[r]);
        for (int group = 0; group < F::kGroups; ++group) {
            const int other = group * SIZE + F::c_row(lane, r);
            for (int i = 0; i < DEPTH; ++i)
                sum += element(operands[other].a, i) * column[F::k(other, i, DEPTH)];
        }
        sums.registers[r] = static_cast<float>(sum);
    }
    // Before the operands of the next call come to the same place.
    kiln::named_barrier_sync(unsigned(1 + wave), kiln::kWaveSize);
}

}  // namespace kiln_host

namespace kiln {

#define KILN_MFMA(SIZE, T, DEPTH, name, Operand)                                             \
    inline void name(MfmaSums<SIZE>& sums, const Vec<T, DEPTH>& a, const Vec<T, DEPTH>& b) { \
        kiln_host::mfma<SIZE>(sums, a, b);                                                   \
    }

#endif

KILN_MFMA(32, half, 4, mfma_f32_32x32x8f16, MfmaHalf4)
KILN_MFMA(16, half, 4, mfma_f32_16x16x16f16, MfmaHalf4)
KILN_MFMA(32, bfloat16, 2, mfma_f32_32x32x4bf16, MfmaShort2)
KILN_MFMA(16, bfloat16, 2, mfma_f32_16x16x8bf16, MfmaShort2)
#if !defined(__gfx908__)
KILN_MFMA(32, bfloat16, 4, mfma_f32_32x32x8bf16_1k, MfmaShort4)
KILN_MFMA(16, bfloat16, 4, mfma_f32_16x16x16bf16_1k, MfmaShort4)
#endif
KILN_MFMA(32, float, 1, mfma_f32_32x32x2f32, float)
KILN_MFMA(16, float, 1, mfma_f32_16x16x4f32, float)
#undef KILN_MFMA

/// Elements of A and of B that a lane gives to one mfma<SIZE>.
template <class T>
constexpr int mfma_depth = 4;
template <>
constexpr int mfma_depth<float> = 1;
#if defined(__gfx908__)
template <>
constexpr int mfma_depth<bfloat16> = 2;
#endif

template <int SIZE, class T>
__device__ __forceinline__ void mfma(MfmaSums<SIZE>& sums, const Vec<T, mfma_depth<T>>& a,
                                     const Vec<T, mfma_depth<T>>& b) = delete;
#define KILN_MFMA(SIZE, T, name)                                                                         \
    template <>                                                                                          \
    __device__ __forceinline__ void mfma<SIZE, T>(MfmaSums<SIZE> & sums, const Vec<T, mfma_depth<T>>& a, \
                                                  const Vec<T, mfma_depth<T>>& b) {                      \
        name(sums, a, b);                                                                                \
    }
KILN_MFMA(32, half, mfma_f32_32x32x8f16)
KILN_MFMA(16, half, mfma_f32_16x16x16f16)
#if defined(__gfx908__)
KILN_MFMA(32, bfloat16, mfma_f32_32x32x4bf16)
KILN_MFMA(16, bfloat16, mfma_f32_16x16x8bf16)
#else
KILN_MFMA(32, bfloat16, mfma_f32_32x32x8bf16_1k)
KILN_MFMA(16, bfloat16, mfma_f32_16x16x16bf16_1k)
#endif
KILN_MFMA(32, float, mfma_f32_32x32x2f32)
KILN_MFMA(16, float, mfma_f32_16x16x4f32)
#undef KILN_MFMA

}  // namespace kiln
