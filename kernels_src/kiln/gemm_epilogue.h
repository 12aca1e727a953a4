// SPDX-License-Identifier: Apache-2.0
//
// The epilogue of a GEMM whose output may be of another type than its accumulators:
//   C = ACTIVATION(ALPHA * A * B + BETA * residual + bias), computed in float and rounded once, to OUT.
//   kiln::GemmEpilogue             from accumulators, one or two neighbours of a row, to what is rounded
//   kiln::GemmEpilogue::kIsNone    it changes nothing
// All but the pointers are constants of the variant, so that what is not asked for costs nothing. A template that uses
// it has the parameters OUT, ALPHA, BIAS, RESIDUAL, BETA and ACTIVATION, and the arguments bias and residual behind all
// others; its reference is gemm_epilogue_reference or gemm_mma_reference.
#pragma once

#include "kiln/epilogue.h"

namespace kiln {

/// The values of a template's parameter BIAS.
constexpr int kNoBias = 0;
constexpr int kColumnBias = 1;  ///< bias[j] is added to column j
constexpr int kRowBias = 2;     ///< bias[i] is added to row i

/// IS_SCALED: ALPHA is not 1.
template <class OUT, bool IS_SCALED, int BIAS, bool RESIDUAL, int ACTIVATION>
struct GemmEpilogue {
    static_assert(BIAS >= kNoBias && BIAS <= kRowBias, "BIAS is one of 0 to 2");
    using Out = OUT;
    static constexpr int kBias = BIAS;
    static constexpr bool kResidual = RESIDUAL;
    static constexpr bool kIsNone = !IS_SCALED && BIAS == kNoBias && !RESIDUAL && ACTIVATION == kIdentity;

    float alpha, beta;
    const OUT* bias;      ///< null without BIAS
    const OUT* residual;  ///< m x n, null without RESIDUAL; it may be C itself, as in BLAS
    int n;                ///< columns of C

    /// Of the element at this row and column, which C has.
    __device__ __forceinline__ float operator()(float sum, i64 row, i64 column) const {
        float old = 0.0f, added = 0.0f;
        if constexpr (RESIDUAL) old = static_cast<float>(residual[row * n + column]);
        if constexpr (BIAS != kNoBias) added = static_cast<float>(bias[BIAS == kRowBias ? row : column]);
        return finish(sum, old, added);
    }

    /// The same of two neighbours in a row, at an even column, of which the second may be past the last. PAIRS: n is even,
    /// and bias and residual are aligned to pairs.
    template <bool PAIRS>
    __device__ __forceinline__ void apply(float& first, float& second, i64 row, i64 column) const {
        Vec<OUT, 2> old = {}, added = {};
        const int left = column + 1 < n ? 2 : 1;
        if constexpr (RESIDUAL) old = pair_of<PAIRS>(residual + row * n + column, left);
        if constexpr (BIAS == kColumnBias) added = pair_of<PAIRS>(bias + column, left);
        if constexpr (BIAS == kRowBias) added[0] = added[1] = bias[row];
        finish(first, second, old, added);
    }

    /// Of a pair with what was loaded for it, zeros where that is nothing.
    __device__ __forceinline__ void finish(float& first, float& second, const Vec<OUT, 2>& old,
                                           const Vec<OUT, 2>& added) const {
        first = finish(first, static_cast<float>(old[0]), static_cast<float>(added[0]));
        second = finish(second, static_cast<float>(old[1]), static_cast<float>(added[1]));
    }

    /// Of an element. old, added: 0 where there is none, which then is not added either.
    __device__ __forceinline__ float finish(float sum, float old, float added) const {
        float value = IS_SCALED ? alpha * sum : sum;
        if constexpr (RESIDUAL) value += beta * old;
        if constexpr (BIAS != kNoBias) value += added;
        return activate<ACTIVATION>(value);
    }

    /// Two neighbours, of which `left` are there, and zeros for others.
    template <bool PAIRS>
    static __device__ __forceinline__ Vec<OUT, 2> pair_of(const OUT* from, int left) {
        Vec<OUT, 2> pair = {};
        if constexpr (PAIRS) {
            if (left > 0) pair = load<2>(from);
        } else {
            if (left > 0) pair[0] = from[0];
            if (left > 1) pair[1] = from[1];
        }
        return pair;
    }
};

}  // namespace kiln
