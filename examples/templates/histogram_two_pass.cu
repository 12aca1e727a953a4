// histogram_two_pass: counts of byte values by two kernels: blocks count on their own, then the counts are added up
//
// A launch runs both, one behind the other. What the first leaves in `partial` is the workspace between them, so that
// no block waits for another one and no atomic operation meets another block's.
// SPDX-License-Identifier: Apache-2.0
//
//@ param   THREADS int in 128, 256, 512 = 256  "threads of a block that counts"
//@ param   BLOCKS  int in 132, 264, 528 = 264  "blocks that count"
//@ size    n = 268435456 test 100003
//@ input   x [n]
//@ scratch partial [BLOCKS, 256]
//@ inout   counts [256] in 0..1000 by histogram_reference exact "the counts are added to it"
//
//@ kernel  histogram_two_pass
//@ block   THREADS
//@ grid    BLOCKS
//@ shared  static 256 * sizeof(uint32_t)
//
//@ kernel  add_partial_counts
//@ block   64
//@ grid    4
#include "kiln/device.h"

constexpr int kValues = 256;

extern "C" __global__ __launch_bounds__(THREADS) void histogram_two_pass(long long n, const unsigned char* __restrict__ x,
                                                                         unsigned* __restrict__ partial) {
    __shared__ unsigned counted[kValues];
    for (int value = threadIdx.x; value < kValues; value += THREADS) counted[value] = 0;
    __syncthreads();
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += step)
        atomicAdd(&counted[x[i]], 1u);
    __syncthreads();
    for (int value = threadIdx.x; value < kValues; value += THREADS)
        partial[blockIdx.x * kValues + value] = counted[value];
}

extern "C" __global__ void add_partial_counts(const unsigned* __restrict__ partial,
                                              unsigned long long* __restrict__ counts) {
    const int value = blockIdx.x * 64 + threadIdx.x;
    unsigned long long sum = 0;
    for (int block = 0; block < BLOCKS; ++block) sum += partial[block * kValues + value];
    counts[value] += sum;
}
