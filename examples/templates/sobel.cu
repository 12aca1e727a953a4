// sobel: the edges of a grey image: |dx| + |dy| of Sobel's operator, at most 255
// SPDX-License-Identifier: Apache-2.0
//
// Code for CUDA often reads such an image through a texture, whose address mode repeats the border (texture_blur.cu). This
// one runs everywhere: it reads global memory through the read-only cache, and clamps the coordinates itself.
//
//@ kernel  sobel
//@ param   TILE_X  int in 32, 64, 128 = 32  "columns of a block"
//@ param   TILE_Y  int in 1, 2, 4, 8 = 8    "rows of a block"
//@ size    rows = 8192 test 43
//@ size    cols = 8192 test 101
//@ input   image [rows, cols]
//@ output  edges [rows, cols] by sobel_reference exact
//@ block   TILE_X, TILE_Y
//@ grid    ceil_div(cols, TILE_X), ceil_div(rows, TILE_Y)
#include "kiln/device.h"

__device__ __forceinline__ int pixel(const unsigned char* __restrict__ image, int rows, int cols, int row, int col) {
    row = row < 0 ? 0 : row >= rows ? rows - 1 : row;
    col = col < 0 ? 0 : col >= cols ? cols - 1 : col;
    return image[static_cast<long long>(row) * cols + col];
}

extern "C" __global__ __launch_bounds__(TILE_X* TILE_Y) void sobel(int rows, int cols,
                                                                   const unsigned char* __restrict__ image,
                                                                   unsigned char* __restrict__ edges) {
    const int row = blockIdx.y * TILE_Y + threadIdx.y, col = blockIdx.x * TILE_X + threadIdx.x;
    if (row >= rows || col >= cols) return;
    const auto at = [&](int dy, int dx) { return pixel(image, rows, cols, row + dy, col + dx); };
    const int dx = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) - 2 * at(0, -1) - at(1, -1);
    const int dy = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) - 2 * at(-1, 0) - at(-1, 1);
    const int sum = (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy);
    edges[static_cast<long long>(row) * cols + col] = static_cast<unsigned char>(sum < 255 ? sum : 255);
}
