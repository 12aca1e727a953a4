// SPDX-License-Identifier: Apache-2.0
//
// kiln::publish, kiln::sum_published: for kernels whose last block adds up one number of each block before it. A number and a
// flag that it is there share a word of global memory, as in scans by decoupled look-back, zero at first and left at zero. So a
// block that publishes goes on at once, and a number is there when a read finds it: unlike with kiln::is_last_block, no fence
// and no count lie between. A launch that failed may leave words otherwise.
// The block that adds up waits for the others, so it must be the one with the highest number. CUDA and HIP do not promise that
// the others have begun by then, but devices start blocks in the order of their numbers; kiln/first_block.h depends on that
// as well.
#pragma once

#include "kiln/device.h"

namespace kiln {

/// A float, and above it 1 where there is one.
using FlaggedFloat = unsigned long long;

/// By one thread.
__device__ __forceinline__ void publish(FlaggedFloat* to, float value) {
    const FlaggedFloat word = 1ull << 32 | __float_as_uint(value);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(to)), "l"(word)
                 : "memory");
#else
    atomicExch(to, word);
#endif
}

/// What is there by now.
__device__ __forceinline__ FlaggedFloat poll(FlaggedFloat* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    FlaggedFloat found;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                 : "=l"(found)
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
    return found;
#else
    const FlaggedFloat found = atomicAdd(from, 0ull);
#if defined(KILN_HOST_GRID_BARRIER)  // blocks of the host, which may fail
    if (found == 0) kiln_host::end_if_failed();
#endif
    return found;
#endif
}

/// For the next launch.
__device__ __forceinline__ void reset(FlaggedFloat* word) {
#if defined(__CUDA_ARCH__)
    *word = 0;
#else
    atomicExch(word, 0ull);
#endif
}

/// Waits for `count` numbers, each `stride` words behind the one before, and returns their sum, added up in this order. The words
/// are reset. AT_ONCE are read before the first is waited for.
template <int AT_ONCE>
__device__ __forceinline__ float sum_published(FlaggedFloat* words, unsigned count, unsigned stride) {
    float sum = 0.0f;
#pragma unroll 1
    for (; count > 0; count -= count < AT_ONCE ? count : AT_ONCE, words += AT_ONCE * stride) {
        FlaggedFloat found[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (static_cast<unsigned>(i) < count) found[i] = poll(words + i * stride);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (static_cast<unsigned>(i) < count) {
                while (found[i] >> 32 == 0) found[i] = poll(words + i * stride);
                reset(words + i * stride);
                sum += __uint_as_float(static_cast<unsigned>(found[i]));
            }
        }
    }
    return sum;
}

}  // namespace kiln
