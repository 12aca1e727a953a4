// SPDX-License-Identifier: Apache-2.0
//
// kiln::Row: a row of a matrix in the registers of one block, as floats, for kernels that need each element more
// than once (norms, softmax): THREADS x ITEMS accesses of VEC elements hold rows of up to kCapacity elements.
// Neighbouring threads hold neighbouring vectors.
#pragma once

#include "kiln/device.h"

namespace kiln {

template <class T, int THREADS, int VEC, int ITEMS>
struct Row {
    static constexpr int kCapacity = THREADS * VEC * ITEMS;

    float values[ITEMS][VEC];

    /// Whether a row of `cols` elements fits, and all rows of a matrix that begins there can be read in
    /// vectors.
    static __device__ __forceinline__ bool fits(const void* matrix, i64 cols) {
        return cols <= kCapacity && cols % VEC == 0 && reinterpret_cast<u64>(matrix) % (VEC * sizeof(T)) == 0;
    }

    /// Reads a row; elements that it does not have become `outside`.
    __device__ __forceinline__ void load(const T* __restrict__ row, int cols, float outside) {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            const int col = (item * THREADS + static_cast<int>(threadIdx.x)) * VEC;
            Vec<T, VEC> read;
            if (col < cols) read = kiln::load<VEC>(row + col);
#pragma unroll
            for (int v = 0; v < VEC; ++v)
                values[item][v] = col < cols ? static_cast<float>(read[v]) : outside;
        }
    }

    /// Calls visit(value, column) for each element of this thread.
    template <class Visit>
    __device__ __forceinline__ void visit(int cols, Visit visit) {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            const int col = (item * THREADS + static_cast<int>(threadIdx.x)) * VEC;
            if (col >= cols) continue;
#pragma unroll
            for (int v = 0; v < VEC; ++v) visit(values[item][v], col + v);
        }
    }

    /// Writes the row, rounded to its type.
    __device__ __forceinline__ void store(T* __restrict__ row, int cols) const {
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            const int col = (item * THREADS + static_cast<int>(threadIdx.x)) * VEC;
            Vec<T, VEC> written;
#pragma unroll
            for (int v = 0; v < VEC; ++v) written[v] = T(values[item][v]);
            if (col < cols) kiln::store<VEC>(row + col, written);
        }
    }
};

}  // namespace kiln
