// lab_banks_reference: what a thread of lab_banks has summed, without any shared memory
//
// Sums modulo 2^32 of integers: equal to the last bit, in whatever order they were made. The addresses are
// worked out byte by byte from the same description of the pattern.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  lab_banks_reference
//@ param   WIDTH   int in 1, 2, 4, 8, 16 = 4               "bytes that a lane reads"
//@ param   PITCH   int in 0..1024 = 4                      "bytes from one row to the next"
//@ param   ROWS    int in 1, 2, 4, 8, 16, 32, 64 = 64      "rows; the lanes behind read the next chunk"
//@ param   SHARE   int in 1, 2, 4, 8, 16, 32 = 1           "neighbouring lanes that read the same address"
//@ param   SHIFT   int in 0, 1, 2, 3, 4 = 0                "of the row number, for the swizzle"
//@ param   MASK    int in 0, 1, 3, 7, 15, 31 = 0              "of the shifted row number; 0: no swizzle"
//@ param   LANES   int in 32, 64 = 32                      "of a warp"
//@ param   THREADS int in 64, 128, 256, 512, 1024 = 256    "per block"
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void lab_banks_reference(long long count, const long long* __restrict__ which,
                                               double* __restrict__ expected, double* __restrict__ bound,
                                               int repeats) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int thread = static_cast<int>((which ? which[i] : i) % THREADS);
    const int reader = thread % LANES / SHARE;
    const int row = reader % ROWS;
    const int chunk = (reader / ROWS) ^ ((row >> SHIFT) & MASK);
    unsigned once = 0;  // the sum of the words of one access; less than a word is a number of its own
    for (int byte = 0; byte < WIDTH; ++byte) {
        const unsigned address = static_cast<unsigned>(row * PITCH + chunk * WIDTH + byte);
        const unsigned word = address / 4 * 2654435761u + 40503u;
        once += (word >> address % 4 * 8 & 0xffu) << byte % 4 * 8;
    }
    expected[i] = static_cast<double>(static_cast<unsigned>(repeats) * 32u * once);
    bound[i] = 0;
}
