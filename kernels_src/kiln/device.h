// SPDX-License-Identifier: Apache-2.0
//
// The prelude: what a kernel includes to be the same source for NVRTC, hipRTC and the host compiler.
// All differences sit in device_cuda.h, device_hip.h and device_host.h, each of which gives
//   kiln::half, kiln::bfloat16      16-bit storage types; explicit conversions from and to float
//   kiln::dynamic_shared<T>()       the dynamic shared memory of the block, at least 16-byte aligned
// and the words of CUDA C++ where the compiler lacks them. This file adds what is common to all:
//   kiln::Vec<T, N>, load, store    N elements moved as one access of up to 16 bytes
//   kiln::ceil_div, min, max        usable in constant expressions
//   kiln::TensorMap                 the type of a `//@ tensormap` argument
#pragma once

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#include "kiln/device_cuda.h"
#elif defined(__HIPCC_RTC__) || defined(__HIPCC__)
#include "kiln/device_hip.h"
#else
#include "kiln/device_host.h"
#endif

namespace kiln {

using i64 = long long;
using u64 = unsigned long long;

/// N elements that are copied as a whole. Its address must be a multiple of its alignment: the size,
/// 16 bytes at most.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
    static_assert(N > 0 && (N & (N - 1)) == 0, "the width of a vector is a power of two");

    T v[N];

    __host__ __device__ __forceinline__ T& operator[](int i) { return v[i]; }
    __host__ __device__ __forceinline__ const T& operator[](int i) const { return v[i]; }
};

template <int N, class T>
__device__ __forceinline__ Vec<T, N> load(const T* from) {
    return *reinterpret_cast<const Vec<T, N>*>(from);
}
template <int N, class T>
__device__ __forceinline__ void store(T* to, const Vec<T, N>& value) {
    *reinterpret_cast<Vec<T, N>*>(to) = value;
}

/// Which box of which tensor a TMA instruction moves: the argument `const __grid_constant__ kiln::TensorMap`
/// of a kernel. Made at each launch from the template's `//@ tensormap` line. Its content is the driver's
/// own on CUDA; on the host it is a kiln_host::TensorMap.
struct alignas(128) TensorMap {
    unsigned long long opaque[16];
};

template <class T>
__host__ __device__ __forceinline__ constexpr T ceil_div(T a, T b) {
    return (a + b - 1) / b;
}
template <class T>
__host__ __device__ __forceinline__ constexpr T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
__host__ __device__ __forceinline__ constexpr T max(T a, T b) {
    return a < b ? b : a;
}

}  // namespace kiln
