// layer_norm: y = (x - mean) / sqrt(variance + 1e-5) * weight + bias for each row; the row is read once
//
// A block per row. The variance is the mean of squared differences from the mean, which takes a second pass over
// the registers and does not cancel. Rows longer than THREADS * VEC * ITEMS, or not aligned to VEC elements, are
// read three times.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  layer_norm
//@ param   T       type in half, bfloat16, float = half      "element type of all"
//@ param   THREADS int in 32, 64, 128, 256, 512, 1024 = 256  "threads per row"
//@ param   VEC     int in 1, 2, 4, 8 = 8                     "elements per access"
//@ param   ITEMS   int in 1, 2, 4, 8 = 2                     "accesses per thread that fit its registers"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require threads * (VEC * ITEMS + 36) <= device.registers_per_block  "the part of the row that each thread holds must fit its registers: use fewer ITEMS, or fewer threads"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test 1009
//@ input   x [rows, cols]
//@ input   weight [cols]
//@ input   bias [cols]
//@ output  y [rows, cols] by layer_norm_reference
//@ flops   8 * rows * cols
//@ naive   layer_norm_naive
//@ block   THREADS
//@ grid    rows
#include "kiln/reduce.h"
#include "kiln/row.h"

using kiln::i64;
using Row = kiln::Row<T, THREADS, VEC, ITEMS>;

constexpr float kEpsilon = 1e-5f;

extern "C" __global__ __launch_bounds__(THREADS) void layer_norm(long long rows, int cols, const T* __restrict__ x,
                                                                 const T* __restrict__ weight,
                                                                 const T* __restrict__ bias, T* __restrict__ y) {
    const bool in_registers =
        Row::fits(x, cols) && Row::fits(y, cols) && Row::fits(weight, cols) && Row::fits(bias, cols);
    const float per_element = 1.0f / static_cast<float>(cols);
    x += static_cast<i64>(blockIdx.x) * cols;
    y += static_cast<i64>(blockIdx.x) * cols;
    if (in_registers) {
        Row row;
        row.load(x, cols, 0.0f);
        float sum = 0.0f;
        row.visit(cols, [&](float& value, int) { sum += value; });
        const float mean = kiln::block_reduce<THREADS>(sum, kiln::Sum{}) * per_element;
        float squares = 0.0f;
        row.visit(cols, [&](float& value, int) {
            value -= mean;
            squares += value * value;
        });
        const float scale = rsqrtf(kiln::block_reduce<THREADS>(squares, kiln::Sum{}) * per_element + kEpsilon);
        Row factors;
        factors.load(weight, cols, 0.0f);
        Row offsets;
        offsets.load(bias, cols, 0.0f);
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
#pragma unroll
            for (int v = 0; v < VEC; ++v)
                row.values[item][v] = row.values[item][v] * scale * factors.values[item][v] + offsets.values[item][v];
        }
        row.store(y, cols);
        return;
    }
    float sum = 0.0f;
    for (i64 col = threadIdx.x; col < cols; col += THREADS) sum += static_cast<float>(x[col]);
    const float mean = kiln::block_reduce<THREADS>(sum, kiln::Sum{}) * per_element;
    float squares = 0.0f;
    for (i64 col = threadIdx.x; col < cols; col += THREADS) {
        const float difference = static_cast<float>(x[col]) - mean;
        squares += difference * difference;
    }
    const float scale = rsqrtf(kiln::block_reduce<THREADS>(squares, kiln::Sum{}) * per_element + kEpsilon);
    for (i64 col = threadIdx.x; col < cols; col += THREADS)
        y[col] = T((static_cast<float>(x[col]) - mean) * scale * static_cast<float>(weight[col]) +
                   static_cast<float>(bias[col]));
}
