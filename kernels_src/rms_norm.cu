// rms_norm: y = x / sqrt(mean(x^2) + 1e-5) * weight for each row, of x + residual where that is added; read once
//
// With RESIDUAL a row is the sum of x and residual, rounded to T, which is also written to `sum`, as the residual of what
// follows: what a transformer does between its layers, without a pass of its own. THREADS threads hold a row in registers,
// and a block has ROWS of them, or the blocks of a CLUSTER share one. Rows longer than CLUSTER * THREADS * VEC * ITEMS, or
// not aligned to VEC elements without ANY_ROWS, are read twice.
// With STAGED a block's rows pass through shared memory as one piece of memory, moved by 16 bytes wherever rows begin: for
// rows of up to some hundred elements, which leave most of wide accesses unused.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  rms_norm
//@ param   T         type in half, bfloat16, float = half      "element type of all"
//@ param   THREADS   int in 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 = 128  "threads per row"
//@ param   ROWS      int in 1, 2, 4, 8, 16, 32, 64 = 1                     "rows per block"
//@ param   VEC       int in 1, 2, 4, 8 = 16 / sizeof(T)        "elements per access"
//@ param   ITEMS     int in 1, 2, 4, 8, 16 = 4                 "accesses per thread, held in registers"
//@ param   CLUSTER   int in 1, 2, 4, 8 = 1                  "blocks of a cluster that share a row"
//@ param   RESIDUAL  bool = false                              "residual is added to x first, and the sum is stored"
//@ param   ANY_ROWS  bool = false                              "rows begin at any element: vectors are those of the memory, cut at a row's ends"
//@ param   STAGED     bool = false                           "a block's rows pass through shared memory as one piece of memory: for short rows"
//@ param   PDL       bool = false                              "may begin while the kernel before it still runs"
//@ let     ROW_REGISTERS  = VEC * ITEMS * sizeof(T) / 4  "registers of a thread that hold its part of the row"
//@ let     STAGE_BYTES    = STAGED ? (ceil_div(ROWS * THREADS * VEC * ITEMS * sizeof(T), 16) + 1) * 16 : 0  "of shared memory, for a piece of rows"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require threads * (ROW_REGISTERS * (RESIDUAL ? 2 : 1) + (ANY_ROWS ? max(ROW_REGISTERS, 16) : 0) + 32) <= device.registers_per_block  "the part of the row that each thread holds must fit its registers, with ANY_ROWS next to what is cut: use fewer ITEMS, or fewer threads"
//@ require threads >= 32  "the threads of a warp exchange values: use more ROWS"
//@ require CLUSTER <= device.blocks_per_cluster  "blocks share a row through the shared memory of a cluster, which the target's devices don't have; choose CLUSTER = 1"
//@ require CLUSTER == 1 || (ROWS == 1 && THREADS >= 256)  "a cluster has one row and at least 256 threads of each block for it; choose CLUSTER = 1, or ROWS = 1 and more THREADS"
//@ require !STAGED || (CLUSTER == 1 && !ANY_ROWS)  "rows in a piece begin anywhere, and a block has all of it: with STAGED use CLUSTER = 1 and ANY_ROWS = false"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test ANY_ROWS ? 1001 : STAGED ? min(1000, (THREADS * ITEMS - 1) * VEC) : 1000
//@ input   x [rows, cols]
//@ input   weight [cols]
//@ output  y [rows, cols] by rms_norm_reference
//@ input   residual [rows, cols] if RESIDUAL
//@ output  sum [rows, cols] by rms_norm_sum_reference exact if RESIDUAL
//@ flops   4 * rows * cols
//@ naive   rms_norm_naive
//@ dependent PDL
//@ block   THREADS, ROWS
//@ shared  (RESIDUAL ? 2 : 1) * STAGE_BYTES
//@ grid    ceil_div(rows, ROWS) * CLUSTER
//@ cluster CLUSTER
//@ model   access VEC, ITEMS
//@ model   staged_rows STAGED
//@ model   row CLUSTER * THREADS * VEC * ITEMS - (ANY_ROWS ? VEC - 1 : 0) of cols
//@ model   any_rows ANY_ROWS
//@ model   search [STAGED, ANY_ROWS, VEC, ITEMS], [STAGED, THREADS, ROWS], [STAGED, ANY_ROWS, THREADS, ITEMS], [ANY_ROWS, CLUSTER, ITEMS], [CLUSTER, THREADS]
#include "kiln/launch.h"
#include "kiln/row.h"
#include "kiln/row_stage.h"

using kiln::i64;
using Place = kiln::RowPlace<THREADS, ROWS, CLUSTER>;
using Row = kiln::Row<T, THREADS, VEC, ITEMS, 0, Place::kBlocks, ANY_ROWS>;
using Stage = kiln::RowStage<T, THREADS * ROWS, ROWS * THREADS * VEC * ITEMS>;
static_assert(!STAGED || Stage::kElements * sizeof(T) == STAGE_BYTES);

constexpr float kEpsilon = 1e-5f;

__device__ __forceinline__ T plus(T x, T residual) {
    return T(static_cast<float>(x) + static_cast<float>(residual));
}

// What a row's elements are multiplied with, but for the weights. squares: of this thread.
__device__ __forceinline__ float scale_of(float squares, int cols, float* parts) {
    return rsqrtf(kiln::row_reduce<THREADS, ROWS, Place::kBlocks>(squares, kiln::Sum{}, parts) / static_cast<float>(cols) +
                  kEpsilon);
}

// Element `col` of a row that is not held.
__device__ __forceinline__ T element(const T* x, const T* residual, i64 col) {
    return RESIDUAL ? plus(x[col], residual[col]) : x[col];
}

// Pointers are to this thread's row. x and y may be the same, and residual and sum. All threads of the block take part; those
// behind the last row write nothing.
__device__ __forceinline__ void norm_held(float* parts, bool is_there, int cols, const T* x, const Row::Shared& weight, T* y,
                                          const T* residual, T* sum) {
    Row held;
    held.load(x, cols);
    if constexpr (RESIDUAL) {
        Row added;
        added.load(residual, cols);
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            const int col = held.column(item);
            if (col >= cols) continue;
#pragma unroll
            for (int v = 0; v < VEC; ++v) held.values[item][v] = plus(held.values[item][v], added.values[item][v]);
            if (is_there) Row::store_at(sum, col, cols, held.values[item]);
        }
    }
    Place::wait_for_blocks();
    float squares = 0.0f;
    held.visit(cols, [&](float value, int, int) { squares += value * value; });
    const float scale = scale_of(squares, cols, parts);
    if (!is_there) return;
    kiln::Vec<T, VEC> weights;
    held.write(
        y, cols, [&](int item, int col) { weights = weight.at(item, col); },
        [&](float value, int, int v) { return value * scale * static_cast<float>(weights[v]); });
}

extern "C" __global__ __launch_bounds__(THREADS* ROWS) void rms_norm(
    long long rows, int cols, const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ y,
    const T* __restrict__ residual, T* __restrict__ sum) {
    if (Place::is_idle()) return;
    __shared__ float parts[kiln::kRowParts<THREADS, ROWS, Place::kBlocks>];
    if constexpr (PDL) {
        kiln::wait_for_previous_grid();
        kiln::let_next_grid_start();
        x = kiln::after_previous_grid(x);
        weight = kiln::after_previous_grid(weight);
        residual = kiln::after_previous_grid(residual);
    }
    const i64 row = Place::row();
    bool is_held = Row::fits(x, cols) && Row::fits(y, cols) && Row::fits(weight, cols) && Row::alike(x, y);
    if constexpr (RESIDUAL) is_held = is_held && Row::fits(residual, cols) && Row::fits(sum, cols) && Row::alike(x, residual) && Row::alike(x, sum);
    if constexpr (STAGED) {
        const bool is_staged = is_held && Stage::alike(x, y) && (!RESIDUAL || Stage::alike(residual, sum));
        if (is_staged) {
            const i64 first = row - threadIdx.y, from = first * cols;
            const auto count = static_cast<int>(kiln::min<i64>(rows - first, ROWS)) * cols;
            const int place = static_cast<int>(threadIdx.y) * cols;
            T* const memory = kiln::dynamic_shared<T>();
            const Stage stage(memory, x + from, count);
            const Stage added(memory + Stage::kElements, residual + from, count);
            const Row::Shared weights(weight, cols);
            Stage::Copies copies;
            stage.begin(copies, x + from);
            if constexpr (RESIDUAL) added.begin(copies, residual + from);
            Stage::wait(copies);
            norm_held(parts, row < rows, row < rows ? cols : 0, stage.at(place), weights, stage.at(place), added.at(place), added.at(place));
            stage.write(y + from);
            if constexpr (RESIDUAL) added.write(sum + from);
            return;
        }
    }
    const i64 from =
        kiln::min(row, rows - 1) * cols;  // threads behind the last row take part, and write nothing
    if (is_held) {
        norm_held(parts, row < rows, cols, x + from, Row::Shared(weight, cols), y + from, residual + from, sum + from);
        return;
    }
    float squares = 0.0f;
    Place::wait_for_blocks();
    x += from;
    residual += RESIDUAL ? from : 0;
    for (i64 col = Place::thread(); col < cols; col += Place::kThreads) {
        const float value = static_cast<float>(element(x, residual, col));
        squares += value * value;
    }
    const float scale = scale_of(squares, cols, parts);
    if (row >= rows) return;
    for (i64 col = Place::thread(); col < cols; col += Place::kThreads) {
        const T value = element(x, residual, col);
        if constexpr (RESIDUAL) sum[from + col] = value;
        y[from + col] = T(static_cast<float>(value) * scale * static_cast<float>(weight[col]));
    }
}
