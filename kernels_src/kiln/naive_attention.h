// SPDX-License-Identifier: Apache-2.0
//
// Attention by one thread per query, for the templates that others are compared with:
//   kiln::naive_attention      three passes over the keys, without shared memory
#pragma once

#include "kiln/softmax.h"

namespace kiln {

/// softmax(q K^T / sqrt(HEAD)) V of one query of HEAD elements and the first `keys` keys, 0 of them or fewer for none, into
/// VALUE elements of o; returns ln(sum of e^score). next_key, next_value: elements from one key or value to the next. The
/// passes find the largest score, the sum of the weights, and the weighted values; each computes all scores again.
template <int HEAD, int VALUE, class T>
__device__ __forceinline__ float naive_attention(const T* __restrict__ q, i64 keys, const T* __restrict__ k,
                                                 i64 next_key, const T* __restrict__ v, i64 next_value,
                                                 T* __restrict__ o) {
    constexpr int kPart = VALUE <= 128 ? VALUE : VALUE / 2;  // columns that a thread has registers for
    const auto score_of = [=](i64 j) {
        const T* const key = k + j * next_key;
        float sum = 0.0f;
#pragma unroll 8
        for (int d = 0; d < HEAD; ++d) sum += static_cast<float>(q[d]) * static_cast<float>(key[d]);
        return sum * kScoreScale<HEAD>;
    };
    OnlineSoftmax softmax = OnlineSoftmax::none();
    for (i64 j = 0; j < keys; ++j) softmax.raise(score_of(j));
    float sum = 0.0f;
    for (i64 j = 0; j < keys; ++j) sum += softmax.weight(score_of(j));

    const float scale = sum > 0.0f ? 1.0f / sum : 0.0f;
    for (int part = 0; part < VALUE; part += kPart) {
        float out[kPart] = {};
        for (i64 j = 0; j < keys; ++j) {
            const float weight = softmax.weight(score_of(j)) * scale;
#pragma unroll
            for (int d = 0; d < kPart; ++d)
                out[d] += weight * static_cast<float>(v[j * next_value + part + d]);
        }
#pragma unroll
        for (int d = 0; d < kPart; ++d) o[part + d] = T(out[d]);
    }
    return softmax.log_sum_exp(sum);
}

}  // namespace kiln
