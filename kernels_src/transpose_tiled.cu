// transpose_tiled: out = in transposed through a tile in shared memory: plain, padded or swizzled, with vectors of VEC
//
// in is rows x cols, out is cols x rows, both row-major. Rows of in become rows of the tile, columns of the tile
// become rows of out, so that global memory is read and written in lines of 128 bytes. What is left are the
// bank conflicts of reading the tile's columns:
//   PAD = 0, SWIZZLE = false   the elements of a column lie in few banks, or in one
//   PAD > 0                    each row begins some banks further on; 1 does best, with VEC = 1 and 16 bits 2.
//                              A pitch that VEC does not divide is written one element at a time
//   SWIZZLE = true             groups of elements change places within a row: no conflicts, no memory, and
//                              vectors stay whole
// VEC elements per access to global memory need rows that are aligned: cols and rows that are multiples of VEC. Other rows are
// moved one element at a time, or with ANY_ROWS so that memory sees whole sectors of 32 bytes: of each row of out a block
// writes a segment that begins with a sector. Where that is depends on the row, so the tile has that many more rows, which the
// next block reads, too. Elements of 16 bits are moved in pairs, which lie in a row of the tile as they do in memory.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  transpose_tiled
//@ param   T            type in half, bfloat16, float, double = float  "element type"
//@ param   TILE         int in 32, 64, 128 = 64         "rows and columns of a tile"
//@ param   THREADS      int in 64, 128, 256, 512, 1024 = 256  "threads per block"
//@ param   VEC          int in 1, 2, 4, 8 = min(4, 16 / sizeof(T))  "elements per access to global memory"
//@ param   PAD          int in 0, 1, 2, 4, 8 = 0        "extra elements per row of the tile"
//@ param   SWIZZLE      bool = true                     "exchange groups of elements within the rows of the tile, instead of PAD"
//@ param   PAIRS        bool = true                     "elements of 16 bits leave the tile two columns at a time"
//@ param   RASTER_GROUP int in 1, 8, 32, 128 = 1        "rows of tiles that blocks walk down before they go on to the next column of tiles; where a row of out has 2 to 16 KiB, and there are more than 2048 tiles, they walk down all"
//@ param   ANY_ROWS     bool = false                    "rows that are not aligned are written in whole sectors"
//@ let     SECTOR = 32 / sizeof(T)                        "elements that memory writes at once"
//@ let     WORD   = max(4 / sizeof(T), 1)                 "elements of an access where rows are not aligned"
//@ let     ANY_TILE = ANY_ROWS ? (TILE + SECTOR - 1) * (TILE + WORD) : 0  "elements of the tile there"
//@ require VEC * sizeof(T) <= 16           "one access moves 16 bytes at most"
//@ require TILE * TILE >= THREADS * VEC    "each thread needs a vector of the tile to move"
//@ require !(SWIZZLE && PAD != 0)          "PAD and SWIZZLE serve the same purpose; choose PAD = 0 or SWIZZLE = false"
//@ require !ANY_ROWS || VEC > 1  "all rows are aligned for accesses of one element: with ANY_ROWS choose a larger VEC"
//@ require !ANY_ROWS || THREADS >= (WORD > 1 ? TILE + SECTOR - 1 : 2 * TILE)  "with ANY_ROWS a block moves two rows of the tile at once or more, and a thread the last element of one row at most: use more THREADS"
//@ require PAIRS || sizeof(T) == 2         "only elements of 16 bits can leave the tile in pairs or not; for others leave PAIRS = true"
//@ block   THREADS
//@ grid    ceil_div(cols, TILE) * ceil_div(rows, TILE)
//@ shared  max(TILE * (TILE + PAD), ANY_TILE) * sizeof(T)
//@ size    rows = 8192 test TILE + (ANY_ROWS ? 7 : 8)
//@ size    cols = 8192 test 2 * TILE - (ANY_ROWS ? 7 : 8)
//@ input   in [rows, cols]
//@ output  out [cols, rows] by transpose_reference exact
//@ naive   transpose_naive
//@ model   access VEC
//@ model   any_rows ANY_ROWS
//@ model   search [ANY_ROWS, VEC], [ANY_ROWS, TILE, THREADS], [THREADS]
#include "kiln/device.h"

using kiln::i64;

constexpr int kPitch = TILE + PAD;
constexpr int kStoreWidth = kPitch % VEC == 0 ? VEC : 1;

constexpr int kSize = sizeof(T);

// Where rows of out have 2 to 16 KiB, and there are many tiles, blocks that follow each other write all of some rows, a piece of
// memory, instead of parts of many: 99 us instead of 140 for 1224 x 54816 FP16 on an H100, and 209 instead of 251 for 7000 x 20000.
// With shorter rows, or few tiles, it is the other way round.
constexpr int kLeastRow = 2048 / kSize, kMostRow = 16384 / kSize;
constexpr unsigned kManyTiles = 2048;

__device__ __forceinline__ bool walks_down(int rows, unsigned tiles) {
    return rows >= kLeastRow && rows <= kMostRow && tiles > kManyTiles;
}

// The swizzle exchanges groups of a row: vectors, but at least 4 bytes. A vector of `out` is a column's part
// from VEC rows of the tile, and those that a warp reads at once begin VEC rows apart: such rows differ in
// the group that they put first. So do rows that begin in the same bank where a row has less than 128 bytes.
constexpr int kGroup = VEC * kSize >= 4 ? VEC : 4 / kSize;
constexpr int kRowsPerLine = TILE * kSize < 128 ? 128 / (TILE * kSize) : 1;
constexpr int kRowsPerShift = VEC > kRowsPerLine ? VEC : kRowsPerLine;

__device__ __forceinline__ int place(int row, int col) {
    return row * kPitch + (SWIZZLE ? col ^ row / kRowsPerShift * kGroup % TILE : col);
}

// The tile as vectors of WIDTH, in the order in which threads take them: a warp takes up to 128 bytes of each
// of several rows.
template <int WIDTH>
struct Walk {
    static constexpr int kPerLine = 128 / (WIDTH * kSize);
    static constexpr int kLine = kPerLine > 32 ? 32 : kPerLine;
    static constexpr int kPerRow = TILE / WIDTH;
    static constexpr int kAcross = kPerRow < kLine ? kPerRow : kLine;
    static constexpr int kSteps = TILE * TILE / WIDTH / THREADS;
    static constexpr int kTogether = kSteps < 8 ? kSteps : 8;

    int row, col;

    __device__ __forceinline__ Walk(int step, int thread) {
        const int i = step * THREADS + thread;
        row = i / kAcross % TILE;
        col = (i / kAcross / TILE * kAcross + i % kAcross) * WIDTH;
    }
};

// `rows` x `cols`: what there is of the tile. With WIDTH > 1 all rows are aligned, and no vector is cut.
template <int WIDTH>
__device__ __forceinline__ void read_tile(T* tile, const T* __restrict__ in, i64 pitch, int rows, int cols,
                                          int thread) {
    using Order = Walk<WIDTH>;
#pragma unroll 1
    for (int first = 0; first < Order::kSteps; first += Order::kTogether) {
        // All of these reads are under way before the first is waited for.
        kiln::Vec<T, WIDTH> held[Order::kTogether];
#pragma unroll
        for (int i = 0; i < Order::kTogether; ++i) {
            const Order at(first + i, thread);
            if (at.row < rows && at.col < cols) held[i] = kiln::load<WIDTH>(in + at.row * pitch + at.col);
        }
#pragma unroll
        for (int i = 0; i < Order::kTogether; ++i) {
            const Order at(first + i, thread);
            if (at.row >= rows || at.col >= cols) continue;
            if constexpr (WIDTH == kStoreWidth) {
                kiln::store(tile + place(at.row, at.col), held[i]);
            } else {
#pragma unroll
                for (int v = 0; v < WIDTH; ++v) tile[place(at.row, at.col + v)] = held[i][v];
            }
        }
    }
}

// `rows` x `cols`: what there is of the tile's transpose, as `out` has it.
template <int WIDTH>
__device__ __forceinline__ void write_tile(const T* tile, T* __restrict__ out, i64 pitch, int rows, int cols,
                                           int thread) {
    using Order = Walk<WIDTH>;
#pragma unroll Order::kTogether
    for (int step = 0; step < Order::kSteps; ++step) {
        const Order at(step, thread);
        if (at.row >= rows || at.col >= cols) continue;
        kiln::Vec<T, WIDTH> values;
#pragma unroll
        for (int v = 0; v < WIDTH; ++v) values[v] = tile[place(at.col + v, at.row)];
        kiln::store(out + at.row * pitch + at.col, values);
    }
}

// The same for two neighbouring columns at once: an access to shared memory moves 4 bytes instead of 2. Groups of the
// swizzle are as large, and an even pitch keeps them aligned.
constexpr int kPairSteps = TILE * TILE / 2 / VEC / THREADS;
constexpr bool kInPairs = PAIRS && kSize == 2 && VEC > 1 && kPitch % 2 == 0 && kPairSteps > 0;
// Blocks that a multiprocessor must have registers for; 0: as the compiler likes, which is too few for pairs.
constexpr int kResident = kInPairs && THREADS >= 128 ? 1024 / THREADS : 0;

__device__ __forceinline__ void write_pairs(const T* tile, T* __restrict__ out, i64 pitch, int rows, int cols,
                                            int thread) {
    constexpr int kAcross = Walk<VEC>::kAcross, kPairs = TILE / 2;
#pragma unroll 2
    for (int step = 0; step < kPairSteps; ++step) {
        const int i = step * THREADS + thread;
        const int row = i / kAcross % kPairs * 2;
        const int col = (i / kAcross / kPairs * kAcross + i % kAcross) * VEC;
        if (row >= rows || col >= cols) continue;
        kiln::Vec<T, VEC> values[2];
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
            const auto pair = kiln::load<2>(tile + place(col + v, row));
            values[0][v] = pair[0];
            values[1][v] = pair[1];
        }
        T* const to = out + row * pitch + col;
        kiln::store(to, values[0]);
        if (row + 1 < rows) kiln::store(to + pitch, values[1]);
    }
}

// Tiles of ANY_ROWS. Threads lie across a row's words, so that all rows of a thread begin alike and only pointers move on. An odd
// pitch of words lets a column lie in different banks.
constexpr int kAnyRows = TILE + SECTOR - 1, kAnyPitch = TILE + WORD;
constexpr int kAcross = TILE / WORD, kDown = THREADS / kAcross;
using Word = kiln::Vec<T, WORD>;

// How many elements an element lies behind the last address that is a multiple of `unit` elements.
__device__ __forceinline__ int offset_in(const T* element, int unit) {
    return static_cast<int>(reinterpret_cast<kiln::u64>(element) / kSize % unit);
}

// A word of a matrix, as far as it lies in it. IS_INSIDE: it does.
template <bool IS_INSIDE>
__device__ __forceinline__ Word load_word(const T* from, const T* begin, const T* end) {
    if (IS_INSIDE || WORD == 1 || (from >= begin && from + WORD <= end)) return kiln::load<WORD>(from);
    Word some = {};
#pragma unroll
    for (int v = 0; v < WORD; ++v)
        if (from + v >= begin && from + v < end) some[v] = from[v];
    return some;
}

// Where a row of the tile begins: one element later where its first word begins before it.
struct Shift {
    int first, alternates;  // of the first row; 1: the next row is unlike it

    __device__ __forceinline__ int of(int row) const { return WORD == 1 ? 0 : first ^ (row & alternates); }
};

// `end`: of the whole matrix, which begins at `matrix`. IS_INSIDE: no word of these rows crosses its ends.
template <bool IS_INSIDE>
__device__ __forceinline__ void read_any_tile(T* tile, const T* __restrict__ matrix, const T* corner, const T* end, i64 pitch,
                                              Shift shift, int rows, int cols, int thread) {
    constexpr int kSteps = kiln::ceil_div(kAnyRows, kDown), kTogether = kSteps < 8 ? kSteps : 8;
    static_assert(WORD == 1 || kDown % 2 == 0, "the rows of a thread begin alike");
    const int last = kiln::min(rows, kAnyRows), y = thread / kAcross, x = thread % kAcross * WORD;
    // Of a row that begins within a word the last element lies in a word of its own.
    if (WORD > 1 && thread < last && shift.of(thread) != 0 && cols >= TILE)
        tile[thread * kAnyPitch + TILE] = corner[thread * pitch + TILE - 1];
    const T* from = corner + y * pitch + x - shift.of(y);
    T* to = tile + y * kAnyPitch + x;
    if (x - shift.of(y) >= cols) return;
#pragma unroll 1
    for (int row = y; row < last; row += kTogether * kDown) {
        // All of these reads are under way before the first is waited for.
        Word held[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
            if (row + i * kDown < last) held[i] = load_word<IS_INSIDE>(from + i * kDown * pitch, matrix, end);
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
            if (row + i * kDown < last) kiln::store(to + i * kDown * kAnyPitch, held[i]);
        from += kTogether * kDown * pitch;
        to += kTogether * kDown * kAnyPitch;
    }
}

// Writes a word of a row of out, from a column of the tile, as far as it lies in the row. IS_WHOLE: it does.
template <bool IS_WHOLE>
__device__ __forceinline__ void write_any_word(const T* tile, Shift shift, T* __restrict__ to, int row, int col, int rows) {
    Word values;
    if (IS_WHOLE || (row >= 0 && row + WORD <= rows)) {
#pragma unroll
        for (int v = 0; v < WORD; ++v) values[v] = tile[(row + v) * kAnyPitch + col + shift.of(row + v)];
        kiln::store(to + row, values);
    } else {
#pragma unroll
        for (int v = 0; v < WORD; ++v)
            if (row + v >= 0 && row + v < rows) to[row + v] = tile[(row + v) * kAnyPitch + col + shift.of(row + v)];
    }
}

// The tile's columns as rows of out, from their first whole sector on. is_first: with what is in front of that.
__device__ __forceinline__ void write_any_tile(const T* tile, Shift shift, T* __restrict__ out, i64 pitch, int rows, int cols,
                                               bool is_first, int thread) {
    const int place = offset_in(out, SECTOR), next = static_cast<int>(pitch % SECTOR);
    const auto lead = [=](int col) { return static_cast<int>(-static_cast<unsigned>(place + col * next) % SECTOR); };
    const int last = kiln::min(cols, TILE), x = thread % kAcross * WORD;
    T* to = out + thread / kAcross * pitch;
    if (rows >= TILE + SECTOR) {
#pragma unroll 4
        for (int col = thread / kAcross; col < last; col += kDown, to += kDown * pitch)
            write_any_word<true>(tile, shift, to, x + lead(col), col, rows);
    } else {
#pragma unroll 1
        for (int col = thread / kAcross; col < last; col += kDown, to += kDown * pitch)
            write_any_word<false>(tile, shift, to, x + lead(col), col, rows);
    }
    if (!is_first) return;
    for (int at = thread; at < last * (SECTOR / WORD); at += THREADS) {
        const int col = at / (SECTOR / WORD);
        write_any_word<false>(tile, shift, out + col * pitch, at % (SECTOR / WORD) * WORD + lead(col) - SECTOR, col, rows);
    }
}

__device__ __forceinline__ bool is_aligned(const T* matrix, int pitch) {
    return pitch % VEC == 0 && reinterpret_cast<kiln::u64>(matrix) % (VEC * sizeof(T)) == 0;
}

extern "C" __global__ __launch_bounds__(THREADS, kResident) void transpose_tiled(int rows, int cols,
                                                                                 const T* __restrict__ in,
                                                                                 T* __restrict__ out) {
    T* const tile = kiln::dynamic_shared<T>();

    // The grid is a line, since its y and z extents could not hold every size.
    const unsigned blocks_per_row = (static_cast<unsigned>(cols) + TILE - 1) / TILE;
    unsigned tile_row = blockIdx.x / blocks_per_row, tile_col = blockIdx.x % blocks_per_row;
    if (walks_down(rows, gridDim.x)) {
        const unsigned blocks_per_column = gridDim.x / blocks_per_row;
        tile_row = blockIdx.x % blocks_per_column;
        tile_col = blockIdx.x / blocks_per_column;
    } else if constexpr (RASTER_GROUP > 1) {
        // A strip of RASTER_GROUP rows of tiles, column by column; the last strip may be lower.
        const unsigned strip = tile_row / RASTER_GROUP * RASTER_GROUP;
        const unsigned in_strip = blockIdx.x - strip * blocks_per_row;
        const unsigned height = kiln::min<unsigned>(RASTER_GROUP, gridDim.x / blocks_per_row - strip);
        tile_row = strip + in_strip % height;
        tile_col = in_strip / height;
    }
    const int first_row = static_cast<int>(tile_row) * TILE;
    const int first_col = static_cast<int>(tile_col) * TILE;
    const int rows_left = rows - first_row;
    const int cols_left = cols - first_col;
    const int thread = threadIdx.x;

    if constexpr (ANY_ROWS) {
        if (!is_aligned(in, cols) || !is_aligned(out, rows)) {
            const T* const corner = in + (static_cast<i64>(first_row) * cols + first_col);
            const Shift shift{offset_in(corner, WORD), cols % WORD};
            const T* const end = in + static_cast<i64>(rows) * cols;
            if (corner > in && rows_left > kAnyRows)
                read_any_tile<true>(tile, in, corner, end, cols, shift, rows_left, cols_left, thread);
            else
                read_any_tile<false>(tile, in, corner, end, cols, shift, rows_left, cols_left, thread);
            __syncthreads();
            write_any_tile(tile, shift, out + (static_cast<i64>(first_col) * rows + first_row), rows, rows_left, cols_left,
                           tile_row == 0, thread);
            return;
        }
    }
    const T* const corner = in + static_cast<i64>(first_row) * cols + first_col;
    if (is_aligned(in, cols))
        read_tile<VEC>(tile, corner, cols, rows_left, cols_left, thread);
    else
        read_tile<1>(tile, corner, cols, rows_left, cols_left, thread);
    __syncthreads();
    T* const goal = out + static_cast<i64>(first_col) * rows + first_row;
    if (is_aligned(out, rows)) {
        if constexpr (kInPairs)
            write_pairs(tile, goal, rows, cols_left, rows_left, thread);
        else
            write_tile<VEC>(tile, goal, rows, cols_left, rows_left, thread);
    } else {
        write_tile<1>(tile, goal, rows, cols_left, rows_left, thread);
    }
}
