// SPDX-License-Identifier: Apache-2.0
//
// kiln::sync_grid: a barrier of all blocks of a grid, for kernels with a line `//@ cooperative`, whose blocks all run at
// once. cooperative_groups::this_grid().sync() does the same where CUDA's headers are.
//
// Each block adds 1 to a word in device memory, the first one as much as makes the sum of all 0x80000000: when the word's
// highest bit has changed, all have come. The other bits are then zero again, so that the next barrier, and the next
// launch with whatever grid, finds the word ready.
#pragma once

#include "kiln/reduce.h"

namespace kiln {

/// Waits until all threads of all blocks have called it; what they wrote before is then visible to all of them. barrier:
/// in device memory and zero before its first use, as `//@ scratch barrier [1] = 0` gives it; for one launch at a time.
__device__ __forceinline__ void sync_grid([[maybe_unused]] unsigned* barrier) {
    __syncthreads();
    if (thread_rank() == 0) {
#if defined(KILN_HOST_GRID_BARRIER)
        if (barrier == nullptr) kiln_host::trap("kiln::sync_grid got a null pointer");
        if ((kiln_host::value_at(barrier) & 0x7fffffffu) != 0)
            kiln_host::trap("the word of kiln::sync_grid is not zero, as it must be before its first use");
        kiln_host::sync_grid();
#else
        __threadfence();
        const bool is_first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        const unsigned before = atomicAdd(barrier, is_first ? 0x80000000u - (blocks - 1) : 1u);
        while (((before ^ *static_cast<volatile unsigned*>(barrier)) & 0x80000000u) == 0) {
        }
        __threadfence();
#endif
    }
    __syncthreads();
}

}  // namespace kiln
