// half_sum_reference: the sum of an array of half in double, with the bound of a sum in float by THREADS threads
//
// A thread adds at most n / THREADS + 1 elements; the tree of its warp and the warps' sums are at most 37 additions more
// (Higham, section 4.2). Integers whose magnitudes add up to no more than 2^24 have no error.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  half_sum_reference
//@ param   THREADS  int in 1..1024 = 256
//@ bound   THREADS
//@ data    x term n
//@ backend host
//@ block   1
//@ grid    count
#include "kiln/reference.h"

extern "C" __global__ void half_sum_reference(long long count, const long long* __restrict__ which,
                                              double* __restrict__ expected, double* __restrict__ bound, int n,
                                              const kiln::half* __restrict__ x) {
    (void)which;  // there is one element
    kiln::FloatSum sum;
    for (int i = 0; i < n; ++i) sum.add(kiln::wide(x[i]));
    expected[blockIdx.x] = sum.value();
    bound[blockIdx.x] = sum.is_exact() ? 0 : kiln::gamma<float>(n / THREADS + 40.0) * sum.magnitude() + 0x1p-149;
}
