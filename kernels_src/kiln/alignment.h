// SPDX-License-Identifier: Apache-2.0
//
// Whether a matrix can be read or written by vectors.
//   kiln::rows_aligned<N>(matrix, pitch)   each of its rows starts at a multiple of N elements
#pragma once

#include "kiln/device.h"

namespace kiln {

/// pitch: elements from one row to the next.
template <int N, class T, class Index>
__device__ __forceinline__ bool rows_aligned(const T* matrix, Index pitch) {
    return N == 1 || (pitch % N == 0 && reinterpret_cast<u64>(matrix) % (N * sizeof(T)) == 0);
}

}  // namespace kiln
