// histogram: counts of byte values, by atomics in shared memory
//
// Each block counts in shared memory, in tables of COUNTERS_PER_BIN counters per value. Neighbouring threads take different
// ones of them; with 32 each lane of a warp has a bank of its own, whatever the values are. The block's warps are
// distributed over REPLICAS tables; the pitch of a table puts the same counter of two tables in different banks. All threads
// of the grid take the same number of accesses, give or take one, so that no block ends late. At its end a block adds what
// it counted to the counts in global memory.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  histogram
//@ param   VEC              int in 1, 4, 8, 16 = 16                 "bytes per access"
//@ param   UNROLL           int in 1, 2, 4 = 4                      "accesses under way per thread"
//@ param   COUNTERS_PER_BIN int in 1, 8, 16, 32 = 32                "counters per value in a table"
//@ param   REPLICAS         int in 1, 2, 4, 8, 16 = 1               "tables per block"
//@ param   THREADS          int in 256, 512, 1024 = 1024            "threads per block"
//@ param   BLOCKS           int in 132, 264, 528, 1056 = 264        "blocks at most"
//@ param   L1_NO_ALLOCATE   bool = true                              "loads leave nothing in L1"
//@ size    n = 268435456 test 100003
//@ input   x [n]
//@ inout   counts [256] = 0 by histogram_reference exact "the counts are added to it"
//@ naive   histogram_naive
//@ block   THREADS
//@ grid    min(BLOCKS, ceil_div(n, THREADS * VEC))
//@ shared  static REPLICAS * (256 * COUNTERS_PER_BIN + 1) * sizeof(uint32_t)
//@ model   access VEC, UNROLL
//@ model   search [VEC], [UNROLL], [THREADS], [BLOCKS]
#include "kiln/stream.h"

using kiln::i64;

constexpr int kValues = 256;
constexpr int kPitch = kValues * COUNTERS_PER_BIN + 1;
constexpr int kThreadsPerTable = THREADS / REPLICAS;
#if defined(__CUDA_ARCH__)
constexpr int kLanesAtOnce = COUNTERS_PER_BIN;
#else
constexpr int kLanesAtOnce = kiln::min(COUNTERS_PER_BIN, 8);  // 1024 threads leave each 64 registers on RDNA
#endif
// A block's counts have 32 bits; before they could overflow it adds them to the global ones.
constexpr i64 kLargestRound = 1ll << 31;

// Whole accesses are taken apart as words: a byte's place in the table is a shift and a mask of its word.
template <int WIDTH>
__device__ __forceinline__ void count_vector(unsigned* table, const kiln::Vec<unsigned char, WIDTH>& bytes) {
    if constexpr (WIDTH % 4 == 0) {
        using Words = kiln::Vec<unsigned, WIDTH / 4>;
        const auto words = __builtin_bit_cast(Words, bytes);
#pragma unroll
        for (int w = 0; w < WIDTH / 4; ++w) {
#pragma unroll
            for (int byte = 0; byte < 4; ++byte) atomicAdd(&table[(words[w] >> 8 * byte & 255u) * COUNTERS_PER_BIN], 1u);
        }
    } else {
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) atomicAdd(&table[bytes[v] * COUNTERS_PER_BIN], 1u);
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void histogram(long long n, const unsigned char* __restrict__ x,
                                                                unsigned long long* counts) {
    __shared__ unsigned tables[REPLICAS * kPitch];
    const int thread = threadIdx.x;
    unsigned* const table = tables + thread / kThreadsPerTable * kPitch + thread % COUNTERS_PER_BIN;
    const i64 stride = static_cast<i64>(gridDim.x) * THREADS;

    for (i64 begin = 0; begin < n; begin += kLargestRound) {
        const unsigned char* const from = x + begin;
        const i64 count = kiln::min(n - begin, kLargestRound);
        for (int i = thread; i < REPLICAS * kPitch; i += THREADS) tables[i] = 0;
        __syncthreads();

        // Accesses begin at the first multiple of their width; the first block also counts what is before and behind them.
        const i64 lead = kiln::min(count, static_cast<i64>((VEC - reinterpret_cast<kiln::u64>(from) % VEC) % VEC));
        const i64 accesses = (count - lead) / VEC;
        const unsigned char* const vectors = from + lead;
        i64 i = static_cast<i64>(blockIdx.x) * THREADS + thread;
#pragma unroll 1
        for (; i + (UNROLL - 1) * stride < accesses; i += UNROLL * stride) {
            kiln::Vec<unsigned char, VEC> values[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
                values[u] = kiln::stream_load<VEC, L1_NO_ALLOCATE>(vectors + (i + u * stride) * VEC);
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) count_vector(table, values[u]);
        }
#pragma unroll 1
        for (; i < accesses; i += stride)
            count_vector(table, kiln::stream_load<VEC, L1_NO_ALLOCATE>(vectors + i * VEC));
        if (blockIdx.x == 0 && thread < count - accesses * VEC)
            atomicAdd(&table[from[thread < lead ? thread : thread + accesses * VEC] * COUNTERS_PER_BIN], 1u);
        __syncthreads();

        for (int value = thread; value < kValues; value += THREADS) {
            unsigned sum = 0;
#pragma unroll
            for (int replica = 0; replica < REPLICAS; ++replica) {
                // Neighbouring values begin with another counter each, since COUNTERS_PER_BIN may be all banks.
#pragma unroll kLanesAtOnce
                for (int lane = 0; lane < COUNTERS_PER_BIN; ++lane)
                    sum += tables[replica * kPitch + value * COUNTERS_PER_BIN + (lane + value) % COUNTERS_PER_BIN];
            }
            if (sum != 0) atomicAdd(&counts[value], static_cast<unsigned long long>(sum));
        }
        __syncthreads();
    }
}
