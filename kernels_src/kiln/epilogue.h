// SPDX-License-Identifier: Apache-2.0
//
// What a GEMM does with a sum before it is stored: scale it, add the old C and a bias, apply an
// activation. All are constants of the variant, so that what is not asked for costs nothing.
//   kiln::epilogue<ACTIVATION>(ALPHA, sum, BETA, c[i], bias)    activation(ALPHA * sum + BETA * c + bias)
//   kiln::activate<ACTIVATION>(x)                               0: x, 1: relu, 2: gelu, 3: silu
// What references compute with is in epilogue_reference.h.
#pragma once

#include "kiln/fast_math.h"

namespace kiln {

/// The values of a template's parameter ACTIVATION.
constexpr int kIdentity = 0;
constexpr int kRelu = 1;  ///< max(x, 0)
constexpr int kGelu = 2;  ///< x Phi(x), Phi the normal distribution function; not its tanh approximation
constexpr int kSilu = 3;  ///< x / (1 + exp(-x))

/// Phi(-t) for t >= 0, relative error at most 16 u + u t^2, u being the unit roundoff: exp(-t^2 / 2) times a function that
/// falls slowly, from 1/2 to 0.4 / t, and is a polynomial in q = 1 / (1 + 0.35 t), fitted to 2^-24 for t up to 14. What
/// is left of a normal distribution beyond is no normal float. Without branches, and half of erfcf's instructions.
__device__ __forceinline__ float lower_tail(float t) {
    const float q = fast_reciprocal(1.0f + 0.35f * t);
    float sum = -0.0296795219f;
    sum = sum * q + 0.146545827f;
    sum = sum * q - 0.260961235f;
    sum = sum * q + 0.165050998f;
    sum = sum * q - 0.0270466078f;
    sum = sum * q + 0.107114591f;
    sum = sum * q + 0.119444914f;
    sum = sum * q + 0.139912292f;
    sum = sum * q + 0.13961871f;
    return sum * q * fast_exp2(t * t * -0.721347520f);
}

/// A NaN stays a NaN.
template <int ACTIVATION>
__device__ __forceinline__ float activate(float x) {
    static_assert(ACTIVATION >= kIdentity && ACTIVATION <= kSilu, "ACTIVATION is one of 0 to 3");
    if constexpr (ACTIVATION == kRelu) return x < 0.0f ? 0.0f : x;
    if constexpr (ACTIVATION == kGelu) {
        const float tail = lower_tail(fabsf(x));
        return x * (x > 0.0f ? 1.0f - tail : tail);
    }
    if constexpr (ACTIVATION == kSilu) return x * fast_reciprocal(1.0f + expf(-x));
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
