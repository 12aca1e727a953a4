// SPDX-License-Identifier: Apache-2.0
//
// kiln::is_last_block: for kernels whose blocks leave partial results behind, to be put together by whichever
// block ends last. The blocks need not run at the same time, and the partial results can be joined in a fixed
// order, so that equal inputs give equal bits. The pattern of the CUDA samples' threadFenceReduction, with one access in place
// of its fences.
#pragma once

#include "kiln/reduce.h"

namespace kiln {

/// True for the last of `blocks` calls with this ticket, in global memory and zero at first; what the blocks wrote before their
/// calls is then visible. Leaves the ticket at zero, for the next launch; one that failed may leave it otherwise. By one
/// thread of a block, between two barriers of it: the first follows what the block wrote, and the second makes what the
/// others wrote known to all of its threads. Threads of a block may take several tickets at once.
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

/// The same, in all threads of the block, which make the call together.
__device__ __forceinline__ bool is_last_block(unsigned* ticket, unsigned blocks) {
    __shared__ bool is_last;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 700
    __threadfence();  // elsewhere than in PTX's memory model one thread's fence need not cover the others' writes
#endif
    __syncthreads();
    if (thread_rank() == 0) is_last = is_last_arrival(ticket, blocks);
    __syncthreads();
    return is_last;
}

}  // namespace kiln
