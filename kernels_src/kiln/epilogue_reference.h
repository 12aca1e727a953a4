// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of epilogue.h in double, with the bound on what it adds to the error of a sum. For references,
// on the host only.
#pragma once

#include "kiln/epilogue.h"
#include "kiln/reference.h"

namespace kiln {

template <int ACTIVATION>
inline double activate_wide(double x) {
    if constexpr (ACTIVATION == kRelu) return x < 0 ? 0 : x;
    if constexpr (ACTIVATION == kGelu) return 0.5 * x * erfc(-0.70710678118654752440 * x);
    if constexpr (ACTIVATION == kSilu) return x / (1 + exp(-x));
    return x;
}

/// How far activate(y) may be from activate_wide(x), where |y - x| <= error.
///
/// The steepest slopes are below 1 (relu), 1.13 (gelu, at sqrt(2)) and 1.10 (silu, at 2.4). On top of them
/// come the roundings of activate() at y; expf and exp2f are trusted to 3 units in the last place and a reciprocal to 2.5
/// (what OpenCL demands of them; CUDA and the C libraries give 2 and 1 or less):
///   gelu  34 u |result|, and 2 u y^2 phi(y) since the exponent of the tail has two roundings, phi the normal density
///   silu  12 u |result|, and what is lost where 1 + exp(-y) has no normal reciprocal: |y| exp(y) below y = -87.3, or
///         2^-119
template <int ACTIVATION>
inline double activation_bound(double x, double error) {
    if constexpr (ACTIVATION == kIdentity || ACTIVATION == kRelu) return error;
    constexpr double u = unit_roundoff<float>;
    constexpr double kSlope = ACTIVATION == kGelu ? 1.13 : 1.10;
    const double carried = kSlope * error;
    const double value = activate_wide<ACTIVATION>(x);
    const double result = (value < 0 ? -value : value) + carried;
    if constexpr (ACTIVATION == kGelu) {
        // y^2 phi(y) has no slope above 0.34.
        const double density = 0.39894228040143268 * exp(-0.5 * x * x);
        return carried + 34 * u * result + 2 * u * (x * x * density + 0.34 * error) + kFloatTiny;
    } else {
        return carried + 12 * u * result + 128 * kFloatTiny;
    }
}

template <int ACTIVATION>
inline double epilogue_wide(double alpha, double sum, double beta, double c, double bias) {
    return activate_wide<ACTIVATION>(alpha * sum + (beta != 0 ? beta * c : 0) + bias);
}

/// How far epilogue() may be from epilogue_wide(), where its sum is off by up to sum_error. c is what C held
/// before, exactly. The four roundings are those of two products and two sums; an FMA has fewer.
template <int ACTIVATION>
inline double epilogue_bound(double alpha, double sum, double sum_error, double beta, double c, double bias) {
    const auto magnitude = [](double x) { return x < 0 ? -x : x; };
    const double old = beta != 0 ? beta * c : 0;
    const double scaled_error = magnitude(alpha) * sum_error;
    const double terms = magnitude(alpha * sum) + scaled_error + magnitude(old) + magnitude(bias);
    const double error = scaled_error + gamma<float>(4) * terms;
    return activation_bound<ACTIVATION>(alpha * sum + old + bias, error);
}

}  // namespace kiln
