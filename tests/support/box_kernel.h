// SPDX-License-Identifier: Apache-2.0
//
// A template that moves boxes of a tensor with TMA, which the host emulates: y[b] is box b of x, with zeros
// where the box reaches past x. And the check of what it wrote.
#pragma once

#include <gtest/gtest.h>
#include <kiln/kiln.h>

#include <cstddef>
#include <span>
#include <vector>

namespace kiln::test {

inline constexpr const char* kBoxes = R"(// boxes: y[b] = box b of x
//@ kernel  boxes
//@ backend cuda, host
//@ arch    sm_90a, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, aarch64
//@ param   WIDTH   int in 4, 8, 16, 32, 64 = 32   "columns of a box"
//@ param   SWIZZLE int in 0, 128           = 0    "bytes"
//@ size    rows = 37
//@ size    columns = 44
//@ input   x [rows, columns]
//@ output  y [ceil_div(rows, 8) * ceil_div(columns, WIDTH), 8, WIDTH]
//@ tensormap x_map = x [rows, columns] box [8, WIDTH] swizzle SWIZZLE
//@ block   32
//@ grid    ceil_div(rows, 8) * ceil_div(columns, WIDTH)
#include "kiln/tma.h"
extern "C" __global__ void __launch_bounds__(32)
boxes(int rows, int columns, const float* x, float* y, const __grid_constant__ kiln::TensorMap x_map) {
    alignas(1024) __shared__ unsigned char box[8 * WIDTH * sizeof(float)];
    __shared__ kiln::Barrier full;
    const int across = kiln::ceil_div(columns, WIDTH), b = int(blockIdx.x);
    if (threadIdx.x == 0) {
        kiln::barrier_init(&full, 1);
        kiln::barrier_init_fence();
        kiln::barrier_arrive_and_expect_tx(&full, sizeof(box));
        kiln::tma_load(box, x_map, &full, b / across * 8, b % across * WIDTH);
    }
    __syncthreads();
    kiln::barrier_wait(&full, 0);
    for (int i = int(threadIdx.x); i < 8 * WIDTH; i += 32) {
        const unsigned row = unsigned(i / WIDTH), byte = unsigned(i % WIDTH) * 4;
        const unsigned place = SWIZZLE == 128 ? kiln::swizzled(row, byte) : row * WIDTH * 4 + byte;
        y[(long long)b * 8 * WIDTH + i] = *reinterpret_cast<const float*>(box + place);
    }
}
)";
using BoxesFn = void(int rows, int columns, const float* x, float* y);

/// Launches on the tensor that begins `skip` elements behind a fresh buffer's start, and checks every
/// element.
inline void expect_boxes(Service& service, const Kernel<BoxesFn>& kernel, int rows, int columns, int width,
                         int skip = 0) {
    const int across = (columns + width - 1) / width, boxes = (rows + 7) / 8 * across;
    std::vector<float> x(static_cast<std::size_t>(skip + rows * columns));
    std::vector<float> y(static_cast<std::size_t>(boxes * 8 * width));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
    Buffer from = service.device().allocate(x.size() * 4), to = service.device().allocate(y.size() * 4);
    from.copy_from(std::as_bytes(std::span(x)));
    to.fill(0x7fc00000);
    for (int launch = 0; launch < 2; ++launch)  // the second may use the first one's map
        kernel(service.stream(), rows, columns, from.as<float>() + skip, to.as<float>());
    service.stream().synchronize();
    to.copy_to(std::as_writable_bytes(std::span(y)));
    for (int i = 0; i < boxes * 8 * width; ++i) {
        const int b = i / (8 * width), row = b / across * 8 + i / width % 8,
                  column = b % across * width + i % width;
        const bool inside = row < rows && column < columns;
        const float expected = inside ? static_cast<float>(skip + row * columns + column + 1) : 0.0f;
        ASSERT_EQ(y[static_cast<std::size_t>(i)], expected) << "box " << b << ", element " << i % (8 * width);
    }
}

}  // namespace kiln::test
