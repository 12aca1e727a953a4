// sum_reference: the sum of TERM of an array's elements in double, with the bound of a sum in float by BLOCKS x THREADS threads
//
// A sum of d additions in a row, whatever tree they form, differs from the exact one by at most
// gamma(d) sum |x|, where d is the length of the longest way through the tree (Higham, section 4.2). A thread
// adds at most n / (BLOCKS THREADS) + 64 elements, the trees of its block and of the last block at most 32 more, and
// the last block's threads BLOCKS / THREADS + 1; one block alone may add its threads' sums one after the other.
// Integers whose magnitudes add up to no more than 2^24 have no error. What the terms of a caller lose is estimated in
// kiln/functor_reference.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  sum_reference
//@ param   T        type in half, bfloat16, float = float
//@ param   THREADS  int in 1..1024 = 256
//@ param   BLOCKS   int in 1..65536 = 1
//@ param   TERM     code = "return x;" (auto x, long long i) -> decltype(x)  "what is added for element i"
//@ bound   THREADS
//@ bound   BLOCKS
//@ data    x term n
//@ backend host
//@ block   1
//@ grid    count
#include "kiln/functor_reference.h"

extern "C" __global__ void sum_reference(long long count, const long long* __restrict__ which, double* __restrict__ expected,
                                         double* __restrict__ bound, long long n, const T* __restrict__ x) {
    (void)which;  // there is one element
    kiln::FloatSum sum;
    double terms_error = 0;
    for (long long i = 0; i < n; ++i) {
        double term = kiln::wide(x[i]), error = 0;
        kiln::expect_functor([&](auto element) { return TERM(element, i); }, &term, &error);
        sum.add(term);
        terms_error += error;
    }
    const double depth = static_cast<double>(n / (static_cast<long long>(BLOCKS) * THREADS) + 97 +
                                             (BLOCKS == 1 ? THREADS : BLOCKS / THREADS));
    expected[blockIdx.x] = sum.value();
    const double added = kiln::gamma<float>(depth) * (sum.magnitude() + terms_error) + 0x1p-149;
    bound[blockIdx.x] = sum.is_exact() && terms_error == 0 ? 0 : added + terms_error;
}
