// SPDX-License-Identifier: Apache-2.0
//
// The online softmax: one pass over scores that come in tiles, in powers of two.
//   kiln::kMinusInfinity             the score of what is masked
//   kiln::kScoreScale<HEAD>          what attention's scores are multiplied with
//   kiln::OnlineSoftmax              a row's maximum so far, and how to move on to a larger one
// Scores are to be multiplied with log2(e) beforehand, which folds into their scale: 2^(x log2 e) is e^x (fast_math.h).
// Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
#pragma once

#include "kiln/fast_math.h"

namespace kiln {

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2 = 0.693147180559945309f;
/// 1 / sqrt(HEAD), of 64, 96, 128, 192 or 256, for scores in powers of two.
template <int HEAD>
constexpr float kScoreScale = (HEAD == 64    ? 0.125f
                               : HEAD == 96  ? 0.102062072615965754f
                               : HEAD == 192 ? 0.0721687836487032206f
                               : HEAD == 256 ? 0.0625f
                                             : 0.0883883476483184406f) *
                              kLog2E;
constexpr float kMinusInfinity = __builtin_bit_cast(float, 0xff800000u);

/// The state of one row. Its owner keeps the sums of weights, and of weighted values, which `raise` says how
/// to rescale.
struct OnlineSoftmax {
    float max;   ///< of all scores so far; -infinity: every one was masked
    float base;  ///< what weights are relative to: max, or 0 where that is -infinity

    static __device__ __forceinline__ OnlineSoftmax none() { return {kMinusInfinity, 0.0f}; }

    /// Takes in a tile's largest score; returns what all sums so far must be multiplied with.
    __device__ __forceinline__ float raise(float tile_max) {
        const float before = max;
        max = before < tile_max ? tile_max : before;
        base = max == kMinusInfinity ? 0.0f : max;
        return fast_exp2(before - base);
    }
    /// The weight of a score that is no larger than max.
    __device__ __forceinline__ float weight(float score) const { return fast_exp2(score - base); }
    /// ln(sum of e^score), `sum` being that of all weights; -infinity for none. Scores that are no numbers leave max
    /// as it was, but not the sum.
    __device__ __forceinline__ float log_sum_exp(float sum) const {
        return sum == 0.0f ? kMinusInfinity : (max + log2f(sum)) * kLn2;
    }
};

}  // namespace kiln
