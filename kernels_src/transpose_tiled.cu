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
// VEC elements per access to global memory need rows that are aligned: cols and rows that are multiples of VEC.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  transpose_tiled
//@ param   T        type in half, bfloat16, float, double = float  "element type"
//@ param   TILE     int in 32, 64 = 64              "rows and columns of a tile"
//@ param   THREADS  int in 64, 128, 256, 512 = 128  "threads per block"
//@ param   VEC      int in 1, 2, 4, 8 = 4           "elements per access to global memory"
//@ param   PAD      int in 0, 1, 2, 4, 8 = 0        "extra elements per row of the tile"
//@ param   SWIZZLE  bool = true                     "exchange groups of elements within the rows of the tile, instead of PAD"
//@ require VEC * sizeof(T) <= 16           "one access moves 16 bytes at most"
//@ require TILE * TILE >= THREADS * VEC    "each thread needs a vector of the tile to move"
//@ require !(SWIZZLE && PAD != 0)          "PAD and SWIZZLE serve the same purpose; choose PAD = 0 or SWIZZLE = false"
//@ block   THREADS
//@ grid    ceil_div(cols, TILE) * ceil_div(rows, TILE)
//@ shared  static TILE * (TILE + PAD) * sizeof(T)
//@ size    rows = 8192 test TILE + 5
//@ size    cols = 8192 test 2 * TILE - 1
//@ input   in [rows, cols]
//@ output  out [cols, rows] by transpose_reference exact
//@ naive   transpose_naive
#include "kiln/device.h"

using kiln::i64;

constexpr int kPitch = TILE + PAD;
constexpr int kStoreWidth = kPitch % VEC == 0 ? VEC : 1;

constexpr int kSize = sizeof(T);

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

__device__ __forceinline__ bool is_aligned(const T* matrix, int pitch) {
    return pitch % VEC == 0 && reinterpret_cast<kiln::u64>(matrix) % (VEC * sizeof(T)) == 0;
}

extern "C" __global__ __launch_bounds__(THREADS) void transpose_tiled(int rows, int cols,
                                                                      const T* __restrict__ in,
                                                                      T* __restrict__ out) {
    alignas(16) __shared__ T tile[TILE * kPitch];

    // The grid is a line, since its y and z extents could not hold every size.
    const unsigned blocks_per_row = (static_cast<unsigned>(cols) + TILE - 1) / TILE;
    const int first_row = static_cast<int>(blockIdx.x / blocks_per_row) * TILE;
    const int first_col = static_cast<int>(blockIdx.x % blocks_per_row) * TILE;
    const int rows_left = rows - first_row;
    const int cols_left = cols - first_col;
    const int thread = threadIdx.x;

    const T* const corner = in + static_cast<i64>(first_row) * cols + first_col;
    if (is_aligned(in, cols))
        read_tile<VEC>(tile, corner, cols, rows_left, cols_left, thread);
    else
        read_tile<1>(tile, corner, cols, rows_left, cols_left, thread);
    __syncthreads();
    T* const goal = out + static_cast<i64>(first_col) * rows + first_row;
    if (is_aligned(out, rows))
        write_tile<VEC>(tile, goal, rows, cols_left, rows_left, thread);
    else
        write_tile<1>(tile, goal, rows, cols_left, rows_left, thread);
}
