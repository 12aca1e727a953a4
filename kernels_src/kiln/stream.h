// SPDX-License-Identifier: Apache-2.0
//
// kiln::stream_load: a load with a hint for the caches, for kernels that read each byte of global memory once.
//   kiln::stream_load<N, STREAM>(from)   like kiln::load<N>; where STREAM is true nothing of it stays in L1
// The hint changes speed and nothing else. A hinted load goes by the read-only path: what it reads must not be
// written by the same launch. CUDA alone takes it; HIP and the host make plain loads.
#pragma once

#include "kiln/device.h"

namespace kiln {

#if defined(__CUDA_ARCH__)

#if __CUDA_ARCH__ >= 800
#define KILN_STREAM_LOAD "ld.global.nc.L1::no_allocate.L2::128B"
#else
#define KILN_STREAM_LOAD "ld.global.nc.L1::no_allocate"
#endif

template <int N, bool STREAM, class T>
__device__ __forceinline__ Vec<T, N> stream_load(const T* from) {
    constexpr int kBytes = N * static_cast<int>(sizeof(T));
    if constexpr (!STREAM || kBytes < 4) {
        return load<N>(from);
    } else {
        // Volatile, so that loads stay where they are written: all of a group before the first use.
        Vec<unsigned, kBytes / 4> words;
        if constexpr (kBytes == 16)
            asm volatile(KILN_STREAM_LOAD ".v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                         : "l"(from));
        else if constexpr (kBytes == 8)
            asm volatile(KILN_STREAM_LOAD ".v2.u32 {%0, %1}, [%2];"
                         : "=r"(words[0]), "=r"(words[1])
                         : "l"(from));
        else
            asm volatile(KILN_STREAM_LOAD ".u32 %0, [%1];" : "=r"(words[0]) : "l"(from));
        using Result = Vec<T, N>;
        return __builtin_bit_cast(Result, words);
    }
}

#undef KILN_STREAM_LOAD

#else

template <int N, bool STREAM, class T>
__device__ __forceinline__ Vec<T, N> stream_load(const T* from) {
    return load<N>(from);
}

#endif

}  // namespace kiln
