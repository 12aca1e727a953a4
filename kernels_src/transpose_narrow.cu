// transpose_narrow: out = in transposed where one side is short: blocks move all of it, so that one matrix is contiguous
//
// in is rows x cols, out is cols x rows, both row-major. One of them has short rows, the other long ones. A block takes
// `length` columns of the matrix with long rows. These are `length` rows of the matrix with short rows: one contiguous
// piece of memory that starts at a multiple of 64 bytes, so that accesses of 16 bytes move it whatever the extents are.
// Of each long row the block takes a segment: 16 bytes at a time where rows are aligned, else 4, in pairs of 16-bit
// elements at multiples of 4 bytes, with single elements at the ends. `length` follows from the short side, so that
// the tile in shared memory is full.
// The tile lies as the matrix with short rows does, with one more element per row where that makes the pitch odd. So the
// columns that segments are read from or written to have no bank conflicts. With an odd short side the tile is an image
// of the contiguous piece, and vectors stay whole; else they are moved element by element. Lanes that are 16 bytes apart
// then conflict, unless the rows are so short that the additional elements between them spread the banks: for longer rows
// of 16-bit elements accesses have 8 bytes.
// A short side of more than MOST elements is cut into strips. That is right, but transpose_tiled is for it.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  transpose_narrow
//@ param   T        type in half, bfloat16, float, double = float  "element type"
//@ param   THREADS  int in 128, 256, 512 = 256     "threads per block"
//@ param   BYTES    int in 32, 64, 128 = 64        "of the tile for each thread; up to 64 of them are under way at once"
//@ let     VEC      = 16 / sizeof(T)               "elements per access where it is aligned"
//@ let     TILE     = THREADS * BYTES / sizeof(T)  "elements of the tile"
//@ let     STEP     = 64 / sizeof(T)               "the length of the segments is a multiple of it"
//@ let     MOST     = THREADS * min(BYTES, 64) / 64 - 1  "longest short side of a strip: segments have 64 bytes at least"
//@ block   THREADS
//@ grid    ceil_div(max(rows, cols), TILE / (min(min(rows, cols), MOST) / 2 * 2 + 1) / STEP * STEP) * ceil_div(min(rows, cols), MOST)
//@ shared  TILE * sizeof(T)
//@ size    rows = 1048576 test TILE / 18 + 5
//@ size    cols = 32 test 37
//@ input   in [rows, cols]
//@ output  out [cols, rows] by transpose_reference exact
//@ naive   transpose_naive
//@ model   access VEC, min(BYTES, 64) / 16
//@ model   side MOST of min(rows, cols)
//@ model   search [THREADS, BYTES]
#include "kiln/alignment.h"
#include "kiln/device.h"

using kiln::i64;

constexpr int kSize = sizeof(T);
constexpr int kTogether = BYTES < 64 ? BYTES : 64;  // bytes that a thread has under way
constexpr int kPair = kSize < 4 ? 2 : 1;            // elements of an access to a segment that is not aligned
constexpr int kShort = 32;                          // longest row in which 16-byte accesses have few conflicts

// Divides numbers below 65536 by one of up to 32768.
struct Divisor {
    unsigned reciprocal;  // 2^31 over it, rounded up

    __device__ __forceinline__ explicit Divisor(int by) : reciprocal(0x7fffffffu / by + 1) {}
    __device__ __forceinline__ int quotient(int of) const {
        return static_cast<int>(static_cast<kiln::u64>(2u * of) * reciprocal >> 32);
    }
};

// A block's part of both matrices.
struct Part {
    int width, length;  // of the short side, and of the long one
    int pitch;          // elements of a row of the tile: `width`, or one more where that is even
    int short_side, long_side;
    int thread;
};

// The part of the matrix with short rows: `length` rows of `width` elements. With WIDTH > 1 they are whole rows, which
// follow each other.
template <int WIDTH>
struct Rows {
    static constexpr int kSteps = WIDTH * kSize >= 8 ? kTogether / (WIDTH * kSize) : 4;
    static constexpr int kStride = THREADS * WIDTH;

    const Part& part;
    const int count, whole;  // elements; those in vectors
    const Divisor width;
    const bool is_image;    // the tile has the elements at the same places
    const bool is_in_rows;  // no vector belongs to two rows

    __device__ __forceinline__ explicit Rows(const Part& of)
        : part(of),
          count(of.width * of.length),
          whole(count - count % WIDTH),
          width(of.width),
          is_image(of.pitch == of.width),
          is_in_rows(of.width % WIDTH == 0) {}

    __device__ __forceinline__ int place(int element) const {
        return is_image ? element : element + width.quotient(element);
    }
    __device__ __forceinline__ i64 offset(int element) const {
        if constexpr (WIDTH > 1) return element;
        return element + static_cast<i64>(width.quotient(element)) * (part.short_side - part.width);
    }
    // Calls move(v, place) for the elements of a vector.
    template <class Move>
    __device__ __forceinline__ void each(int at, Move move) const {
        if (is_in_rows) {
            const int first = place(at);
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) move(v, first + v);
        } else {
#pragma unroll
            for (int v = 0; v < WIDTH; ++v) move(v, at + v + width.quotient(at + v));
        }
    }

    __device__ __forceinline__ void read(T* tile, const T* __restrict__ matrix) const {
        if (part.thread < count - whole) tile[place(whole + part.thread)] = matrix[whole + part.thread];
#pragma unroll 1
        for (int first = part.thread * WIDTH; first < whole; first += kSteps * kStride) {
            // All of these reads are under way before the first is waited for.
            kiln::Vec<T, WIDTH> held[kSteps];
#pragma unroll
            for (int i = 0; i < kSteps; ++i) {
                const int at = first + i * kStride;
                if (at < whole) held[i] = kiln::load<WIDTH>(matrix + offset(at));
            }
#pragma unroll
            for (int i = 0; i < kSteps; ++i) {
                const int at = first + i * kStride;
                if (at >= whole) break;
                if (is_image)
                    kiln::store(tile + at, held[i]);
                else
                    each(at, [&](int v, int to) { tile[to] = held[i][v]; });
            }
        }
    }
    __device__ __forceinline__ void write(const T* tile, T* __restrict__ matrix) const {
        if (part.thread < count - whole) matrix[whole + part.thread] = tile[place(whole + part.thread)];
#pragma unroll 2
        for (int at = part.thread * WIDTH; at < whole; at += kStride) {
            kiln::Vec<T, WIDTH> values;
            if (is_image)
                values = kiln::load<WIDTH>(tile + at);
            else
                each(at, [&](int v, int from) { values[v] = tile[from]; });
            kiln::store(matrix + offset(at), values);
        }
    }
};

// Elements per access of Rows that the matrix allows and banks favour. is_whole: `width` is all of the short side.
constexpr int kHalf = kSize == 2 ? VEC / 2 : VEC;

__device__ __forceinline__ int width_of_rows(const Part& part, const T* matrix, bool is_whole) {
    if (!is_whole || !kiln::rows_aligned<VEC>(matrix, 0)) return 1;
    return part.width % 2 == 0 && part.width > kShort ? kHalf : VEC;
}

__device__ __forceinline__ void read_rows(const Part& part, T* tile, const T* __restrict__ matrix,
                                          bool is_whole) {
    const int width = width_of_rows(part, matrix, is_whole);
    if (width == 1)
        Rows<1>(part).read(tile, matrix);
    else if (width == VEC)
        Rows<VEC>(part).read(tile, matrix);
    else
        Rows<kHalf>(part).read(tile, matrix);
}

__device__ __forceinline__ void write_rows(const Part& part, const T* tile, T* __restrict__ matrix,
                                           bool is_whole) {
    const int width = width_of_rows(part, matrix, is_whole);
    if (width == 1)
        Rows<1>(part).write(tile, matrix);
    else if (width == VEC)
        Rows<VEC>(part).write(tile, matrix);
    else
        Rows<kHalf>(part).write(tile, matrix);
}

// The part of the matrix with long rows: segments of `length` elements of `width` rows, each a column of the tile. Aligned rows
// are moved by vectors: a warp takes 128 bytes of each of four rows, which has no bank conflicts. Others are moved by pairs.
template <bool ALIGNED>
struct Segments {
    static constexpr int kVector = ALIGNED ? VEC : kPair;
    static constexpr int kLine = 8;                          // vectors of a row that a warp takes
    static constexpr bool kHasEnds = !ALIGNED && kPair > 1;  // single elements
    // Reads under way. Each needs a predicate, of which a thread has seven: with more the compiler puts stores between them.
    static constexpr int kMost = 6;
    static constexpr int kSteps = kTogether / (kVector * kSize) < kMost ? kTogether / (kVector * kSize) : kMost;

    const Part& part;
    const int across;  // lines, or pairs, of a segment; one with single elements at both ends has a pair less
    const int count;   // of vectors, or pairs, in all
    const Divisor divisor;
    const int first_head, next_head;  // 1: the first row starts within a pair; a row unlike the one before it

    __device__ __forceinline__ Segments(const Part& of, const T* matrix)
        : part(of),
          across(ALIGNED ? kiln::ceil_div(of.length, kLine * VEC) : of.length / kPair),
          count(across * of.width * (ALIGNED ? kLine : 1)),
          divisor(ALIGNED ? of.width : kiln::max(across, 1)),
          first_head(static_cast<int>(reinterpret_cast<kiln::u64>(matrix) / kSize % kPair)),
          next_head(of.long_side % kPair) {}

    // Elements in front of the first pair of a row's segment, and behind the last one.
    __device__ __forceinline__ int head(int row) const { return first_head ^ (row & next_head); }
    __device__ __forceinline__ int tail(int row) const { return (part.length - head(row)) % kPair; }

    // A vector's row, and its place in the segment.
    struct Place {
        int row, first;
        bool exists;
    };
    __device__ __forceinline__ Place place(int index) const {
        if constexpr (ALIGNED) {
            const int line = divisor.quotient(index / kLine);
            const int first = (line * kLine + index % kLine) * VEC;
            return {index / kLine - line * part.width, first, index < count && first < part.length};
        } else {
            const int row = divisor.quotient(index);
            const int first = (index - row * across) * kPair + head(row);
            return {row, first, index < count && first + kPair <= part.length};
        }
    }
    __device__ __forceinline__ i64 offset(int row, int element) const {
        return static_cast<i64>(row) * part.long_side + element;
    }

    __device__ __forceinline__ void read(T* tile, const T* __restrict__ matrix) const {
        // MOST < THREADS: each thread has the ends of one row.
        const int row = part.thread;
        T first_element, last_element;
        if (kHasEnds && row < part.width) {
            if (head(row) != 0) first_element = matrix[offset(row, 0)];
            if (tail(row) != 0) last_element = matrix[offset(row, part.length - 1)];
        }
#pragma unroll 1
        for (int first = part.thread; first < count; first += kSteps * THREADS) {
            // All of these reads are under way before the first is waited for.
            kiln::Vec<T, kVector> held[kSteps];
            int to[kSteps];
#pragma unroll
            for (int i = 0; i < kSteps; ++i) {
                const Place at = place(first + i * THREADS);
                to[i] = at.exists ? at.first * part.pitch + at.row : -1;
                if (at.exists) held[i] = kiln::load<kVector>(matrix + offset(at.row, at.first));
            }
#pragma unroll
            for (int i = 0; i < kSteps; ++i) {
                if (to[i] < 0) continue;
#pragma unroll
                for (int v = 0; v < kVector; ++v) tile[to[i] + v * part.pitch] = held[i][v];
            }
        }
        if (kHasEnds && row < part.width) {
            if (head(row) != 0) tile[row] = first_element;
            if (tail(row) != 0) tile[(part.length - 1) * part.pitch + row] = last_element;
        }
    }
    __device__ __forceinline__ void write(const T* tile, T* __restrict__ matrix) const {
        const int row = part.thread;
        if (kHasEnds && row < part.width) {
            const int last = part.length - 1;
            if (head(row) != 0) matrix[offset(row, 0)] = tile[row];
            if (tail(row) != 0) matrix[offset(row, last)] = tile[last * part.pitch + row];
        }
        constexpr int kTogether = ALIGNED ? 2 : 4;
#pragma unroll kTogether
        for (int index = part.thread; index < count; index += THREADS) {
            const Place at = place(index);
            if (!at.exists) continue;
            kiln::Vec<T, kVector> values;
            const int from = at.first * part.pitch + at.row;
#pragma unroll
            for (int v = 0; v < kVector; ++v) values[v] = tile[from + v * part.pitch];
            kiln::store(matrix + offset(at.row, at.first), values);
        }
    }
};

extern "C" __global__ __launch_bounds__(THREADS) void transpose_narrow(int rows, int cols,
                                                                       const T* __restrict__ in,
                                                                       T* __restrict__ out) {
    T* const tile = kiln::dynamic_shared<T>();
    const bool is_tall = rows >= cols;
    const int long_side = is_tall ? rows : cols, short_side = is_tall ? cols : rows;
    const int strip = kiln::min(short_side, MOST);
    const int length = TILE / (strip | 1) / STEP * STEP;
    const unsigned strips = static_cast<unsigned>(kiln::ceil_div(short_side, MOST));
    const i64 first_long = static_cast<i64>(blockIdx.x / strips) * length;
    const int first_short = static_cast<int>(blockIdx.x % strips) * MOST;

    Part part;
    part.width = kiln::min(strip, short_side - first_short);
    part.length = static_cast<int>(kiln::min<i64>(length, long_side - first_long));
    part.pitch = part.width | 1;
    part.short_side = short_side;
    part.long_side = long_side;
    part.thread = static_cast<int>(threadIdx.x);

    const i64 at_rows = first_long * short_side + first_short;
    const i64 at_segments = static_cast<i64>(first_short) * long_side + first_long;
    const T* const from = in + (is_tall ? at_rows : at_segments);
    T* const to = out + (is_tall ? at_segments : at_rows);
    if (is_tall)
        read_rows(part, tile, from, strips == 1);
    else if (kiln::rows_aligned<VEC>(in, cols))
        Segments<true>(part, from).read(tile, from);
    else
        Segments<false>(part, from).read(tile, from);
    __syncthreads();
    if (!is_tall)
        write_rows(part, tile, to, strips == 1);
    else if (kiln::rows_aligned<VEC>(out, rows))
        Segments<true>(part, to).write(tile, to);
    else
        Segments<false>(part, to).write(tile, to);
}
