// layer_norm_reference: layer normalisation of a row in double, with the bound of a computation in float
//
// u is the unit roundoff of float, g = gamma(cols / THREADS + 64) bounds a sum of THREADS threads that share a row, by
// vectors and then by a tree, and its division by cols; a kernel without the parameter adds all columns in one go.
//   mean:        |dm| <= g mean|x|
//   difference:  d = x - mean; |dd| <= |dm| + u (|d| + |dm|)
//   variance:    the mean of (d + dd)^2 differs from that of d^2 by 2 mean|d dd| + mean dd^2, and is off by g more
//   scale:       1 / sqrt(v + e), relatively off by dv / (2 (v + e)) to first order, doubled here for the higher
//                ones while dv <= (v + e) / 2, and by 4 u of its own
//   y:           products and sum add 3 u of each term
// A row whose variance is so small that this does not hold is left unchecked (infinite bound).
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  layer_norm_reference
//@ param   T  type in half, bfloat16, float = half
//@ param   THREADS  int in 1..1024 = 1  "threads that share a row"
//@ bound   THREADS
//@ data    x peaks 1024
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void layer_norm_reference(long long count, const long long* __restrict__ which,
                                                double* __restrict__ expected, double* __restrict__ bound, int cols,
                                                const T* __restrict__ x, const T* __restrict__ weight,
                                                const T* __restrict__ bias) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    constexpr double u = kiln::unit_roundoff<float>;
    constexpr double kEpsilon = 1e-5f;  // the float
    const long long element = which ? which[i] : i;
    const T* const row = x + element / cols * cols;
    const double g = kiln::gamma<float>(cols / THREADS + 64.0);
    double sum = 0, magnitude = 0;
    for (int col = 0; col < cols; ++col) {
        const double value = kiln::wide(row[col]);
        sum += value;
        magnitude += fabs(value);
    }
    const double mean = sum / cols;
    const double mean_error = g * magnitude / cols;
    double squares = 0, squares_error = 0;
    for (int col = 0; col < cols; ++col) {
        const double d = kiln::wide(row[col]) - mean;
        const double dd = mean_error + u * (fabs(d) + mean_error);
        squares += d * d;
        squares_error += 2 * fabs(d) * dd + dd * dd;
    }
    const double variance = squares / cols + kEpsilon;
    const double variance_error = squares_error / cols + g * (squares + squares_error) / cols + 2 * u * variance;
    const double scale = 1 / sqrt(variance);
    const bool is_bounded = variance_error <= variance / 2;
    const double scale_error = variance_error / variance + 4 * u;

    const long long col = element % cols;
    const double d = kiln::wide(x[element]) - mean;
    const double dd = mean_error + u * (fabs(d) + mean_error);
    const double factor = fabs(kiln::wide(weight[col])) * scale;
    const double offset = kiln::wide(bias[col]);
    const double value = d * scale * kiln::wide(weight[col]) + offset;
    const double error = factor * (dd * (1 + scale_error) + fabs(d) * scale_error + 3 * u * (fabs(d) + dd)) +
                         2 * u * (fabs(value) + fabs(offset));
    expected[i] = value;
    // Not by way of an infinite error, which a weight of 0 would turn into a NaN.
    bound[i] = is_bounded ? error + kiln::kFloatTiny : __builtin_huge_val();
}
