// histogram_naive: counts of byte values, one atomic in global memory per element
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  histogram_naive
//@ param   THREADS  int in 256 = 256  "threads per block"
//@ size    n = 67108864 test 100003
//@ input   x [n]
//@ inout   counts [256] in 0..1000 by histogram_reference exact "the counts are added to it"
//@ block   THREADS
//@ grid    min(1056, ceil_div(n, THREADS))
//@ model   search [THREADS]
#include "kiln/device.h"

extern "C" __global__ __launch_bounds__(THREADS) void histogram_naive(long long n, const unsigned char* __restrict__ x,
                                                                      unsigned long long* counts) {
    const kiln::i64 stride = static_cast<kiln::i64>(gridDim.x) * THREADS;
    for (kiln::i64 i = static_cast<kiln::i64>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += stride)
        atomicAdd(&counts[x[i]], 1ull);
}
