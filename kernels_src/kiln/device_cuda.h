// SPDX-License-Identifier: Apache-2.0
//
// The CUDA part of the prelude: kiln::half, kiln::bfloat16, kiln::dynamic_shared, kiln::shared_address and named barriers
// for NVRTC. Needs no other header, since every header costs compile time in every process that compiles: the
// conversions are single PTX instructions. Bit-compatible with the types of <kiln/types.h> on the host.
#pragma once

namespace kiln {

/// IEEE 754 binary16. Conversion from float rounds to nearest even; every NaN becomes 0x7fff.
struct half {
    unsigned short bits;

    half() = default;
    explicit __device__ __forceinline__ half(float value) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    }
    explicit __device__ __forceinline__ operator float() const {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
};

/// The upper 16 bits of a binary32. Conversion from float rounds to nearest even; every NaN becomes 0x7fff.
struct bfloat16 {
    unsigned short bits;

    bfloat16() = default;
    explicit __device__ __forceinline__ bfloat16(float value) {
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
        const unsigned word = __float_as_uint(value);
        bits = (word & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
#endif
    }
    explicit __device__ __forceinline__ operator float() const {
        return __uint_as_float(static_cast<unsigned>(bits) << 16);
    }
};

/// All dynamic shared memory of a block starts here.
extern __shared__ __align__(1024) unsigned char kiln_dynamic_shared[];

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
    return reinterpret_cast<T*>(kiln_dynamic_shared);
}

/// What instructions on shared memory take for its address.
__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/// Waits until `threads` threads of the block, a multiple of the warp size, have arrived at barrier `id`,
/// from 1 to 15. Whole warps arrive: all lanes of a warp make the call together.
__device__ __forceinline__ void named_barrier_sync(unsigned id, unsigned threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}
/// Counts as one of those threads, and goes on.
__device__ __forceinline__ void named_barrier_arrive(unsigned id, unsigned threads) {
    asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

}  // namespace kiln
