// column_sum: the sums of a matrix's columns by vector loads across columns, the rows distributed over blocks
//
// A block of THREADS_X x THREADS_Y threads sums one of SPLIT_ROWS parts of the rows of THREADS_X * VEC columns; blocks
// that follow each other have neighbouring columns of the same rows, so that what is read at once lies together;
// thread rows are joined in shared memory, and the last block of a group of columns joins the slices in a fixed
// order, with all of its threads. A matrix with few columns wants few THREADS_X, many THREADS_Y and many SPLIT_ROWS, one
// with few rows the contrary.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  column_sum
//@ param   T              type in half, bfloat16, float = float  "element type; the sums are float"
//@ param   VEC            int in 1, 2, 4, 8 = 4                  "columns per access"
//@ param   THREADS_X      int in 4, 8, 16, 32, 64 = 32           "threads across the columns"
//@ param   THREADS_Y      int in 1, 2, 4, 8, 16, 32, 64 = 8      "threads down the rows"
//@ param   UNROLL         int in 1, 2, 4, 8, 16 = 4              "accesses under way per thread"
//@ param   SPLIT_ROWS     int in 1, 4, 8, 16, 32, 64, 128, 256, 512 = 8    "parts of the rows"
//@ param   L1_NO_ALLOCATE bool = true                             "loads leave nothing in L1"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require threads >= 32 && threads <= 1024  "a block has 32 to 1024 threads"
//@ require threads * (VEC * UNROLL * sizeof(T) / 4 + 32) <= device.registers_per_block  "the accesses in flight must fit the registers; choose fewer threads, or a smaller VEC or UNROLL"
//@ size    rows = 8192 test 67
//@ size    cols = 8192 test THREADS_X * VEC + VEC
//@ input   x [rows, cols]
//@ scratch partial [SPLIT_ROWS, cols]
//@ scratch tickets [ceil_div(cols, THREADS_X * VEC)] = 0
//@ output  sums [cols] by column_sum_reference exact
//@ flops   rows * cols
//@ naive   column_sum_naive
//@ block   THREADS_X, THREADS_Y
//@ grid    ceil_div(cols, THREADS_X * VEC) * SPLIT_ROWS
//@ shared  static (THREADS_Y * THREADS_X * VEC + 1) * sizeof(float)
//@ model   access VEC, UNROLL
//@ model   edge THREADS_X * VEC of cols
//@ model   search [VEC, THREADS_X], [SPLIT_ROWS, THREADS_Y, UNROLL], [THREADS_X, THREADS_Y]
#include "kiln/last_block.h"
#include "kiln/stream.h"

using kiln::i64;

constexpr int kColumns = THREADS_X * VEC;
constexpr int kThreads = THREADS_X * THREADS_Y;

/// Adds every THREADS_Y-th row from `row` on to `mine`: rows of whole vectors, of which a thread reads VEC columns that follow each
/// other. `left`: columns from `x` to the end of a row.
__device__ __forceinline__ void add_vectors(float (&mine)[VEC], const T* __restrict__ x, i64 left, i64 cols, i64 row, i64 end, int lane) {
    const T* const from = x + lane * VEC;
    const auto add = [&](const kiln::Vec<T, VEC>& values) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) mine[v] += static_cast<float>(values[v]);
    };
    if (lane * VEC >= left) return;
    for (; row + (UNROLL - 1) * THREADS_Y < end; row += UNROLL * THREADS_Y) {
        kiln::Vec<T, VEC> values[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) values[u] = kiln::stream_load<VEC, L1_NO_ALLOCATE>(from + (row + u * THREADS_Y) * cols);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) add(values[u]);
    }
    // Fewer than UNROLL accesses are left, which are under way together, too.
    kiln::Vec<T, VEC> values[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL - 1; ++u)
        if (row + u * THREADS_Y < end) values[u] = kiln::stream_load<VEC, L1_NO_ALLOCATE>(from + (row + u * THREADS_Y) * cols);
#pragma unroll
    for (int u = 0; u < UNROLL - 1; ++u)
        if (row + u * THREADS_Y < end) add(values[u]);
}

/// Likewise rows that no vector divides: a thread reads every THREADS_X-th column, and the compiler groups the rows.
__device__ __forceinline__ void add_elements(float (&mine)[VEC], const T* __restrict__ x, i64 left, i64 cols, i64 row, i64 end, int lane) {
    for (; row < end; row += THREADS_Y) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
            const int col = lane + v * THREADS_X;
            if (col < left) mine[v] += static_cast<float>(x[row * cols + col]);
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS_X * THREADS_Y) void column_sum(long long rows, long long cols,
                                                                               const T* __restrict__ x, float* partial,
                                                                               unsigned* tickets,
                                                                               float* __restrict__ sums) {
    alignas(16) __shared__ float parts[THREADS_Y][kColumns];
    const int lane = threadIdx.x, y = threadIdx.y;
    const unsigned groups = gridDim.x / SPLIT_ROWS;
    const unsigned group = blockIdx.x % groups, slice = blockIdx.x / groups;
    const i64 first_col = static_cast<i64>(group) * kColumns;
    const i64 rows_per_slice = (rows + SPLIT_ROWS - 1) / SPLIT_ROWS;
    const i64 begin = kiln::min(rows, slice * rows_per_slice), end = kiln::min(rows, begin + rows_per_slice);
    const bool aligned = VEC == 1 || (cols % VEC == 0 && reinterpret_cast<kiln::u64>(x) % (VEC * sizeof(T)) == 0);

    float mine[VEC] = {};
    if (aligned)
        add_vectors(mine, x + first_col, cols - first_col, cols, begin + y, end, lane);
    else
        add_elements(mine, x + first_col, cols - first_col, cols, begin + y, end, lane);
    if (aligned) {
        constexpr int kWidth = VEC < 4 ? VEC : 4;  // 16 bytes at most
#pragma unroll
        for (int v = 0; v < VEC; v += kWidth) {
            kiln::Vec<float, kWidth> some;
#pragma unroll
            for (int i = 0; i < kWidth; ++i) some[i] = mine[v + i];
            kiln::store(&parts[y][lane * VEC + v], some);
        }
    } else {
#pragma unroll
        for (int v = 0; v < VEC; ++v) parts[y][lane + v * THREADS_X] = mine[v];
    }
    __syncthreads();

    const int thread = y * THREADS_X + lane;
    for (int i = thread; i < kColumns; i += kThreads) {
        float sum = parts[0][i];
#pragma unroll
        for (int other = 1; other < THREADS_Y; ++other) sum += parts[other][i];
        if (first_col + i < cols) (SPLIT_ROWS > 1 ? partial + slice * cols : sums)[first_col + i] = sum;
    }
    if (SPLIT_ROWS == 1) return;
    if (!kiln::is_last_block(tickets + group, SPLIT_ROWS)) return;
    // Where there are more threads than columns, several add the slices of each, every kJoiners-th.
    constexpr int kJoiners = kThreads > kColumns ? kThreads / kColumns : 1;
    const int joiner = thread / kColumns;
    for (int i = thread % kColumns; i < kColumns; i += kThreads) {
        const i64 col = first_col + i;
        float sum = 0.0f;
        if (col < cols) {
#pragma unroll 8
            for (int other = joiner; other < SPLIT_ROWS; other += kJoiners) sum += partial[other * cols + col];
        }
        if constexpr (kJoiners > 1) {
            parts[joiner][i] = sum;
            __syncthreads();
            if (joiner > 0) return;
#pragma unroll
            for (int other = 1; other < kJoiners; ++other) sum += parts[other][i];
        }
        if (col < cols) sums[col] = sum;
    }
}
