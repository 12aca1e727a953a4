// sum_naive: the sum of an array by one block, whose first thread adds up what the others leave in shared memory
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  sum_naive
//@ param   T        type in half, bfloat16, float = float  "element type; the sum is float"
//@ param   THREADS  int in 256 = 256  "threads of the block"
//@ param   BLOCKS   int in 1 = 1      "blocks; there is one"
//@ size    n = 67108864 test 100003
//@ input   x [n]
//@ output  sum [1] by sum_reference exact
//@ flops   n
//@ block   THREADS
//@ grid    BLOCKS
//@ shared  static THREADS * sizeof(float)
//@ model   search [BLOCKS], [THREADS]
#include "kiln/device.h"

extern "C" __global__ __launch_bounds__(THREADS) void sum_naive(long long n, const T* __restrict__ x,
                                                                float* __restrict__ sum) {
    __shared__ float sums[THREADS];
    float mine = 0.0f;
    for (kiln::i64 i = threadIdx.x; i < n; i += THREADS) mine += static_cast<float>(x[i]);
    sums[threadIdx.x] = mine;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < THREADS; ++i) mine += sums[i];
    *sum = mine;
}
