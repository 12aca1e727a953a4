// reduce_template: the sum of an array by two kernels that are C++ templates, named with their arguments
//
// Code that has such kernels needs no extern "C" instances of them: `kernel` lines name the instances.
// SPDX-License-Identifier: Apache-2.0
//
//@ param   T        type in half, bfloat16, float = float  "element type; the sum is float"
//@ param   THREADS  int in 64, 128, 256, 512 = 256         "threads of a block"
//@ param   BLOCKS   int in 1, 132, 264, 528 = 264          "blocks of the first kernel"
//@ size    n = 67108864 test 100003
//@ input   x [n]
//@ scratch partial [BLOCKS]
//@ output  sum [1] by sum_reference exact
//@ flops   n
//
//@ kernel  reduce_template<T, THREADS>
//@ block   THREADS
//@ grid    BLOCKS
//@ shared  static THREADS * sizeof(float)
//
//@ kernel  add_partial_sums<BLOCKS, THREADS>
//@ block   THREADS
//@ grid    1
//@ shared  static THREADS * sizeof(float)
#include "kiln/device.h"

template <int BLOCK>
__device__ __forceinline__ float block_sum(float* sums, float mine) {
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
        if (static_cast<int>(threadIdx.x) < distance) sums[threadIdx.x] += sums[threadIdx.x + distance];
        __syncthreads();
    }
    return sums[0];
}

template <class Element, int BLOCK>
__global__ __launch_bounds__(BLOCK) void reduce_template(long long n, const Element* __restrict__ x,
                                                         float* __restrict__ partial) {
    __shared__ float sums[BLOCK];
    const long long step = static_cast<long long>(gridDim.x) * BLOCK;
    float mine = 0.0f;
    for (long long i = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x; i < n; i += step)
        mine += static_cast<float>(x[i]);
    mine = block_sum<BLOCK>(sums, mine);
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

template <int COUNT, int BLOCK>
__global__ __launch_bounds__(BLOCK) void add_partial_sums(const float* __restrict__ partial, float* __restrict__ sum) {
    __shared__ float sums[BLOCK];
    float mine = 0.0f;
    for (int i = threadIdx.x; i < COUNT; i += BLOCK) mine += partial[i];
    mine = block_sum<BLOCK>(sums, mine);
    if (threadIdx.x == 0) *sum = mine;
}
