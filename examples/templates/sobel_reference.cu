// sobel_reference: Sobel's operator by its two matrices, element by element; integers, so that no result has an error
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  sobel_reference
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void sobel_reference(long long count, const long long* __restrict__ which,
                                           double* __restrict__ expected, double* __restrict__ bound, int rows,
                                           int cols, const unsigned char* __restrict__ image) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    constexpr int kAcross[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};
    int dx = 0, dy = 0;
    for (int r = 0; r < 3; ++r) {
        for (int c = 0; c < 3; ++c) {
            long long row = element / cols + r - 1, col = element % cols + c - 1;
            row = row < 0 ? 0 : row > rows - 1 ? rows - 1 : row;
            col = col < 0 ? 0 : col > cols - 1 ? cols - 1 : col;
            dx += kAcross[r][c] * image[row * cols + col];
            dy += kAcross[c][r] * image[row * cols + col];
        }
    }
    const int sum = (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy);
    expected[i] = sum < 255 ? sum : 255;
    bound[i] = 0;
}
