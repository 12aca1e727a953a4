// SPDX-License-Identifier: Apache-2.0
//
// kiln::JoinedAttention: attention whose keys were distributed over warps or blocks. Each part of the keys gives a weighted sum of
// values, and the largest score and the sum of weights that these are relative to; offered is their join, in the order of the
// parts, so that equal inputs give equal bits. Parts without a key that counts have the largest score of minus infinity.
#pragma once

#include "kiln/reduce.h"
#include "kiln/softmax.h"

namespace kiln {

/// Four elements of a row of the result.
struct JoinedAttention {
    float max = kMinusInfinity, sum = 0.0f;
    Vec<float, 4> values = {};

    /// COUNT parts, all of which are read before the first is used.
    template <int COUNT>
    __device__ __forceinline__ void add(const MaxAndSum (&stats)[COUNT],
                                        const Vec<float, 4> (&parts)[COUNT]) {
        float largest = max;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) largest = fmaxf(largest, stats[i].max);
        const float base = largest == kMinusInfinity ? 0.0f : largest;
        const float before = fast_exp2(max - base);
        max = largest;
        sum *= before;
#pragma unroll
        for (int j = 0; j < 4; ++j) values[j] *= before;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const float scale = fast_exp2(stats[i].max - base);
            sum += scale * stats[i].sum;
#pragma unroll
            for (int j = 0; j < 4; ++j) values[j] += scale * parts[i][j];
        }
    }

    /// scale: 1 / sum, or 0 where there were no keys.
    template <class T>
    __device__ __forceinline__ void write(T* to, float scale) const {
#pragma unroll
        for (int j = 0; j < 4; ++j) to[j] = T(values[j] * scale);
    }
};

/// Joins `count` parts, AT_ONCE at a time: stats_at(i) and values_at(i) are those of part i.
template <int AT_ONCE, class StatsAt, class ValuesAt>
__device__ __forceinline__ JoinedAttention join_attention(int count, StatsAt stats_at, ValuesAt values_at) {
    JoinedAttention all;
#pragma unroll 1
    for (int first = 0; first < count; first += AT_ONCE) {
        MaxAndSum stats[AT_ONCE];
        Vec<float, 4> values[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            stats[i] = {kMinusInfinity, 0.0f};
            values[i] = {};
            if (first + i >= count) continue;
            stats[i] = stats_at(first + i);
            values[i] = values_at(first + i);
        }
        all.add(stats, values);
    }
    return all;
}

}  // namespace kiln
