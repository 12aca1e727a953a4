// rms_norm_reference: root mean square normalisation of a row in double, with the bound of a computation in float
//
// The row is x, or with RESIDUAL x + residual in float, rounded to T as kernels do, so that it has no error. u is the unit
// roundoff of float; g = gamma(cols / THREADS + 64) bounds a sum of squares, which do not cancel, of THREADS threads that
// share a row, by vectors and then by a tree, with its roundings and the division by cols. Its root is relatively off by
// half of that to first order, doubled here for the higher ones, and by 4 u of its own; the two products add 2 u.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  rms_norm_reference
//@ param   T         type in half, bfloat16, float = half
//@ param   RESIDUAL  bool = false
//@ param   THREADS   int in 1..1024 = 1  "threads that share a row"
//@ bound   THREADS
//@ data    x peaks 1024
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void rms_norm_reference(long long count, const long long* __restrict__ which,
                                              double* __restrict__ expected, double* __restrict__ bound,
                                              int cols, const T* __restrict__ x, const T* __restrict__ weight,
                                              const T* __restrict__ residual) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i, row = element / cols * cols;
    const auto at = [&](long long place) {
        if (!RESIDUAL) return kiln::wide(x[place]);
        return kiln::wide(T(static_cast<float>(x[place]) + static_cast<float>(residual[place])));
    };
    double squares = 0;
    for (int col = 0; col < cols; ++col) squares += at(row + col) * at(row + col);
    const double value = at(element) / sqrt(squares / cols + 1e-5f) * kiln::wide(weight[element - row]);
    constexpr double u = kiln::unit_roundoff<float>;
    expected[i] = value;
    bound[i] = fabs(value) * (kiln::gamma<float>(cols / THREADS + 64.0) + 6 * u) + kiln::kFloatTiny;
}
