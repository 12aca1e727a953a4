// equalize: a grey image with its histogram made even, in one cooperative launch
// SPDX-License-Identifier: Apache-2.0
//
// Three phases with a barrier of the whole grid between them: the counts are set to zero, the values are counted, and each
// pixel gets the share of pixels that are no lighter. The grid must fit on the device at once: the line `cooperative`
// makes a launch check that.
//
//@ kernel  equalize
//@ param   THREADS  int in 128, 256, 512 = 256  "threads of a block"
//@ param   BLOCKS   int in 1, 2, 4 = 2          "blocks per multiprocessor"
//@ size    n = 67108864 test 100003             "pixels"
//@ input   image [n]
//@ output  even [n] by equalize_reference exact
//@ scratch counts [256]
//@ scratch barrier [1] = 0
//@ cooperative
//@ block   THREADS
//@ grid    min(BLOCKS * device.multiprocessors, max(ceil_div(n, THREADS), 1))
//@ shared  static 256 * (sizeof(uint32_t) + 1)
#include "kiln/device.h"
#include "kiln/grid.h"

constexpr int kValues = 256;

extern "C" __global__ __launch_bounds__(THREADS) void equalize(int n, const unsigned char* __restrict__ image,
                                                               unsigned char* __restrict__ even, unsigned* counts,
                                                               unsigned* barrier) {
    __shared__ unsigned counted[kValues];
    __shared__ unsigned char mapped[kValues];
    const long long step = static_cast<long long>(gridDim.x) * THREADS;
    const long long first = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    for (int value = threadIdx.x; value < kValues; value += THREADS) {
        counted[value] = 0;
        if (blockIdx.x == 0) counts[value] = 0;
    }
    kiln::sync_grid(barrier);

    for (long long i = first; i < n; i += step) atomicAdd(&counted[image[i]], 1u);
    __syncthreads();
    for (int value = threadIdx.x; value < kValues; value += THREADS)
        if (counted[value] != 0) atomicAdd(&counts[value], counted[value]);
    kiln::sync_grid(barrier);

    for (int value = threadIdx.x; value < kValues; value += THREADS) {
        long long no_lighter = 0;
        // Volatile: other blocks wrote them.
        for (int i = 0; i <= value; ++i) no_lighter += static_cast<volatile unsigned*>(counts)[i];
        mapped[value] = static_cast<unsigned char>(no_lighter * 255 / n);
    }
    __syncthreads();
    for (long long i = first; i < n; i += step) even[i] = mapped[image[i]];
}
