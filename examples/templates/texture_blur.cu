// texture_blur: an image blurred by 1 2 1 in both directions, read through a texture
// SPDX-License-Identifier: Apache-2.0
//
// A texture object is a number that the application makes (cudaCreateTextureObject, cuTexObjectCreate) and passes as an
// argument, of type unsigned long long outside of kernels: `service.build<void(unsigned long long, int, int, float*)>`. This
// one filters linearly, clamps its coordinates and does not normalise them, so that a read at a corner of four pixels is
// their mean, and the mean of a pixel's four corners is the filter. Only CUDA has textures: hence `backend cuda`.
//
//@ kernel  texture_blur
//@ param   TILE_X  int in 32, 64 = 32      "columns of a block"
//@ param   TILE_Y  int in 1, 2, 4, 8 = 8   "rows of a block"
//@ backend cuda
//@ block   TILE_X, TILE_Y
//@ grid    ceil_div(cols, TILE_X), ceil_div(rows, TILE_Y)

extern "C" __global__ __launch_bounds__(TILE_X* TILE_Y) void texture_blur(cudaTextureObject_t image, int rows, int cols,
                                                                          float* __restrict__ blurred) {
    const int col = blockIdx.x * TILE_X + threadIdx.x, row = blockIdx.y * TILE_Y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    float sum = 0.0f;
    for (int dy = 0; dy < 2; ++dy)
        for (int dx = 0; dx < 2; ++dx)
            sum += tex2D<float>(image, static_cast<float>(col + dx), static_cast<float>(row + dy));
    blurred[static_cast<long long>(row) * cols + col] = 0.25f * sum;
}
