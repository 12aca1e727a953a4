// copy: y = x, 16 bytes per access; the ceiling that memory-bound kernels are measured against
//
// A thread copies UNROLL vectors, a grid apart, all loads before the first store.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  copy
//@ param   VEC      int in 1, 2, 4 = 4            "32-bit words per access"
//@ param   UNROLL   int in 1, 2, 4, 8 = 4         "accesses per thread"
//@ param   THREADS  int in 128, 256, 512, 1024 = 256  "threads per block"
//@ size    n = 268435456 test 100003                "words"
//@ input   x [n] in 0..1000000000
//@ output  y [n] by copy_reference exact
//@ block   THREADS
//@ grid    ceil_div(n, THREADS * VEC * UNROLL)
//@ model   access VEC, UNROLL
//@ model   search [VEC], [UNROLL], [THREADS]
#include "kiln/device.h"

using kiln::i64;

extern "C" __global__ __launch_bounds__(THREADS) void copy(long long n, const int* __restrict__ x, int* __restrict__ y) {
    const i64 first = static_cast<i64>(blockIdx.x) * (THREADS * VEC * UNROLL);
    const i64 mine = first + threadIdx.x * VEC;
    const bool aligned = (reinterpret_cast<kiln::u64>(x) | reinterpret_cast<kiln::u64>(y)) % (VEC * sizeof(int)) == 0;
    if (aligned && first + THREADS * VEC * UNROLL <= n) {
        kiln::Vec<int, VEC> values[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) values[i] = kiln::load<VEC>(x + mine + i * (THREADS * VEC));
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) kiln::store<VEC>(y + mine + i * (THREADS * VEC), values[i]);
        return;
    }
    const i64 end = kiln::min(n, first + THREADS * VEC * UNROLL);
    for (i64 i = first + threadIdx.x; i < end; i += THREADS) y[i] = x[i];
}
