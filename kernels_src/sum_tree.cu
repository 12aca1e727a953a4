// sum_tree: the sum of an array; each block adds its threads' sums by a tree in shared memory
//
// SEQUENTIAL: in each step of the tree the lower half of the threads that are left adds the upper half's
// values: neighbours read neighbours. Otherwise thread i adds what lies i * 2 * distance further, which leaves
// lanes idle in every warp and makes them meet in the same banks: what to avoid. The last block to end adds
// the blocks' sums in a fixed order.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  sum_tree
//@ param   T           type in half, bfloat16, float = float       "element type; the sum is float"
//@ param   THREADS     int in 64, 128, 256, 512, 1024 = 256        "threads per block"
//@ param   BLOCKS      int in 1, 132, 264, 528, 1056, 2112 = 1056  "blocks at most"
//@ param   SEQUENTIAL  bool = true                                 "neighbouring threads add neighbouring values"
//@ size    n = 67108864 test 100003
//@ input   x [n]
//@ scratch partial [BLOCKS]
//@ scratch ticket [1] = 0
//@ output  sum [1] by sum_reference exact
//@ flops   n
//@ naive   sum_naive
//@ block   THREADS
//@ grid    max(1, min(BLOCKS, ceil_div(n, THREADS)))
//@ shared  static (THREADS + 1) * sizeof(float)
//@ model   search [BLOCKS], [THREADS]
#include "kiln/last_block.h"

using kiln::i64;

// The sum of one value per thread, in thread 0.
__device__ __forceinline__ float tree(float mine) {
    __shared__ float sums[THREADS];
    const int thread = threadIdx.x;
    __syncthreads();
    sums[thread] = mine;
    __syncthreads();
    for (int step = 1; step < THREADS; step *= 2) {
        if constexpr (SEQUENTIAL) {
            const int distance = THREADS / 2 / step;
            if (thread < distance) sums[thread] += sums[thread + distance];
        } else {
            const int target = thread * 2 * step;
            if (target < THREADS) sums[target] += sums[target + step];
        }
        __syncthreads();
    }
    return sums[0];
}

extern "C" __global__ __launch_bounds__(THREADS) void sum_tree(long long n, const T* __restrict__ x, float* partial,
                                                               unsigned* ticket, float* __restrict__ sum) {
    const int thread = threadIdx.x;
    const i64 stride = static_cast<i64>(gridDim.x) * THREADS;
    float mine = 0.0f;
    for (i64 i = static_cast<i64>(blockIdx.x) * THREADS + thread; i < n; i += stride) mine += static_cast<float>(x[i]);
    const float block_sum = tree(mine);
    if (thread == 0) partial[blockIdx.x] = block_sum;
    if (!kiln::is_last_block(ticket, gridDim.x)) return;
    mine = 0.0f;
    for (unsigned block = thread; block < gridDim.x; block += THREADS) mine += partial[block];
    const float total = tree(mine);
    if (thread == 0) *sum = total;
}
