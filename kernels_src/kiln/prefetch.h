// SPDX-License-Identifier: Apache-2.0
//
// kiln::prefetch_to_l2(address): a hint to fetch the line of global memory there, for what is known to be needed
// before it is known when. CUDA only; HIP and the host do nothing.
#pragma once

#include "kiln/device.h"

namespace kiln {

__device__ __forceinline__ void prefetch_to_l2([[maybe_unused]] const void* address) {
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(address)));
#endif
}

}  // namespace kiln
