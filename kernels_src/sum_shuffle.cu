// sum_shuffle: the sum of TERM of an array's elements by vector loads, shuffles, and one partial sum per block
//
// A block adds up tiles of THREADS * VEC * UNROLL neighbours, BLOCKS tiles apart. A thread has UNROLL loads under
// way, each added to a sum of its own. The last block adds the blocks' sums, in a fixed order, as they come.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  sum_shuffle
//@ param   T              type in half, bfloat16, float = float       "element type; the sum is float"
//@ param   VEC            int in 1, 2, 4, 8 = 4                       "elements per access"
//@ param   UNROLL         int in 1, 2, 4, 8, 16 = 4                   "accesses under way per thread"
//@ param   THREADS        int in 64, 128, 256, 512, 1024 = 512        "threads per block"
//@ param   BLOCKS         int in 1, 132, 264, 528, 1056, 2112, 4224, 8448, 16896 = 528  "blocks at most"
//@ param   L1_NO_ALLOCATE bool = true                                  "loads leave nothing in L1"
//@ param   PDL            bool = false                            "may begin while the kernel before it still runs"
//@ param   TERM           code = "return x;" (float x, long long i) -> float  "what is added for x, element i"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require threads * (VEC * UNROLL * sizeof(T) / 4 + 24) <= device.registers_per_block  "what each thread has under way must fit its registers: use fewer UNROLL, or fewer threads"
//@ size    n = 268435456 test 100003
//@ input   x [n]
//@ scratch sums_of_blocks [BLOCKS] = 0
//@ output  sum [1] by sum_reference exact
//@ flops   n
//@ naive   sum_naive
//@ dependent PDL
//@ block   THREADS
//@ grid    max(1, min(BLOCKS, ceil_div(n, THREADS * VEC * UNROLL)))
//@ model   access VEC, UNROLL
//@ model   search [BLOCKS], [VEC], [UNROLL], [THREADS]
#include "kiln/flagged_float.h"
#include "kiln/launch.h"
#include "kiln/reduce.h"
#include "kiln/stream.h"

using kiln::i64;

constexpr i64 kTile = static_cast<i64>(THREADS) * VEC * UNROLL;

extern "C" __global__ __launch_bounds__(THREADS) void sum_shuffle(long long n, const T* __restrict__ x,
                                                                  unsigned long long* sums_of_blocks, float* __restrict__ sum) {
    const int thread = threadIdx.x;
    if constexpr (PDL) {
        kiln::wait_for_previous_grid();
        x = kiln::after_previous_grid(x);
    }
    const bool aligned = reinterpret_cast<kiln::u64>(x) % (VEC * sizeof(T)) == 0;
    float sums[UNROLL] = {};
#pragma unroll 1
    for (i64 first = blockIdx.x * kTile; first < n; first += gridDim.x * kTile) {
        if (aligned && first + kTile <= n) {
            const T* const from = x + first + thread * VEC;
            kiln::Vec<T, VEC> values[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) values[u] = kiln::stream_load<VEC, L1_NO_ALLOCATE>(from + u * (THREADS * VEC));
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
                for (int v = 0; v < VEC; ++v)
                    sums[u] += TERM(static_cast<float>(values[u][v]), first + (u * THREADS + thread) * VEC + v);
            }
        } else {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
                for (int v = 0; v < VEC; ++v) {
                    const i64 i = first + (u * VEC + v) * THREADS + thread;
                    if (i < n) sums[u] += TERM(static_cast<float>(x[i]), i);
                }
            }
        }
    }

    if constexpr (PDL) kiln::let_next_grid_start();

    float mine = sums[0];
#pragma unroll
    for (int u = 1; u < UNROLL; ++u) mine += sums[u];
    const float block_sum = kiln::block_reduce<THREADS>(mine, kiln::Sum{});
    const unsigned last = gridDim.x - 1;
    if (blockIdx.x < last) {
        if (thread == 0) kiln::publish(sums_of_blocks + blockIdx.x, block_sum);
        return;
    }
    mine = kiln::sum_published<4>(sums_of_blocks + thread, (last + THREADS - 1 - thread) / THREADS, THREADS);
    if (thread == last % THREADS) mine += block_sum;
    const float total = kiln::block_reduce<THREADS>(mine, kiln::Sum{});
    if (thread == 0) *sum = total;
}
