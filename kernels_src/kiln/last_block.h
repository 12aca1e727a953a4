// SPDX-License-Identifier: Apache-2.0
//
// kiln::is_last_block: for kernels whose blocks leave partial results behind, to be put together by whichever
// block ends last. The blocks need not run at the same time, and the partial results can be joined in a fixed
// order, so that equal inputs give equal bits. The pattern of the CUDA samples' threadFenceReduction.
#pragma once

#include "kiln/reduce.h"

namespace kiln {

/// True in all threads of the last of `blocks` blocks that call it with this ticket, in global memory and zero
/// at first; what the others wrote before their call is then visible. Leaves the ticket at zero, for the next
/// launch; one that failed may leave it otherwise. All threads of the block must make the call.
__device__ __forceinline__ bool is_last_block(unsigned* ticket, unsigned blocks) {
    __shared__ unsigned arrived;
    __threadfence();
    __syncthreads();
    if (thread_rank() == 0) {
        arrived = atomicAdd(ticket, 1u);
        if (arrived == blocks - 1) *ticket = 0;
    }
    __syncthreads();
    const bool is_last = arrived == blocks - 1;
    if (is_last) __threadfence();
    return is_last;
}

/// The same for a block that takes several such tickets at once, each by one thread: between two barriers of the block,
/// of which the first follows what it wrote.
__device__ __forceinline__ bool is_last_arrival(unsigned* ticket, unsigned blocks) {
    unsigned arrived;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    // One access that both releases what the block wrote and acquires what the others did costs less than fences.
    asm volatile("atom.global.add.acq_rel.gpu.u32 %0, [%1], 1;"
                 : "=r"(arrived)
                 : "l"(__cvta_generic_to_global(ticket))
                 : "memory");
#else
    __threadfence();
    arrived = atomicAdd(ticket, 1u);
    __threadfence();
#endif
    if (arrived == blocks - 1) *ticket = 0;
    return arrived == blocks - 1;
}

}  // namespace kiln
