// SPDX-License-Identifier: Apache-2.0
//
// Hints for what is known to be needed before it is known when:
//   kiln::prefetch_to_l2(address)           the line of global memory there
//   kiln::prefetch_to_l2_by_warp<N>(begin)  the N bytes from there on
// CUDA only; HIP and the host do nothing.
#pragma once

#include "kiln/device.h"

namespace kiln {

__device__ __forceinline__ void prefetch_to_l2([[maybe_unused]] const void* address) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(address)));
#endif
}

/// BYTES, begin: multiples of 16. All lanes of a warp make the call together.
template <int BYTES>
__device__ __forceinline__ void prefetch_to_l2_by_warp([[maybe_unused]] const void* begin) {
    static_assert(BYTES % 16 == 0, "bulk prefetches move 16 bytes at a time");
#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                     :
                     : "l"(__cvta_generic_to_global(begin)), "n"(BYTES));
#else
    for (int i = static_cast<int>(threadIdx.x) % 32 * 128; i < BYTES; i += 32 * 128)
        prefetch_to_l2(static_cast<const char*>(begin) + i);
#endif
#endif
}

}  // namespace kiln
