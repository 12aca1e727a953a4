// softmax_reference: softmax of a row in double, with the bound of a computation in float
//
// y = e / s with e = exp(x - m). With u the unit roundoff of float: the exponent has an absolute error of at
// most 4 u |x - m|, scaled by log2(e) or not, which is a relative error of e; exp itself is within 4 u. So each
// term is relatively off by at most r = 4 u (|x - m| + 1). In an online sum other such exponentials rescale it
// whenever the maximum rises: some ln(cols) times in rows of random order, and once per level of the tree. 40
// times are allowed for; their exponents telescope, so that is 40 * 4 u more. The sum, of THREADS threads that share a
// row, by vectors and then by a tree, adds gamma(cols / THREADS + 64); division and product 3 u; then the rounding
// to T.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  softmax_reference
//@ param   T  type in half, bfloat16, float = half
//@ param   THREADS  int in 1..1024 = 1  "threads that share a row"
//@ bound   THREADS
//@ data    x peaks 8
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void softmax_reference(long long count, const long long* __restrict__ which,
                                             double* __restrict__ expected, double* __restrict__ bound, int cols,
                                             const T* __restrict__ x) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    const T* const row = x + element / cols * cols;
    double largest = kiln::wide(row[0]);
    for (int col = 1; col < cols; ++col) largest = fmax(largest, kiln::wide(row[col]));
    constexpr double u = kiln::unit_roundoff<float>;
    double sum = 0, sum_error = 0;
    for (int col = 0; col < cols; ++col) {
        const double distance = largest - kiln::wide(row[col]);
        const double term = exp(-distance);
        sum += term;
        sum_error += term * (4 * u * (distance + 41));
    }
    const double distance = largest - kiln::wide(x[element]);
    const double value = exp(-distance) / sum;
    const double relative = 4 * u * (distance + 1) + sum_error / sum + kiln::gamma<float>(cols / THREADS + 64.0) + 3 * u;
    expected[i] = value;
    bound[i] = value * relative + kiln::kFloatTiny;
}
