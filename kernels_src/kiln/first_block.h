// SPDX-License-Identifier: Apache-2.0
//
// kiln::first_block_is_done, kiln::await_first_block: for kernels whose blocks all need what block 0 prepares, such as
// zeros to add to. One word of global memory says so, zero at first and left at zero: block 0 sets it to the number of
// blocks, and each block, block 0 included, awaits it once and subtracts one. So no block stays to reset it, and none waits for
// the result of an atomic operation. A launch that failed may leave it otherwise.
// Blocks wait for block 0, which must run or have run by then. CUDA and HIP do not promise it, but devices start
// blocks in the order of their numbers; scans that look back to earlier blocks depend on that as well.
#pragma once

#include "kiln/device.h"

namespace kiln {

/// By one thread of block 0, behind a barrier of the threads that prepared something. blocks: of the grid.
__device__ __forceinline__ void first_block_is_done(unsigned* state, unsigned blocks) {
    __threadfence();
    atomicAdd(state, blocks);
}

/// By one thread of each block, the first included: returns when the first block is done. What it prepared is visible to
/// this thread, and behind a barrier to its block.
__device__ __forceinline__ void await_first_block(unsigned* state) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    unsigned waiting;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(waiting)
                     : "l"(__cvta_generic_to_global(state))
                     : "memory");
    } while (waiting == 0);
#else
    while (atomicAdd(state, 0u) == 0) {
#if defined(KILN_HOST_GRID_BARRIER)  // blocks of the host, which may fail
        kiln_host::end_if_failed();
#endif
    }
    __threadfence();
#endif
    atomicAdd(state, ~0u);
}

}  // namespace kiln
