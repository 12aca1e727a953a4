// histogram: counts of byte values, by atomics in shared memory
//
// Each block counts in shared memory, in tables of COUNTERS_PER_BIN counters per value. Neighbouring threads take different
// ones of them; with 32 each lane of a warp has a bank of its own, whatever the values are. The block's warps are
// distributed over REPLICAS tables; the pitch of a table puts the same counter of two tables in different banks. All threads
// of the grid take the same number of accesses, give or take one, so that no block ends late. The first ones are under way
// while the tables are cleared, and each is replaced by the next as soon as it is counted, so that loads and atomics overlap
// in every warp. At its end a block adds what it counted to the counts in global memory. With SET these need not be zero: the
// first block clears them while all of them count.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  histogram
//@ param   VEC              int in 1, 4, 8, 16 = 16                 "bytes per access"
//@ param   UNROLL           int in 1, 2 = 2                         "accesses under way per thread"
//@ param   COUNTERS_PER_BIN int in 1, 8, 16, 32 = 32                "counters per value in a table"
//@ param   REPLICAS         int in 1, 2, 4, 8, 16 = 1               "tables per block"
//@ param   THREADS          int in 256, 512, 1024 = 1024            "threads per block"
//@ param   BLOCKS           int in 132, 264, 528, 1056 = 264        "blocks at most"
//@ param   L1_NO_ALLOCATE   bool = true                              "loads leave nothing in L1"
//@ param   SET              bool = false                             "the counts are set; else they are added to what is there"
//@ size    n = 268435456 test 100003
//@ input   x [n]
//@ inout   counts [256] in 0..1000 by histogram_reference exact "the counts are added to it, with SET it is set to them"
//@ scratch state [1] = 0 if SET
//@ naive   histogram_naive
//@ block   THREADS
//@ grid    min(BLOCKS, max(ceil_div(n, THREADS * VEC), SET))
//@ shared  static REPLICAS * (256 * COUNTERS_PER_BIN + 1) * sizeof(uint32_t)
//@ model   access VEC, UNROLL
//@ model   search [UNROLL], [THREADS], [BLOCKS]
#include "kiln/first_block.h"
#include "kiln/reduce.h"
#include "kiln/stream.h"

using kiln::i64;

constexpr int kValues = 256;
constexpr int kPitch = kValues * COUNTERS_PER_BIN + 1;
constexpr int kThreadsPerTable = THREADS / REPLICAS;
#if defined(__CUDA_ARCH__)
constexpr int kCountersAtOnce = COUNTERS_PER_BIN;
#else
constexpr int kCountersAtOnce = kiln::min(COUNTERS_PER_BIN, 8);  // AMD's compiler would load more of them than it has registers for
#endif
// A block's counts have 32 bits; before they could overflow it adds them to the global ones.
constexpr i64 kLargestRound = 1ll << 31;

// What an access brings, as words: a byte's place in the table is a shift and a mask of its word, and bytes that are held
// one by one take a register each.
constexpr int kWords = kiln::max(VEC / 4, 1), kBytesPerWord = kiln::min(VEC, 4);
using Held = kiln::Vec<unsigned, kWords>;

template <int WIDTH>
__device__ __forceinline__ Held load_bytes(const unsigned char* from) {
    const auto bytes = kiln::stream_load<WIDTH, L1_NO_ALLOCATE>(from);
    if constexpr (WIDTH == 1)
        return {bytes[0]};
    else
        return __builtin_bit_cast(Held, bytes);
}

__device__ __forceinline__ void count_bytes(unsigned* table, const Held& held) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll
        for (int byte = 0; byte < kBytesPerWord; ++byte)
            atomicAdd(&table[(held[w] >> 8 * byte & 255u) * COUNTERS_PER_BIN], 1u);
    }
}

// Adds a block's tables to the counts. Several threads of a warp add up each value's counters.
__device__ __forceinline__ void add_to(unsigned long long* counts, const unsigned* tables) {
    constexpr int kThreads = kiln::min(THREADS / kValues, COUNTERS_PER_BIN);  // per value
    constexpr int kEach = COUNTERS_PER_BIN / kThreads;
    const int thread = threadIdx.x, part = thread % kThreads;
#pragma unroll 1
    for (int value = thread / kThreads; value < kValues; value += THREADS / kThreads) {
        unsigned sum = 0;
#pragma unroll
        for (int replica = 0; replica < REPLICAS; ++replica) {
            // Neighbouring values begin with another counter each, since COUNTERS_PER_BIN may be all banks.
#pragma unroll kCountersAtOnce
            for (int i = 0; i < kEach; ++i)
                sum += tables[replica * kPitch + value * COUNTERS_PER_BIN +
                              (part * kEach + i + value) % COUNTERS_PER_BIN];
        }
        sum = kiln::warp_reduce<kThreads>(sum, kiln::Sum{});
        if (part == 0 && sum != 0) atomicAdd(&counts[value], static_cast<unsigned long long>(sum));
    }
}

// By a warp of the first block, before it loads anything: so few counts are not worth a barrier of the block. Without elements
// nobody waits for it.
__device__ __forceinline__ void clear(unsigned long long* counts, unsigned* state, bool are_added_to) {
    for (int value = threadIdx.x; value < kValues; value += kiln::kWarpSize) counts[value] = 0;
    __syncwarp();
    if (threadIdx.x == 0 && are_added_to) kiln::first_block_is_done(state, gridDim.x);
}

extern "C" __global__ __launch_bounds__(THREADS) void histogram(long long n, const unsigned char* __restrict__ x,
                                                                unsigned long long* counts, [[maybe_unused]] unsigned* state) {
    __shared__ unsigned tables[REPLICAS * kPitch];
    const int thread = threadIdx.x;
    unsigned* const table = tables + thread / kThreadsPerTable * kPitch + thread % COUNTERS_PER_BIN;
    const unsigned stride = gridDim.x * THREADS;
    if constexpr (SET) {
        if (blockIdx.x == 0 && thread < kiln::kWarpSize) clear(counts, state, n > 0);
    }

    for (i64 begin = 0; begin < n; begin += kLargestRound) {
        const unsigned char* const from = x + begin;
        const i64 count = kiln::min(n - begin, kLargestRound);
        // Accesses begin at the first multiple of their width; the first block also counts what is before and behind them.
        const i64 lead = kiln::min(count, static_cast<i64>((VEC - reinterpret_cast<kiln::u64>(from) % VEC) % VEC));
        const auto accesses = static_cast<unsigned>((count - lead) / VEC);
        const unsigned char* const vectors = from + lead;
        Held values[UNROLL];
        const unsigned first = blockIdx.x * THREADS + thread;
        unsigned next = first;
        const auto load_next = [&](int u) {
            if (next < accesses) values[u] = load_bytes<VEC>(vectors + static_cast<i64>(next) * VEC);
            next += stride;
        };
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) load_next(u);
        for (int i = thread; i < REPLICAS * kPitch; i += THREADS) tables[i] = 0;
        __syncthreads();

        unsigned left = first < accesses ? (accesses - first - 1) / stride + 1 : 0;
        while (left > 0) {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
#if defined(__CUDA_ARCH__)
                if (left == 0) break;
#else
                if (left == 0) continue;  // AMD's compiler unrolls no loop that has two ends
#endif
                count_bytes(table, values[u]);
                load_next(u);
                --left;
            }
        }
        if (blockIdx.x == 0 && thread < count - static_cast<i64>(accesses) * VEC)
            atomicAdd(&table[from[thread < lead ? thread : thread + static_cast<i64>(accesses) * VEC] * COUNTERS_PER_BIN], 1u);
        if constexpr (SET) {
            // Most often that has been done by now. The barrier makes it known to all threads.
            if (thread == 0 && begin == 0) kiln::await_first_block(state);
        }
        __syncthreads();

        add_to(counts, tables);
        __syncthreads();
    }
}
