// column_sum: the sums of a matrix's columns by vector loads across columns, the rows shared out among blocks
//
// A block of THREADS_X x THREADS_Y threads sums one of SPLIT_ROWS parts of the rows of THREADS_X * VEC columns;
// thread rows are joined in shared memory, and the last block of a group of columns joins the slices in a fixed
// order.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  column_sum
//@ param   T          type in half, bfloat16, float = float  "element type; the sums are float"
//@ param   VEC        int in 1, 2, 4, 8 = 4                  "columns per access"
//@ param   THREADS_X  int in 16, 32, 64 = 32                 "threads across the columns"
//@ param   THREADS_Y  int in 4, 8, 16 = 8                    "threads down the rows"
//@ param   UNROLL     int in 1, 2, 4, 8 = 4                  "accesses under way per thread"
//@ param   SPLIT_ROWS int in 1, 4, 8, 16, 32 = 8             "parts of the rows"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ size    rows = 8192 test 67
//@ size    cols = 8192 test 131
//@ input   x [rows, cols]
//@ scratch partial [SPLIT_ROWS, cols]
//@ scratch tickets [ceil_div(cols, THREADS_X * VEC)] = 0
//@ output  sums [cols] by column_sum_reference exact
//@ flops   rows * cols
//@ naive   column_sum_naive
//@ block   THREADS_X, THREADS_Y
//@ grid    ceil_div(cols, THREADS_X * VEC) * SPLIT_ROWS
//@ shared  static (THREADS_Y * THREADS_X * VEC + 1) * sizeof(float)
#include "kiln/last_block.h"

using kiln::i64;

constexpr int kColumns = THREADS_X * VEC;

extern "C" __global__ __launch_bounds__(THREADS_X * THREADS_Y) void column_sum(long long rows, long long cols,
                                                                               const T* __restrict__ x, float* partial,
                                                                               unsigned* tickets,
                                                                               float* __restrict__ sums) {
    __shared__ float parts[THREADS_Y][kColumns];
    const int lane = threadIdx.x, y = threadIdx.y;
    const unsigned group = blockIdx.x / SPLIT_ROWS, slice = blockIdx.x % SPLIT_ROWS;
    const i64 first_col = static_cast<i64>(group) * kColumns;
    const i64 rows_per_slice = (rows + SPLIT_ROWS - 1) / SPLIT_ROWS;
    const i64 begin = kiln::min(rows, slice * rows_per_slice), end = kiln::min(rows, begin + rows_per_slice);
    const bool whole = cols % VEC == 0 && first_col + kColumns <= cols &&
                       reinterpret_cast<kiln::u64>(x) % (VEC * sizeof(T)) == 0;

    // Whole groups are read in vectors: thread `lane` has columns lane * VEC and so on; else lane + v * THREADS_X.
    float mine[VEC] = {};
    i64 row = begin + y;
    if (whole) {
        const T* const from = x + first_col + lane * VEC;
        for (; row + (UNROLL - 1) * THREADS_Y < end; row += UNROLL * THREADS_Y) {
            kiln::Vec<T, VEC> values[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) values[u] = kiln::load<VEC>(from + (row + u * THREADS_Y) * cols);
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
                for (int v = 0; v < VEC; ++v) mine[v] += static_cast<float>(values[u][v]);
            }
        }
        for (; row < end; row += THREADS_Y) {
            const auto values = kiln::load<VEC>(from + row * cols);
#pragma unroll
            for (int v = 0; v < VEC; ++v) mine[v] += static_cast<float>(values[v]);
        }
    } else {
        for (; row < end; row += THREADS_Y) {
#pragma unroll
            for (int v = 0; v < VEC; ++v) {
                const i64 col = first_col + lane + v * THREADS_X;
                if (col < cols) mine[v] += static_cast<float>(x[row * cols + col]);
            }
        }
    }
#pragma unroll
    for (int v = 0; v < VEC; ++v) parts[y][whole ? lane * VEC + v : lane + v * THREADS_X] = mine[v];
    __syncthreads();

    const int thread = y * THREADS_X + lane;
    for (int i = thread; i < kColumns; i += THREADS_X * THREADS_Y) {
        float sum = parts[0][i];
#pragma unroll
        for (int other = 1; other < THREADS_Y; ++other) sum += parts[other][i];
        if (first_col + i < cols) partial[slice * cols + first_col + i] = sum;
    }
    if (!kiln::is_last_block(tickets + group, SPLIT_ROWS)) return;
    for (int i = thread; i < kColumns; i += THREADS_X * THREADS_Y) {
        const i64 col = first_col + i;
        if (col >= cols) break;
        float sum = partial[col];
        for (int other = 1; other < SPLIT_ROWS; ++other) sum += partial[other * cols + col];
        sums[col] = sum;
    }
}
