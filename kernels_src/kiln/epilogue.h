// SPDX-License-Identifier: Apache-2.0
//
// What a matrix product does with a sum before it is stored: scale it, add the old C and a bias, apply an
// activation. All are constants of the variant, so that what is not asked for costs nothing.
//   kiln::epilogue<ACTIVATION>(ALPHA, sum, BETA, c[i], bias)    activation(ALPHA * sum + BETA * c + bias)
//   kiln::activate<ACTIVATION>(x)                               0: x, 1: relu, 2: gelu, 3: silu
// What references compute with is in epilogue_reference.h.
#pragma once

#include "kiln/device.h"

namespace kiln {

/// The values of a template's parameter ACTIVATION.
constexpr int kIdentity = 0;
constexpr int kRelu = 1;  ///< max(x, 0)
constexpr int kGelu = 2;  ///< x Phi(x), Phi the normal distribution function; not its tanh approximation
constexpr int kSilu = 3;  ///< x / (1 + exp(-x))

/// A NaN stays a NaN.
template <int ACTIVATION>
__device__ __forceinline__ float activate(float x) {
    static_assert(ACTIVATION >= kIdentity && ACTIVATION <= kSilu, "ACTIVATION is one of 0 to 3");
    if constexpr (ACTIVATION == kRelu) return x < 0.0f ? 0.0f : x;
    // Phi(x) = erfc(-x / sqrt(2)) / 2: as (1 + erf(x / sqrt(2))) / 2 it would cancel for negative x.
    if constexpr (ACTIVATION == kGelu) return 0.5f * x * erfcf(-0.70710678f * x);
    if constexpr (ACTIVATION == kSilu) return x / (1.0f + expf(-x));
    return x;
}

/// One element of C. alpha, beta: as in BLAS, factors of the product and of what C held before; where beta is
/// 0, c is not read, and may be uninitialised or NaN. bias: added after both, 0 for none. The activation
/// comes last. Everything happens in float: up to four roundings before the activation.
template <int ACTIVATION, class C>
__device__ __forceinline__ float epilogue(float alpha, float sum, float beta, const C& c, float bias) {
    float value = alpha * sum;
    if (beta != 0.0f) value += beta * static_cast<float>(c);
    return activate<ACTIVATION>(value + bias);
}

}  // namespace kiln
