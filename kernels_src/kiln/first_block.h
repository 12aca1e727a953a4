// SPDX-License-Identifier: Apache-2.0
//
// kiln::first_block_is_done, kiln::await_first_block: for kernels whose blocks all need what the first one prepares, such as
// zeros to add to. One word of global memory says so, zero at first and left at zero: the first block sets it to the
// number of blocks, and each of them subtracts one when it has seen that. So nobody ends last to reset it, and no block waits
// for the result of an atomic operation.
// Blocks wait for the first one, which must run or have run by then: devices start blocks in the order of their numbers.
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
    }
    __threadfence();
#endif
    atomicAdd(state, ~0u);
}

}  // namespace kiln
