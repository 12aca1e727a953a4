// SPDX-License-Identifier: Apache-2.0
//
// One result of elementwise in double, with the bound of kiln/functor_reference.h: the arguments have no error, and what the
// function rounds itself is estimated. For references, on the host only.
#pragma once

#include "kiln/functor_reference.h"

namespace kiln {

/// f(x, y): with arrays of float and of double. inputs: of one place; others than INPUTS are not read. output: which of
/// its results.
template <int INPUTS, int OUTPUTS, class T, class F>
inline void expect_elementwise(const T* const (&inputs)[4], long long place, int output, const F& f,
                               double* expected, double* bound) {
    // nudged: the input that is larger by 8 u; -1: none.
    const auto result_of = [&](auto zero, int nudged) {
        using Number = decltype(zero);
        Number x[INPUTS], y[OUTPUTS] = {};
        for (int input = 0; input < INPUTS; ++input) {
            x[input] = static_cast<Number>(wide(inputs[input][place]));
            if (input == nudged) x[input] *= static_cast<Number>(1 + 8 * unit_roundoff<float>);
        }
        f(x, y);
        return y[output];
    };
    *expected = *bound = 0;
    expect_functor([&](auto zero) { return result_of(zero, -1); }, expected, bound);
    for (int input = 0; input < INPUTS; ++input) {
        const double nudged = static_cast<double>(result_of(0.0, input));
        *bound += nudged < *expected ? *expected - nudged : nudged - *expected;
    }
}

/// The same for one thread of a reference: which place, and whether there is one, as its arguments say. f(x, y, place).
template <int INPUTS, int OUTPUTS, class T, class F>
__device__ inline void expect_elementwise_of_thread(const T* const (&inputs)[4], long long count,
                                                    const long long* which, int output, const F& f,
                                                    double* expected, double* bound) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long place = which ? which[i] : i;
    expect_elementwise<INPUTS, OUTPUTS>(
        inputs, place, output, [&](const auto& x, auto& y) { f(x, y, place); }, expected + i, bound + i);
}

}  // namespace kiln
