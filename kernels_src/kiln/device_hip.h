// SPDX-License-Identifier: Apache-2.0
//
// The HIP part of the prelude: kiln::half, kiln::bfloat16, kiln::dynamic_shared, and the warp words of
// CUDA that HIP before 7.0 lacks. Includes nothing: under hipRTC <hip/hip_fp16.h> and <stdint.h> clash
// with what it has built in. Compiled for gfx906 to gfx1030 by the tests; run by none of them.
// Lanes: 64 on CDNA and GCN, 32 on RDNA; masks and ballots have 64 bits everywhere.
#pragma once

namespace kiln {

/// IEEE 754 binary16. Conversion from float rounds to nearest even; a NaN stays a NaN.
struct half {
    unsigned short bits;

    half() = default;
    explicit __device__ __forceinline__ half(float value)
        : bits(__builtin_bit_cast(unsigned short, static_cast<_Float16>(value))) {}
    explicit __device__ __forceinline__ operator float() const {
        return static_cast<float>(__builtin_bit_cast(_Float16, bits));
    }
};

/// The upper 16 bits of a binary32. Conversion from float rounds to nearest even; every NaN becomes 0x7fff.
struct bfloat16 {
    unsigned short bits;

    bfloat16() = default;
    explicit __device__ __forceinline__ bfloat16(float value) {
        const unsigned word = __builtin_bit_cast(unsigned, value);
        bits = (word & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
    }
    explicit __device__ __forceinline__ operator float() const {
        return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
    }
};

/// All dynamic shared memory of a block starts here.
extern __shared__ __attribute__((aligned(1024))) unsigned char kiln_dynamic_shared[];

template <class T>
__device__ __forceinline__ T* dynamic_shared() {
    return reinterpret_cast<T*>(kiln_dynamic_shared);
}

/// The GPUs up to gfx11 have one barrier per block.
__device__ void named_barrier_sync(unsigned id, unsigned threads)
    __attribute__((unavailable("named barriers need CUDA or the host; use __syncthreads()")));
__device__ void named_barrier_arrive(unsigned id, unsigned threads)
    __attribute__((unavailable("named barriers need CUDA or the host; use __syncthreads()")));

}  // namespace kiln

/// A pause of the warp of some 64 cycles per unit; s_sleep takes a constant, so the length is only a hint.
__device__ __forceinline__ void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }

// ROCm 7 has these words, 6.2 to 6.4 behind the macro. The lanes of a wave run in lockstep, so a mask only
// selects whose votes count. As in CUDA, every lane named in the mask must make the call.
#if HIP_VERSION_MAJOR < 7 && !defined(HIP_ENABLE_WARP_SYNC_BUILTINS)

__device__ __forceinline__ void __syncwarp(unsigned long long = ~0ull) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

__device__ __forceinline__ unsigned long long __activemask() { return __ballot(1); }

__device__ __forceinline__ unsigned long long __ballot_sync(unsigned long long mask, int predicate) {
    return __ballot(predicate) & mask;
}
__device__ __forceinline__ int __any_sync(unsigned long long mask, int predicate) {
    return (__ballot(predicate) & mask) != 0;
}
__device__ __forceinline__ int __all_sync(unsigned long long mask, int predicate) {
    return (__ballot(!predicate) & mask) == 0;
}

template <class T>
__device__ __forceinline__ T __shfl_sync(unsigned long long, T value, int lane, int width = warpSize) {
    return __shfl(value, lane, width);
}
template <class T>
__device__ __forceinline__ T __shfl_up_sync(unsigned long long, T value, unsigned delta,
                                            int width = warpSize) {
    return __shfl_up(value, delta, width);
}
template <class T>
__device__ __forceinline__ T __shfl_down_sync(unsigned long long, T value, unsigned delta,
                                              int width = warpSize) {
    return __shfl_down(value, delta, width);
}
template <class T>
__device__ __forceinline__ T __shfl_xor_sync(unsigned long long, T value, int lane_mask,
                                             int width = warpSize) {
    return __shfl_xor(value, lane_mask, width);
}

#endif
