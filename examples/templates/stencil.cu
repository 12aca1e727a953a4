// stencil: each element with its neighbours up to RADIUS away, weighted by a matrix of constants
// SPDX-License-Identifier: Apache-2.0
//
// The weights lie in constant memory. The line `input weights` names that variable and no argument of the kernel: a launch
// takes a tensor of weights and copies it there first. What lies outside of the matrix counts as zero.
//
//@ kernel  stencil
//@ param   T       type in half, float, double = float  "element type"
//@ param   RADIUS  int in 1, 2, 3 = 1                   "neighbours in each direction"
//@ param   TILE_X  int in 16, 32, 64 = 32               "columns of a block's tile"
//@ param   TILE_Y  int in 4, 8, 16 = 8                  "rows of a block's tile"
//@ let     SIDE = 2 * RADIUS + 1                        "rows and columns of the weights"
//@ let     WIDTH = TILE_X + 2 * RADIUS
//@ let     HEIGHT = TILE_Y + 2 * RADIUS
//@ size    rows = 8192 test 61
//@ size    cols = 8192 test 83
//@ input   x [rows, cols]
//@ input   weights [SIDE, SIDE]
//@ output  y [rows, cols] by stencil_reference
//@ flops   2 * SIDE * SIDE * rows * cols
//@ block   TILE_X, TILE_Y
//@ grid    ceil_div(cols, TILE_X), ceil_div(rows, TILE_Y)
//@ shared  static WIDTH * HEIGHT * sizeof(T)
#include "kiln/device.h"

constexpr int kMostWeights = 7 * 7;
__constant__ float weights[kMostWeights];

// The sum is in float, and in double where the elements are.
template <class Element>
struct Sum {
    using Type = float;
};
template <>
struct Sum<double> {
    using Type = double;
};

extern "C" __global__ __launch_bounds__(TILE_X* TILE_Y) void stencil(int rows, int cols, const T* __restrict__ x,
                                                                     T* __restrict__ y) {
    using Real = typename Sum<T>::Type;
    __shared__ T tile[HEIGHT][WIDTH];
    const int first_row = static_cast<int>(blockIdx.y) * TILE_Y - RADIUS;
    const int first_col = static_cast<int>(blockIdx.x) * TILE_X - RADIUS;
    for (int i = threadIdx.y * TILE_X + threadIdx.x; i < HEIGHT * WIDTH; i += TILE_X * TILE_Y) {
        const int row = first_row + i / WIDTH, col = first_col + i % WIDTH;
        const bool is_inside = row >= 0 && row < rows && col >= 0 && col < cols;
        tile[i / WIDTH][i % WIDTH] = is_inside ? x[static_cast<long long>(row) * cols + col] : T(0.0f);
    }
    __syncthreads();
    const int row = first_row + RADIUS + threadIdx.y, col = first_col + RADIUS + threadIdx.x;
    if (row >= rows || col >= cols) return;
    Real sum = 0;
    for (int dy = 0; dy < SIDE; ++dy)
        for (int dx = 0; dx < SIDE; ++dx)
            sum += static_cast<Real>(weights[dy * SIDE + dx]) *
                   static_cast<Real>(tile[threadIdx.y + dy][threadIdx.x + dx]);
    y[static_cast<long long>(row) * cols + col] = static_cast<T>(sum);
}
