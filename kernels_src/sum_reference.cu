// sum_reference: the sum of an array in double, with the bound of a sum in float by BLOCKS x THREADS threads
//
// A sum of d additions in a row, whatever tree they form, differs from the exact one by at most
// gamma(d) sum |x|, where d is the length of the longest way through the tree (Higham, section 4.2). A thread
// adds at most n / (BLOCKS THREADS) + 64 elements, the trees of its block and of the last block at most 32 more, and
// the last block's threads BLOCKS / THREADS + 1; one block alone may add its threads' sums one after the other.
// Integers whose magnitudes add up to no more than 2^24 have no error.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  sum_reference
//@ param   T        type in half, bfloat16, float = float
//@ param   THREADS  int in 1..1024 = 256
//@ param   BLOCKS   int in 1..65536 = 1
//@ bound   THREADS
//@ bound   BLOCKS
//@ data    x term n
//@ backend host
//@ block   1
//@ grid    count
#include "kiln/reference.h"

extern "C" __global__ void sum_reference(long long count, const long long* __restrict__ which, double* __restrict__ expected,
                                         double* __restrict__ bound, long long n, const T* __restrict__ x) {
    (void)which;  // there is one element
    kiln::FloatSum sum;
    for (long long i = 0; i < n; ++i) sum.add(kiln::wide(x[i]));
    const double depth = static_cast<double>(n / (static_cast<long long>(BLOCKS) * THREADS) + 97 +
                                             (BLOCKS == 1 ? THREADS : BLOCKS / THREADS));
    expected[blockIdx.x] = sum.value();
    bound[blockIdx.x] = sum.is_exact() ? 0 : kiln::gamma<float>(depth) * sum.magnitude() + 0x1p-149;
}
