// elementwise_second_reference: the second result, z, of elementwise in double, with a bound that is estimated in kiln/functor_reference.h
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  elementwise_second_reference
//@ param   T        type in half, bfloat16, float = float
//@ param   INPUTS   int in 1..4 = 1
//@ param   OUTPUTS  int in 2..2 = 2
//@ param   F        code = "y[0] = x[0];" (const auto (&x)[INPUTS], auto (&y)[OUTPUTS], long long i) -> void
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/elementwise_reference.h"

extern "C" __global__ void elementwise_second_reference(long long count, const long long* which, double* expected, double* bound, const T* a,
                           const T* b, const T* c, const T* d) {
    kiln::expect_elementwise_of_thread<INPUTS, OUTPUTS>({a, b, c, d}, count, which, 1, [](auto&... values) { F(values...); },
                                                        expected, bound);
}
