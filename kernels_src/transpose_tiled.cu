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
// moved one element at a time, or with ANY_ROWS by vectors of 16 bytes of which memory sees whole sectors of 32: of each row of out a
// block writes a segment that begins with a sector. Where that is depends on the row, so the tile has that many more rows, which the
// next block reads, too.
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
//@ param   RASTER_GROUP int in 1, 8, 32, 128 = 1        "rows of tiles that blocks walk down before they go on to the next column of tiles; where a row of out has 384 bytes to 32 KiB, and there are more than 2048 tiles, they walk down all"
//@ param   ANY_ROWS     bool = false                    "rows that are not aligned are written in whole sectors"
//@ let     SECTOR = 32 / sizeof(T)                        "elements that memory writes at once"
//@ let     VECTOR = 16 / sizeof(T)                        "elements of an access where rows are not aligned"
//@ let     ANY_TILE = ANY_ROWS ? (TILE + SECTOR - 1) * (TILE + VECTOR) + (TILE + SECTOR - 2) / VECTOR * VECTOR : 0  "elements of the tile there"
//@ require VEC * sizeof(T) <= 16           "one access moves 16 bytes at most"
//@ require TILE * TILE >= THREADS * VEC    "each thread needs a vector of the tile to move"
//@ require !(SWIZZLE && PAD != 0)          "PAD and SWIZZLE serve the same purpose; choose PAD = 0 or SWIZZLE = false"
//@ require !ANY_ROWS || VEC > 1  "all rows are aligned for accesses of one element: with ANY_ROWS choose a larger VEC"
//@ require !ANY_ROWS || THREADS >= 2 * TILE  "with ANY_ROWS a block needs two threads for each row of the tile: use more THREADS"
//@ require PAIRS || sizeof(T) == 2         "only elements of 16 bits can leave the tile in pairs or not; for others leave PAIRS = true"
//@ block   THREADS
//@ grid    ceil_div(cols, TILE) * ceil_div(rows, TILE)
//@ shared  max(TILE * (TILE + PAD), ANY_TILE) * sizeof(T)
//@ size    rows = 8192 test TILE + (ANY_ROWS ? 23 : 8)
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

// Where rows of out have 384 bytes to 32 KiB, and there are many tiles, blocks that follow each other write all of some rows, a piece of
// memory, instead of parts of many: 99 us instead of 140 for 1224 x 54816 FP16 (H100), 110 instead of 158 for 304 x 337736 BF16 with
// TILE = 64, and 337 instead of 368 for 9374 x 33703 BF16 (H200). With shorter rows, longer ones (443 instead
// of 422 with 300 KB), or few tiles, it is the other way round.
constexpr int kLeastRow = 384 / kSize, kMostRow = 32768 / kSize;
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

// Tiles of ANY_ROWS. Memory is read and written by vectors of 16 bytes that are aligned. A row of the tile holds them as memory does, so
// that what it shows begins up to a vector later. Behind each VECTOR rows one vector is left out: then threads that read rows as far
// apart read different banks.
constexpr int kAnyRows = TILE + SECTOR - 1, kAnyPitch = TILE + VECTOR;
using Vector = kiln::Vec<T, VECTOR>;

__device__ __forceinline__ int any_place(int row) { return row * kAnyPitch + row / VECTOR * VECTOR; }

// How many elements an element lies behind the last address that is a multiple of `unit` elements.
__device__ __forceinline__ int offset_in(const T* element, int unit) {
    return static_cast<int>(reinterpret_cast<kiln::u64>(element) / kSize % unit);
}

// Where a row begins within its first vector.
struct Shift {
    int first, step;  // of the first row, and from one to the next

    __device__ __forceinline__ int of(int row) const { return static_cast<int>(static_cast<unsigned>(first + row * step) % VECTOR); }
};

// A vector of a matrix, as far as it lies in it. IS_INSIDE: it does.
template <bool IS_INSIDE>
__device__ __forceinline__ Vector load_vector(const T* from, const T* begin, const T* end) {
    if (IS_INSIDE || (from >= begin && from + VECTOR <= end)) return kiln::load<VECTOR>(from);
    Vector some = {};
#pragma unroll
    for (int v = 0; v < VECTOR; ++v)
        if (from + v >= begin && from + v < end) some[v] = from[v];
    return some;
}

// `end`: of the whole matrix, which begins at `matrix`. IS_INSIDE: no vector of these rows crosses its ends.
template <bool IS_INSIDE>
__device__ __forceinline__ void read_any_tile(T* tile, const T* __restrict__ matrix, const T* corner, const T* end, i64 pitch,
                                              Shift shift, int rows, int cols, int thread) {
    constexpr int kAcross = TILE / VECTOR, kDown = THREADS / kAcross, kPlaces = kDown * kAnyPitch + kDown;
    constexpr int kSteps = kiln::ceil_div(kAnyRows, kDown);
    constexpr int kTogether = IS_INSIDE ? kiln::ceil_div(kSteps, kiln::ceil_div(kSteps, 9)) : 1;
    static_assert(!ANY_ROWS || kDown % VECTOR == 0, "the rows of a thread begin alike");
    const int last = kiln::min(rows, kAnyRows), y = thread / kAcross, x = thread % kAcross * VECTOR;
    // What a row that begins later shows last lies in one vector more.
    for (int row = thread; row < last; row += THREADS) {
        const int col = TILE - shift.of(row);
        if (col < TILE && col < cols)
            kiln::store(tile + any_place(row) + TILE, load_vector<IS_INSIDE>(corner + row * pitch + col, matrix, end));
    }
    const int col = x - shift.of(y);
    if (col >= cols) return;
    const T* from = corner + y * pitch + col;
    T* to = tile + any_place(y) + x;
#pragma unroll 1
    for (int row = y; row < last; row += kTogether * kDown) {
        // All of these reads are under way before the first is waited for.
        Vector held[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
            if (row + i * kDown < last) held[i] = load_vector<IS_INSIDE>(from + i * kDown * pitch, matrix, end);
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
            if (row + i * kDown < last) kiln::store(to + i * kPlaces, held[i]);
        from += kTogether * kDown * pitch;
        to += kTogether * kPlaces;
    }
}

// The tile's columns as rows of out, from their first whole sector on. is_first: with what is in front of that. Columns SECTOR apart
// have that at the same row, so a thread takes such columns of the same rows, which it looks up once.
__device__ __forceinline__ void write_any_tile(const T* tile, Shift shift, T* __restrict__ out, i64 pitch, int rows, int cols,
                                               bool is_first, int thread) {
    // Of each of the columns that a warp takes at once 128 bytes: more would be read from the same banks.
    constexpr int kDown = TILE / VECTOR, kRun = kDown < 8 ? kDown : 8, kPart = kDown * SECTOR, kStep = kiln::ceil_div(THREADS, kPart) * SECTOR;
    static_assert(!ANY_ROWS || THREADS % kPart == 0, "each thread has rows of its own");
    const int place = offset_in(out, SECTOR), next = static_cast<int>(pitch % SECTOR);
    const auto lead = [=](int col) { return static_cast<int>(-static_cast<unsigned>(place + col * next) % SECTOR); };
    const int first = thread / kPart * SECTOR + thread / kRun % SECTOR;
    const int row = lead(first) + (thread % kPart / (kRun * SECTOR) * kRun + thread % kRun) * VECTOR;
    const T* from[VECTOR];
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) from[v] = tile + any_place(row + v) + shift.of(row + v) + first;
    T* to = out + first * pitch + row;
#pragma unroll 4
    for (int col = 0; col < TILE; col += kStep, to += kStep * pitch) {
        if (first + col >= kiln::min(cols, TILE)) break;
        if (row + VECTOR <= rows) {
            Vector values;
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) values[v] = from[v][col];
            kiln::store(to, values);
        } else {
#pragma unroll
            for (int v = 0; v < VECTOR; ++v)
                if (row + v < rows) to[v] = from[v][col];
        }
    }
    if (!is_first) return;
    for (int at = thread; at < kiln::min(cols, TILE) * SECTOR; at += THREADS) {
        const int col = at / SECTOR, above = at % SECTOR;
        if (above < lead(col) && above < rows) out[col * pitch + above] = tile[any_place(above) + shift.of(above) + col];
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
            const Shift shift{offset_in(corner, VECTOR), cols % VECTOR};
            const T* const end = in + static_cast<i64>(rows) * cols;
            if (corner > in && rows_left > kAnyRows && cols >= VECTOR)
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
