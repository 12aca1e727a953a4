// softmax: softmax of a matrix's rows, a block per row; the row is read once and stays in registers
//
// Rows longer than THREADS * VEC * ITEMS, or not aligned to VEC elements, are read twice: the first time for the
// maximum and the sum together (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  softmax
//@ param   T        type in half, bfloat16, float = half   "element type of x and y"
//@ param   THREADS  int in 32, 64, 128, 256, 512, 1024 = 256  "threads per row"
//@ param   VEC      int in 1, 2, 4, 8 = 8                  "elements per access"
//@ param   ITEMS    int in 1, 2, 4, 8 = 2                  "accesses per thread that fit its registers"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require threads * (VEC * ITEMS + 36) <= device.registers_per_block  "the part of the row that each thread holds must fit its registers: use fewer ITEMS, or fewer threads"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test 1009
//@ input   x [rows, cols]
//@ output  y [rows, cols] by softmax_reference
//@ flops   5 * rows * cols
//@ naive   softmax_naive
//@ block   THREADS
//@ grid    rows
#include "kiln/reduce.h"
#include "kiln/row.h"
#include "kiln/softmax.h"

using kiln::i64;
using Row = kiln::Row<T, THREADS, VEC, ITEMS>;

extern "C" __global__ __launch_bounds__(THREADS) void softmax(long long rows, int cols, const T* __restrict__ x,
                                                              T* __restrict__ y) {
    const bool in_registers = Row::fits(x, cols) && Row::fits(y, cols);
    x += static_cast<i64>(blockIdx.x) * cols;
    y += static_cast<i64>(blockIdx.x) * cols;
    if (in_registers) {
        Row row;
        row.load(x, cols, kiln::kMinusInfinity);
        float largest = kiln::kMinusInfinity;
        row.visit(cols, [&](float& value, int) { largest = fmaxf(largest, value); });
        largest = kiln::block_reduce<THREADS>(largest, kiln::Max{});
        float sum = 0.0f;
        row.visit(cols, [&](float& value, int) {
            value = exp2f((value - largest) * kiln::kLog2E);
            sum += value;
        });
        const float factor = 1.0f / kiln::block_reduce<THREADS>(sum, kiln::Sum{});
        row.visit(cols, [&](float& value, int) { value *= factor; });
        row.store(y, cols);
        return;
    }
    auto seen = kiln::OnlineSoftmax::none();
    float sum = 0.0f;
    for (i64 col = threadIdx.x; col < cols; col += THREADS) {
        const float value = static_cast<float>(x[col]) * kiln::kLog2E;
        if (value > seen.max) sum *= seen.raise(value);
        sum += seen.weight(value);
    }
    const auto all = kiln::block_reduce<THREADS>(kiln::MaxAndSum{seen.max, sum}, kiln::MaxSum{});
    const float factor = 1.0f / all.sum;
    for (i64 col = threadIdx.x; col < cols; col += THREADS)
        y[col] = T(exp2f(static_cast<float>(x[col]) * kiln::kLog2E - all.max) * factor);
}
