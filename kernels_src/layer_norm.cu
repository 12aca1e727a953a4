// layer_norm: y = (x - mean) / sqrt(variance + 1e-5) * weight + bias for each row; the row is read once
//
// THREADS threads hold a row, and a block has ROWS of them. The variance is the mean of squared differences from the
// mean, which takes a second pass over the registers and does not cancel. Of long rows shared memory holds a part,
// SMEM_ITEMS accesses per thread, so that a multiprocessor has room for two of them. The blocks of a CLUSTER share a row.
// Rows longer than CLUSTER * THREADS * VEC * (ITEMS + SMEM_ITEMS), or not aligned to VEC elements without
// ANY_ROWS, are read three times. On
// an H200 4 to 16 ITEMS and few threads do best; blocks that walk over rows, keep weight and bias, or read a row ahead did
// worse.
// With STAGED a block's rows pass through shared memory as one piece of memory, moved by 16 bytes wherever rows begin: for
// rows of up to some hundred elements, which leave most of wide accesses unused.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  layer_norm
//@ param   T          type in half, bfloat16, float = half      "element type of all"
//@ param   THREADS    int in 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 = 128  "threads per row"
//@ param   ROWS       int in 1, 2, 4, 8, 16, 32, 64 = 1                     "rows per block"
//@ param   VEC        int in 1, 2, 4, 8 = 16 / sizeof(T)        "elements per access"
//@ param   ITEMS      int in 1, 2, 4, 8, 16 = 4                 "accesses per thread that fit its registers"
//@ param   SMEM_ITEMS int in 0, 2, 4, 8, 12, 16 = 0             "accesses per thread that shared memory holds, in addition"
//@ param   CLUSTER    int in 1, 2, 4, 8 = 1                  "blocks of a cluster that share a row"
//@ param   ANY_ROWS   bool = false                           "rows begin at any element: vectors are those of the memory, cut at a row's ends"
//@ param   STAGED     bool = false                           "a block's rows pass through shared memory as one piece of memory: for short rows"
//@ param   PDL        bool = false                             "may begin while the kernel before it still runs"
//@ let     MIN_BLOCKS     = SMEM_ITEMS > 0 && THREADS * ROWS <= 512 ? 2 : 0  "blocks that a multiprocessor must have registers for; 0: as the compiler likes"
//@ let     ROW_REGISTERS  = VEC * ITEMS * sizeof(T) / 4  "registers of a thread that hold its part of the row"
//@ let     SMEM_ROW_BYTES = THREADS * SMEM_ITEMS * VEC * sizeof(T)  "of a row, in shared memory"
//@ let     STAGE_BYTES    = STAGED ? (ceil_div(ROWS * THREADS * VEC * ITEMS * sizeof(T), 16) + 1) * 16 : 0  "of shared memory, for a piece of rows"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require max(MIN_BLOCKS, 1) * threads * (ROW_REGISTERS + (ANY_ROWS ? max(ROW_REGISTERS, SMEM_ITEMS > 0 ? 24 : 16) : 0) + 32) <= device.registers_per_block  "the part of the row that each thread holds must fit its registers, with SMEM_ITEMS those of two blocks, and with ANY_ROWS next to what is cut: use fewer ITEMS, or fewer threads"
//@ require threads >= 32  "the threads of a warp exchange values: use more ROWS"
//@ require SMEM_ITEMS == 0 || VEC * sizeof(T) >= 4  "a part of the row in shared memory takes accesses of 4 bytes or more"
//@ require CLUSTER <= device.blocks_per_cluster  "blocks share a row through the shared memory of a cluster, which the target's devices don't have; choose CLUSTER = 1"
//@ require CLUSTER == 1 || (ROWS == 1 && THREADS >= 256)  "a cluster has one row and at least 256 threads of each block for it; choose CLUSTER = 1, or ROWS = 1 and more THREADS"
//@ require !STAGED || (CLUSTER == 1 && SMEM_ITEMS == 0 && !ANY_ROWS)  "rows in a piece begin anywhere, and a block has all of it: with STAGED use SMEM_ITEMS = 0, CLUSTER = 1 and ANY_ROWS = false"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test ANY_ROWS ? 1001 : STAGED ? min(1000, (THREADS * ITEMS - 1) * VEC) : 1000
//@ input   x [rows, cols]
//@ input   weight [cols]
//@ input   bias [cols]
//@ output  y [rows, cols] by layer_norm_reference
//@ flops   8 * rows * cols
//@ naive   layer_norm_naive
//@ dependent PDL
//@ block   THREADS, ROWS
//@ shared  ROWS * SMEM_ROW_BYTES + STAGE_BYTES
//@ grid    ceil_div(rows, ROWS) * CLUSTER
//@ cluster CLUSTER
//@ model   access VEC, ITEMS
//@ model   staged_rows STAGED
//@ model   row CLUSTER * THREADS * VEC * (ITEMS + SMEM_ITEMS) - (ANY_ROWS ? VEC - 1 : 0) of cols
//@ model   any_rows ANY_ROWS
//@ model   search [STAGED, ANY_ROWS, VEC, ITEMS], [ITEMS, SMEM_ITEMS], [STAGED, THREADS, ROWS], [STAGED, ANY_ROWS, THREADS, ITEMS], [ANY_ROWS, CLUSTER, ITEMS], [CLUSTER, THREADS]
#include "kiln/launch.h"
#include "kiln/row.h"
#include "kiln/row_stage.h"

using kiln::i64;
using Place = kiln::RowPlace<THREADS, ROWS, CLUSTER>;
using Row = kiln::Row<T, THREADS, VEC, ITEMS, SMEM_ITEMS, Place::kBlocks, ANY_ROWS>;
using Stage = kiln::RowStage<T, THREADS * ROWS, ROWS * THREADS * VEC * ITEMS>;
static_assert(!STAGED || Stage::kElements * sizeof(T) == STAGE_BYTES);

constexpr float kEpsilon = 1e-5f;

// Two reductions, one after the other, each with parts of its own.
struct Parts {
    float mean[kiln::kRowParts<THREADS, ROWS, Place::kBlocks>];
    float squares[kiln::kRowParts<THREADS, ROWS, Place::kBlocks>];
};

__device__ __forceinline__ float reduce(float value, float* parts) {
    return kiln::row_reduce<THREADS, ROWS, Place::kBlocks>(value, kiln::Sum{}, parts);
}

// x and y: this thread's row; they may be the same. All threads of the block take part; those behind the last row write
// nothing.
__device__ __forceinline__ void norm_held(Parts& parts, bool is_there, int cols, const T* x,
                                          const Row::Shared& weight, const Row::Shared& bias, T* y) {
    const float per_element = 1.0f / static_cast<float>(cols);
    Row row;
    if constexpr (SMEM_ITEMS > 0)
        row.set_stash(kiln::dynamic_shared<unsigned char>() + threadIdx.y * static_cast<unsigned long long>(SMEM_ROW_BYTES));
    row.load(x, cols);
    Place::wait_for_blocks();
    float sum = 0.0f;
    row.visit(cols, [&](float value, int, int) { sum += value; });
    const float mean = reduce(sum, parts.mean) * per_element;
    row.reread();
    float squares = 0.0f;
    row.visit(cols, [&](float value, int, int) { squares += (value - mean) * (value - mean); });
    const float scale = rsqrtf(reduce(squares, parts.squares) * per_element + kEpsilon);
    row.reread();
    if (!is_there) return;
    kiln::Vec<T, VEC> weights, biases;
    row.write(
        y, cols,
        [&](int item, int col) {
            weights = weight.at(item, col);
            biases = bias.at(item, col);
        },
        [&](float value, int, int v) {
            return (value - mean) * scale * static_cast<float>(weights[v]) + static_cast<float>(biases[v]);
        });
}

extern "C" __global__ __launch_bounds__(THREADS * ROWS, MIN_BLOCKS) void layer_norm(long long rows, int cols,
                                                                        const T* __restrict__ x,
                                                                        const T* __restrict__ weight,
                                                                        const T* __restrict__ bias,
                                                                        T* __restrict__ y) {
    if (Place::is_idle()) return;
    __shared__ Parts parts;
    if constexpr (PDL) {
        kiln::wait_for_previous_grid();
        kiln::let_next_grid_start();
        x = kiln::after_previous_grid(x);
        weight = kiln::after_previous_grid(weight);
        bias = kiln::after_previous_grid(bias);
    }
    const i64 place = Place::row();
    const bool is_there = place < rows;
    const bool in_registers =
        Row::fits(x, cols) && Row::fits(y, cols) && Row::fits(weight, cols) && Row::fits(bias, cols) && Row::alike(x, y);
    if constexpr (STAGED) {
        const i64 first = place - threadIdx.y;
        if (in_registers && Stage::alike(x, y)) {
            const auto count = static_cast<int>(kiln::min<i64>(rows - first, ROWS)) * cols;
            const Stage stage(kiln::dynamic_shared<T>(), x + first * cols, count);
            const Row::Shared weights(weight, cols), biases(bias, cols);
            Stage::Copies copies;
            stage.begin(copies, x + first * cols);
            Stage::wait(copies);
            T* const row = stage.at(static_cast<int>(threadIdx.y) * cols);
            norm_held(parts, is_there, is_there ? cols : 0, row, weights, biases, row);
            stage.write(y + first * cols);
            return;
        }
    }
    x += kiln::min(place, rows - 1) * cols;
    y += place * cols;
    if (in_registers) {
        norm_held(parts, is_there, cols, x, Row::Shared(weight, cols), Row::Shared(bias, cols), y);
        return;
    }
    Place::wait_for_blocks();
    const float per_element = 1.0f / static_cast<float>(cols);
    float sum = 0.0f;
    for (i64 col = Place::thread(); col < cols; col += Place::kThreads) sum += static_cast<float>(x[col]);
    const float mean = reduce(sum, parts.mean) * per_element;
    float squares = 0.0f;
    for (i64 col = Place::thread(); col < cols; col += Place::kThreads) {
        const float difference = static_cast<float>(x[col]) - mean;
        squares += difference * difference;
    }
    const float scale = rsqrtf(reduce(squares, parts.squares) * per_element + kEpsilon);
    if (!is_there) return;
    for (i64 col = Place::thread(); col < cols; col += Place::kThreads)
        y[col] = T((static_cast<float>(x[col]) - mean) * scale * static_cast<float>(weight[col]) +
                   static_cast<float>(bias[col]));
}
