// sum_shuffle: the sum of an array by vector loads, shuffles, and one partial sum per block
//
// A thread has UNROLL loads under way, each added to a sum of its own. The last block to end adds the blocks'
// sums in a fixed order.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  sum_shuffle
//@ param   T       type in half, bfloat16, float = float       "element type; the sum is float"
//@ param   VEC     int in 1, 2, 4, 8 = 4                       "elements per access"
//@ param   UNROLL  int in 1, 2, 4, 8 = 4                       "accesses under way per thread"
//@ param   THREADS int in 64, 128, 256, 512, 1024 = 512        "threads per block"
//@ param   BLOCKS  int in 1, 132, 264, 528, 1056, 2112 = 528   "blocks at most"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ size    n = 67108864 test 100003
//@ input   x [n]
//@ scratch partial [BLOCKS]
//@ scratch ticket [1] = 0
//@ output  sum [1] by sum_reference exact
//@ flops   n
//@ naive   sum_naive
//@ block   THREADS
//@ grid    min(BLOCKS, ceil_div(n, THREADS * VEC * UNROLL))
#include "kiln/last_block.h"

using kiln::i64;

extern "C" __global__ __launch_bounds__(THREADS) void sum_shuffle(long long n, const T* __restrict__ x, float* partial,
                                                                  unsigned* ticket, float* __restrict__ sum) {
    const i64 stride = static_cast<i64>(gridDim.x) * THREADS;
    const i64 first = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const bool aligned = reinterpret_cast<kiln::u64>(x) % (VEC * sizeof(T)) == 0;
    const i64 vectors = aligned ? n / VEC : 0;
    float sums[UNROLL] = {};

    i64 i = first;
    for (; i + (UNROLL - 1) * stride < vectors; i += UNROLL * stride) {
        kiln::Vec<T, VEC> values[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) values[u] = kiln::load<VEC>(x + (i + u * stride) * VEC);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int v = 0; v < VEC; ++v) sums[u] += static_cast<float>(values[u][v]);
        }
    }
    for (; i < vectors; i += stride) {
        const auto values = kiln::load<VEC>(x + i * VEC);
#pragma unroll
        for (int v = 0; v < VEC; ++v) sums[0] += static_cast<float>(values[v]);
    }
    for (i = vectors * VEC + first; i < n; i += stride) sums[0] += static_cast<float>(x[i]);

    float mine = sums[0];
#pragma unroll
    for (int u = 1; u < UNROLL; ++u) mine += sums[u];
    const float block_sum = kiln::block_reduce<THREADS>(mine, kiln::Sum{});
    if (threadIdx.x == 0) partial[blockIdx.x] = block_sum;
    if (!kiln::is_last_block(ticket, gridDim.x)) return;
    mine = 0.0f;
    for (unsigned block = threadIdx.x; block < gridDim.x; block += THREADS) mine += partial[block];
    const float total = kiln::block_reduce<THREADS>(mine, kiln::Sum{});
    if (threadIdx.x == 0) *sum = total;
}
