// histogram: counts of byte values, by atomics in shared memory
//
// Each block counts in shared memory, in REPLICAS tables that its warps share out, so that equal values of
// several warps do not wait for each other; a table's pitch of 257 puts the same value of two tables into
// different banks. At its end a block adds what it counted to the counts in global memory.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  histogram
//@ param   VEC      int in 1, 4, 8, 16 = 16                 "bytes per access"
//@ param   REPLICAS int in 1, 2, 4, 8, 16 = 8               "tables per block"
//@ param   THREADS  int in 256, 512, 1024 = 512             "threads per block"
//@ param   BLOCKS   int in 132, 264, 528, 1056 = 528        "blocks at most"
//@ size    n = 67108864 test 100003
//@ input   x [n]
//@ inout   counts [256] = 0 by histogram_reference exact "the counts are added to it"
//@ naive   histogram_naive
//@ block   THREADS
//@ grid    min(BLOCKS, ceil_div(n, THREADS * VEC))
//@ shared  static REPLICAS * 257 * sizeof(uint32_t)
#include "kiln/device.h"

using kiln::i64;

constexpr int kValues = 256;
constexpr int kPitch = kValues + 1;
constexpr int kThreadsPerTable = THREADS / REPLICAS;
// A block's counts have 32 bits; before they could overflow it adds them to the global ones.
constexpr i64 kLargestRound = 1ll << 31;

extern "C" __global__ __launch_bounds__(THREADS) void histogram(long long n, const unsigned char* __restrict__ x,
                                                                unsigned long long* counts) {
    __shared__ unsigned tables[REPLICAS * kPitch];
    const int thread = threadIdx.x;
    unsigned* const table = tables + thread / kThreadsPerTable * kPitch;
    const i64 stride = static_cast<i64>(gridDim.x) * THREADS;
    const bool aligned = reinterpret_cast<kiln::u64>(x) % VEC == 0;

    for (i64 begin = 0; begin < n; begin += kLargestRound) {
        const unsigned char* const from = x + begin;
        const i64 count = kiln::min(n - begin, kLargestRound);
        const i64 vectors = aligned ? count / VEC : 0;
        for (int i = thread; i < REPLICAS * kPitch; i += THREADS) tables[i] = 0;
        __syncthreads();

        const i64 first = static_cast<i64>(blockIdx.x) * THREADS + thread;
        for (i64 i = first; i < vectors; i += stride) {
            const auto values = kiln::load<VEC>(from + i * VEC);
#pragma unroll
            for (int v = 0; v < VEC; ++v) atomicAdd(&table[values[v]], 1u);
        }
        for (i64 i = vectors * VEC + first; i < count; i += stride) atomicAdd(&table[from[i]], 1u);
        __syncthreads();

        for (int value = thread; value < kValues; value += THREADS) {
            unsigned sum = 0;
#pragma unroll
            for (int replica = 0; replica < REPLICAS; ++replica) sum += tables[replica * kPitch + value];
            if (sum != 0) atomicAdd(&counts[value], static_cast<unsigned long long>(sum));
        }
        __syncthreads();
    }
}
