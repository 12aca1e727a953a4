// SPDX-License-Identifier: Apache-2.0
//
// Functions of a float that are one instruction on an NVIDIA GPU, and less exact than those of the C library:
//   kiln::fast_reciprocal(x)         1 / x
//   kiln::fast_exp2(x)               2^x
#pragma once

#include "kiln/device.h"

namespace kiln {

/// 1 / x, relative error at most 2^-23; 0 above 2^126.
__device__ __forceinline__ float fast_reciprocal(float x) {
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return 1.0f / x;
#endif
}

/// 2^x, relative error at most 2^-22; below 2^-126 it may be 0; 0 for -infinity, exactly 1 for 0.
__device__ __forceinline__ float fast_exp2(float x) {
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return exp2f(x);
#endif
}

}  // namespace kiln
