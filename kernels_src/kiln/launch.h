// SPDX-License-Identifier: Apache-2.0
//
// Kernels that begin while the one before them in the stream still runs (CUDA's programmatic dependent launch):
//   kiln::wait_for_previous_grid()   returns when that grid has ended and all that it wrote is visible
//   kiln::after_previous_grid(p)     the same pointer, through which nothing is read before that
//   kiln::let_next_grid_start()      from here on, when all blocks have come so far, the next grid may begin
//
//   kiln::wait_for_previous_grid();
//   x = kiln::after_previous_grid(x);
//
// The template says so by a line `//@ dependent CONDITION`. Every block has a thread that waits, and a thread waits
// before it writes to global memory or reads what the grid before may write. Each argument that it then reads through
// goes by after_previous_grid: a compiler may otherwise read early through const __restrict__, since nothing in this
// kernel writes there. Before the wait a kernel may do what depends on no memory: its indices, its barriers, clearing
// its shared memory.
// Let the next grid start behind the wait, never before it. So when a grid begins, all but the one right before it have
// ended, and what that one does not write can be read without waiting, as gemm_skinny reads its weights. Were the next
// grid let go first, the one after it could still read old values there.
// Letting the next grid start costs nothing where that one does not wait itself: it then starts when the one
// before it has ended.
// From sm_90 on. Elsewhere, on HIP and on the host, grids follow each other, and all of these do nothing.
#pragma once

#include "kiln/device.h"

namespace kiln {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ __forceinline__ void wait_for_previous_grid() {
    asm volatile("griddepcontrol.wait;" : : : "memory");
}
__device__ __forceinline__ void let_next_grid_start() {
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
}
template <class T>
__device__ __forceinline__ T* after_previous_grid(T* pointer) {
    // Volatile statements keep their order, and what is read needs the result of this one.
    asm volatile("" : "+l"(pointer) : : "memory");
    return pointer;
}

#else

__device__ __forceinline__ void wait_for_previous_grid() {}
__device__ __forceinline__ void let_next_grid_start() {}
template <class T>
__device__ __forceinline__ T* after_previous_grid(T* pointer) {
    return pointer;
}

#endif

}  // namespace kiln
