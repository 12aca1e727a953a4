// SPDX-License-Identifier: Apache-2.0
//
// kiln::rounded_pair<T>(low, high): two floats, rounded to nearest even, as they are stored side by side.
#pragma once

#include "kiln/mma.h"

namespace kiln {

template <class T>
__device__ __forceinline__ Vec<T, 2> rounded_pair(float low, float high) {
    if constexpr (sizeof(T) == 2) {
        using Pair = Vec<T, 2>;
        return __builtin_bit_cast(Pair, pack2<T>(low, high));
    } else {
        return {{low, high}};
    }
}

}  // namespace kiln
