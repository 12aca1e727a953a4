// softmax: softmax of SCORE of a matrix's rows; a row is read once and stays in registers
//
// THREADS threads hold a row, and a block has ROWS of them. Exponentials are kept as floats, or computed a second time
// from the row as it was read (RECOMPUTE), which takes half the registers of 16-bit types; then shared memory can hold a
// part of it, SMEM_ITEMS accesses per thread, so that a multiprocessor has room for two long rows. The blocks of a CLUSTER
// share a row. Rows longer than CLUSTER * THREADS * VEC * (ITEMS + SMEM_ITEMS), or not aligned to VEC elements without ANY_ROWS,
// are read twice: the first time for the maximum and the sum together (Milakov and Gimelshein, Online normalizer calculation for
// softmax, 2018).
// With STAGED a block's rows pass through shared memory as one piece of memory, moved by 16 bytes wherever rows begin: for
// rows of up to some hundred elements, which leave most of wide accesses unused.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  softmax
//@ param   T          type in half, bfloat16, float = half   "element type of x and y"
//@ param   THREADS    int in 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 = 128  "threads per row"
//@ param   ROWS       int in 1, 2, 4, 8, 16, 32, 64 = 1                  "rows per block"
//@ param   VEC        int in 1, 2, 4, 8 = 16 / sizeof(T)     "elements per access"
//@ param   ITEMS      int in 1, 2, 4, 8, 16 = 4              "accesses per thread that fit its registers"
//@ param   SMEM_ITEMS int in 0, 2, 4, 8, 12, 16 = 0          "accesses per thread that shared memory holds, in addition"
//@ param   CLUSTER    int in 1, 2, 4, 8 = 1                  "blocks of a cluster that share a row"
//@ param   RECOMPUTE  bool = false                           "compute exponentials twice instead of keeping them"
//@ param   ANY_ROWS   bool = false                           "rows begin at any element: vectors are those of the memory, cut at a row's ends"
//@ param   STAGED     bool = false                           "a block's rows pass through shared memory as one piece of memory: for short rows"
//@ param   PDL        bool = false                          "may begin while the kernel before it still runs"
//@ param   SCORE      code = "return x;" (float x, long long row, int column) -> float  "what the softmax is of, for each element x; computed twice or three times"
//@ let     MIN_BLOCKS     = SMEM_ITEMS > 0 && THREADS * ROWS <= 512 ? 2 : 0  "blocks that a multiprocessor must have registers for; 0: as the compiler likes"
//@ let     ROW_REGISTERS  = RECOMPUTE ? VEC * ITEMS * sizeof(T) / 4 : VEC * ITEMS  "registers of a thread that hold its part of the row"
//@ let     SMEM_ROW_BYTES = THREADS * SMEM_ITEMS * VEC * sizeof(T)  "of a row, in shared memory"
//@ let     STAGE_BYTES    = STAGED ? (ceil_div(ROWS * THREADS * VEC * ITEMS * sizeof(T), 16) + 1) * 16 : 0  "of shared memory, for a piece of rows"
//@ require VEC * sizeof(T) <= 16  "one access moves 16 bytes at most"
//@ require max(MIN_BLOCKS, 1) * threads * (ROW_REGISTERS + (ANY_ROWS && RECOMPUTE ? ROW_REGISTERS : 0) + 32) <= device.registers_per_block  "the part of the row that each thread holds must fit its registers, with SMEM_ITEMS those of two blocks: use fewer ITEMS, fewer threads, or RECOMPUTE=true"
//@ require threads >= 32  "the threads of a warp exchange values: use more ROWS"
//@ require SMEM_ITEMS == 0 || (RECOMPUTE && VEC * sizeof(T) >= 4)  "with a part of the row in shared memory RECOMPUTE is true, and an access has 4 bytes or more"
//@ require CLUSTER <= device.blocks_per_cluster  "blocks share a row through the shared memory of a cluster, which the target's devices don't have; choose CLUSTER = 1"
//@ require CLUSTER == 1 || (ROWS == 1 && THREADS >= 256)  "a cluster has one row and at least 256 threads of each block for it; choose CLUSTER = 1, or ROWS = 1 and more THREADS"
//@ require !STAGED || (CLUSTER == 1 && SMEM_ITEMS == 0 && !ANY_ROWS)  "rows in a piece begin anywhere, and a block has all of it: with STAGED use SMEM_ITEMS = 0, CLUSTER = 1 and ANY_ROWS = false"
//@ size    rows = 16384 test 19
//@ size    cols = 4096 test ANY_ROWS ? 1001 : STAGED ? min(1000, (THREADS * ITEMS - 1) * VEC) : 1000
//@ input   x [rows, cols]
//@ output  y [rows, cols] by softmax_reference
//@ flops   5 * rows * cols
//@ naive   softmax_naive
//@ dependent PDL
//@ block   THREADS, ROWS
//@ shared  ROWS * SMEM_ROW_BYTES + STAGE_BYTES
//@ grid    ceil_div(rows, ROWS) * CLUSTER
//@ cluster CLUSTER
//@ model   access VEC, ITEMS
//@ model   staged_rows STAGED
//@ model   row CLUSTER * THREADS * VEC * (ITEMS + SMEM_ITEMS) - (ANY_ROWS ? VEC - 1 : 0) of cols
//@ model   any_rows ANY_ROWS
//@ model   search [STAGED, ANY_ROWS, VEC, ITEMS], [ITEMS, SMEM_ITEMS, RECOMPUTE], [STAGED, THREADS, ROWS], [STAGED, ANY_ROWS, THREADS, ITEMS], [ANY_ROWS, CLUSTER, ITEMS], [CLUSTER, THREADS]
#include "kiln/launch.h"
#include "kiln/row.h"
#include "kiln/row_stage.h"
#include "kiln/softmax.h"

using kiln::i64;
using Place = kiln::RowPlace<THREADS, ROWS, CLUSTER>;
using Row = kiln::Row<T, THREADS, VEC, ITEMS, SMEM_ITEMS, Place::kBlocks, ANY_ROWS>;
using Stage = kiln::RowStage<T, THREADS * ROWS, ROWS * THREADS * VEC * ITEMS>;
static_assert(!STAGED || Stage::kElements * sizeof(T) == STAGE_BYTES);

constexpr int kParts = kiln::kRowParts<THREADS, ROWS, Place::kBlocks>;

// Two reductions, one after the other, each with parts of its own, or one of both.
union Parts {
    struct Turns {
        float max[kParts];
        float sum[kParts];
    } turns;
    kiln::MaxAndSum both[kParts];
};

// x and y: this thread's row, which is number `place`; they may be the same. All threads of the block take part; those
// behind the last row write nothing.
__device__ __forceinline__ void softmax_held(Parts& parts, bool is_there, i64 place, int cols, const T* x, T* y) {
    Row row;
    if constexpr (SMEM_ITEMS > 0)
        row.set_stash(kiln::dynamic_shared<unsigned char>() + threadIdx.y * static_cast<unsigned long long>(SMEM_ROW_BYTES));
    row.load(x, cols);
    Place::wait_for_blocks();
    const auto score = [&](float value, int item, int v) { return SCORE(value, place, row.column(item) + v); };
    float largest = kiln::kMinusInfinity;
    row.visit(cols, [&](float value, int item, int v) { largest = fmaxf(largest, score(value, item, v)); });
    largest = kiln::row_reduce<THREADS, ROWS, Place::kBlocks>(largest, kiln::Max{}, parts.turns.max);
    if constexpr (RECOMPUTE) row.reread();
    const auto power = [&](float value) { return exp2f((value - largest) * kiln::kLog2E); };
    float powers[RECOMPUTE ? 1 : ITEMS][VEC];
    float sum = 0.0f;
    row.visit(cols, [&](float value, int item, int v) {
        const float weight = power(score(value, item, v));
        if constexpr (!RECOMPUTE) powers[item][v] = weight;
        sum += weight;
    });
    const float factor = 1.0f / kiln::row_reduce<THREADS, ROWS, Place::kBlocks>(sum, kiln::Sum{}, parts.turns.sum);
    if constexpr (RECOMPUTE) row.reread();
    if (!is_there) return;
    row.write(
        y, cols, [](int, int) {},
        [&](float value, int item, int v) {
            return (RECOMPUTE ? power(score(value, item, v)) : powers[RECOMPUTE ? 0 : item][v]) * factor;
        });
}

extern "C" __global__ __launch_bounds__(THREADS * ROWS, MIN_BLOCKS) void softmax(long long rows, int cols, const T* __restrict__ x,
                                                                     T* __restrict__ y) {
    if (Place::is_idle()) return;
    __shared__ Parts parts;
    if constexpr (PDL) {
        kiln::wait_for_previous_grid();
        kiln::let_next_grid_start();
        x = kiln::after_previous_grid(x);
    }
    const i64 place = Place::row();
    const bool is_there = place < rows;
    const bool in_registers = Row::fits(x, cols) && Row::fits(y, cols) && Row::alike(x, y);
    if constexpr (STAGED) {
        const i64 first = place - threadIdx.y;
        if (in_registers && Stage::alike(x, y)) {
            const int count = static_cast<int>(kiln::min<i64>(rows - first, ROWS)) * cols;
            const Stage stage(kiln::dynamic_shared<T>(), x + first * cols, count);
            Stage::Copies copies;
            stage.begin(copies, x + first * cols);
            Stage::wait(copies);
            T* const row = stage.at(static_cast<int>(threadIdx.y) * cols);
            softmax_held(parts, is_there, place, is_there ? cols : 0, row, row);
            stage.write(y + first * cols);
            return;
        }
    }
    x += kiln::min(place, rows - 1) * cols;
    y += place * cols;
    if (in_registers) {
        softmax_held(parts, is_there, place, cols, x, y);
        return;
    }
    Place::wait_for_blocks();
    // Differences are scaled, not elements: rounding the products of large ones would lose what sets them apart.
    float largest = kiln::kMinusInfinity, base = 0.0f, sum = 0.0f;
    for (i64 col = Place::thread(); col < cols; col += Place::kThreads) {
        const float value = SCORE(static_cast<float>(x[col]), place, static_cast<int>(col));
        if (value > largest) {
            sum *= kiln::fast_exp2((largest - value) * kiln::kLog2E);
            largest = base = value;
        }
        sum += kiln::fast_exp2((value - base) * kiln::kLog2E);
    }
    const auto all = kiln::row_reduce<THREADS, ROWS, Place::kBlocks>(kiln::MaxAndSum{largest, sum}, kiln::MaxSum{kiln::kLog2E}, parts.both);
    const float factor = 1.0f / all.sum;
    if (!is_there) return;
    for (i64 col = Place::thread(); col < cols; col += Place::kThreads)
        y[col] = T(exp2f((SCORE(static_cast<float>(x[col]), place, static_cast<int>(col)) - all.max) * kiln::kLog2E) * factor);
}
