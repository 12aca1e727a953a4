// column_sum: the sums of a matrix's columns by vector loads across columns, the rows distributed over blocks
//
// A block of THREADS_X x THREADS_Y threads sums one of SPLIT_ROWS parts of the rows of THREADS_X * VEC columns; blocks
// that follow each other have neighbouring columns of the same rows, so that what is read at once lies together;
// thread rows are joined in shared memory, and the last block of a group of columns joins the slices in a fixed
// order, with all of its threads. A matrix with few columns wants few THREADS_X, many THREADS_Y and many SPLIT_ROWS, one
// with few rows the contrary.
// With ANY_ROWS rows may begin at any element, as they do where VEC does not divide the columns, and accesses are aligned all the
// same. Row r is r * cols % VEC elements off, which is equal for every VEC-th row. A thread reads no others, so that each of
// its sums is of one column. A block then has VEC columns less than its accesses cover. Where the matrix itself does not begin
// at a multiple of an access, elements are read one at a time.
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
//@ param   ANY_ROWS       bool = false                            "accesses are aligned wherever rows begin"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require threads >= 32 && threads <= 1024  "a block has 32 to 1024 threads"
//@ require threads * (VEC * UNROLL * sizeof(T) / 4 + 32) <= device.registers_per_block  "the accesses in flight must fit the registers; choose fewer threads, or a smaller VEC or UNROLL"
//@ require !ANY_ROWS || (VEC > 1 && THREADS_Y % VEC == 0)  "with ANY_ROWS a thread reads every VEC-th row, and VEC is 2 or more; choose THREADS_Y as a multiple of VEC"
//@ let     COLUMNS = (THREADS_X - ANY_ROWS) * VEC           "of a block"
//@ let     PITCH   = THREADS_X * VEC + (ANY_ROWS ? THREADS_X * VEC / 32 : 0)  "of a thread row's sums in shared memory"
//@ size    rows = 8192 test 67
//@ size    cols = 8192 test COLUMNS + VEC + ANY_ROWS
//@ input   x [rows, cols]
//@ scratch partial [SPLIT_ROWS, cols]
//@ scratch tickets [ceil_div(cols, COLUMNS)] = 0
//@ output  sums [cols] by column_sum_reference exact
//@ flops   rows * cols
//@ naive   column_sum_naive
//@ block   THREADS_X, THREADS_Y
//@ grid    ceil_div(cols, COLUMNS) * SPLIT_ROWS
//@ shared  static (THREADS_Y * PITCH + 1) * sizeof(float)
//@ model   access VEC, UNROLL
//@ model   strip COLUMNS of cols
//@ model   any_rows ANY_ROWS
//@ model   search [VEC, THREADS_X], [ANY_ROWS, VEC], [SPLIT_ROWS, THREADS_Y, UNROLL], [THREADS_X, THREADS_Y]
#include "kiln/last_block.h"
#include "kiln/stream.h"

using kiln::i64;

constexpr int kThreads = THREADS_X * THREADS_Y;

/// Adds every THREADS_Y-th row from `row` on to `mine`: rows of whole vectors. `from`: this thread's in row 0.
__device__ __forceinline__ void add_vectors(float (&mine)[VEC], const T* __restrict__ from, i64 cols, i64 row, i64 end) {
    const auto add = [&](const kiln::Vec<T, VEC>& values) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) mine[v] += static_cast<float>(values[v]);
    };
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
/// `left`: columns from `x` to the end of a row, or of the block's.
__device__ __forceinline__ void add_elements(float (&mine)[VEC], const T* __restrict__ x, i64 left, i64 cols, i64 row, i64 end, int lane) {
    for (; row < end; row += THREADS_Y) {
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
            const int col = lane + v * THREADS_X;
            if (col < left) mine[v] += static_cast<float>(x[row * cols + col]);
        }
    }
}

/// Likewise, by accesses that begin at multiples of VEC, of which `x` is one: mine[v] is of this block's column `col + v`, if
/// that is one of its `left`. An access may bring the end of the row before or the begin of the next. `first`: the block's
/// first column.
__device__ __forceinline__ void add_any_rows(float (&mine)[VEC], const T* __restrict__ x, i64 first, int left, i64 rows, i64 cols, i64 row, i64 end,
                                             int col) {
    if (col >= left) return;
    i64 whole = end;  // rows whose access ends in the matrix
    if (end + VEC > rows) {
        const i64 room = rows * cols - VEC - (first + col);
        whole = room < 0 ? 0 : kiln::min(end, room / cols + 1);
    }
    add_vectors(mine, x + (first + col), cols, row, whole);
    if (row < whole) row += (whole - row + THREADS_Y - 1) / THREADS_Y * THREADS_Y;
    for (; row < end; row += THREADS_Y) {
#pragma unroll
        for (int v = 0; v < VEC; ++v)
            if (col + v >= 0 && col + v < left) mine[v] += static_cast<float>(x[row * cols + (first + col + v)]);
    }
}

/// Where a column's sum lies in a thread row's. With ANY_ROWS each sum is stored by itself, and lanes VEC columns apart
/// would meet in a bank.
__device__ __forceinline__ int place_of(int col) { return ANY_ROWS ? col + col / 32 : col; }

extern "C" __global__ __launch_bounds__(THREADS_X * THREADS_Y) void column_sum(long long rows, long long cols,
                                                                               const T* __restrict__ x, float* partial,
                                                                               unsigned* tickets,
                                                                               float* __restrict__ sums) {
    alignas(16) __shared__ float parts[THREADS_Y][PITCH];
    const int lane = threadIdx.x, y = threadIdx.y;
    const unsigned groups = gridDim.x / SPLIT_ROWS;
    const unsigned group = blockIdx.x % groups, slice = blockIdx.x / groups;
    const i64 first_col = static_cast<i64>(group) * COLUMNS;
    const int left = static_cast<int>(kiln::min(cols - first_col, static_cast<i64>(COLUMNS)));
    const i64 rows_per_slice = (rows + SPLIT_ROWS - 1) / SPLIT_ROWS;
    const i64 begin = kiln::min(rows, slice * rows_per_slice), end = kiln::min(rows, begin + rows_per_slice);
    const bool x_aligned = reinterpret_cast<kiln::u64>(x) % (VEC * sizeof(T)) == 0;
    const bool aligned = VEC == 1 || (x_aligned && (ANY_ROWS || cols % VEC == 0));

    float mine[VEC] = {};
    // mine[v] is of column first_of_mine + v * between.
    int first_of_mine = lane * VEC, between = 1;
    if (!aligned) {
        first_of_mine = lane;
        between = THREADS_X;
        add_elements(mine, x + first_col, left, cols, begin + y, end, lane);
    } else if constexpr (ANY_ROWS) {
        first_of_mine -= static_cast<int>(((begin + y) * cols + first_col) % VEC);
        add_any_rows(mine, x, first_col, left, rows, cols, begin + y, end, first_of_mine);
    } else if (first_of_mine < left) {
        add_vectors(mine, x + (first_col + first_of_mine), cols, begin + y, end);
    }
    if (aligned && !ANY_ROWS) {
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
        for (int v = 0; v < VEC; ++v) {
            const int col = first_of_mine + v * between;
            if (!ANY_ROWS || (col >= 0 && col < left)) parts[y][place_of(col)] = mine[v];
        }
    }
    __syncthreads();

    const int thread = y * THREADS_X + lane;
    // With ANY_ROWS nobody has stored what lies beyond.
    for (int i = thread; i < (ANY_ROWS ? left : COLUMNS); i += kThreads) {
        float sum = parts[0][place_of(i)];
#pragma unroll
        for (int other = 1; other < THREADS_Y; ++other) sum += parts[other][place_of(i)];
        if (i < left) (SPLIT_ROWS > 1 ? partial + slice * cols : sums)[first_col + i] = sum;
    }
    if (SPLIT_ROWS == 1) return;
    if (!kiln::is_last_block(tickets + group, SPLIT_ROWS)) return;
    // Where there are more threads than columns, several add the slices of each, every kJoiners-th.
    constexpr int kJoiners = kThreads > COLUMNS ? kThreads / COLUMNS : 1;
    const int joiner = thread / COLUMNS;
    for (int i = thread % COLUMNS; i < COLUMNS; i += kThreads) {
        float sum = 0.0f;
        if (i < left && joiner < kJoiners) {
#pragma unroll 8
            for (int other = joiner; other < SPLIT_ROWS; other += kJoiners) sum += partial[other * cols + (first_col + i)];
        }
        if constexpr (kJoiners > 1) {
            if (joiner < kJoiners) parts[joiner][place_of(i)] = sum;
            __syncthreads();
            if (joiner > 0) return;
#pragma unroll
            for (int other = 1; other < kJoiners; ++other) sum += parts[other][place_of(i)];
        }
        if (i < left && joiner == 0) sums[first_col + i] = sum;
    }
}
