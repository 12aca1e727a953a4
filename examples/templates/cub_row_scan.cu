// cub_row_scan: the running sums of each row of a matrix, by CUB's block scan
// SPDX-License-Identifier: Apache-2.0
//
// A kernel as code of today has it: it includes CUB, which Kiln finds in the CUDA toolkit or in the Python packages
// nvidia-cuda-cccl and nvidia-cuda-runtime. A block scans its row in tiles of THREADS * ITEMS elements and carries the
// sum of a tile on to the next one.
//
//@ kernel  cub_row_scan
//@ param   T        type in half, float = float  "element type of x; the sums are float"
//@ param   THREADS  int in 64, 128, 256 = 128    "threads of a block, which scans a row"
//@ param   ITEMS    int in 1, 2, 4, 8 = 4        "elements of a thread in a tile"
//@ backend cuda
//@ size    rows = 8192 test 5
//@ size    cols = 8192 test 1237
//@ input   x [rows, cols]
//@ output  y [rows, cols] by row_scan_reference exact
//@ block   THREADS
//@ grid    rows
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

extern "C" __global__ __launch_bounds__(THREADS) void cub_row_scan(int rows, int cols, const T* __restrict__ x,
                                                                   float* __restrict__ y) {
    using Scan = cub::BlockScan<float, THREADS>;
    using Store = cub::BlockStore<float, THREADS, ITEMS, cub::BLOCK_STORE_TRANSPOSE>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } shared;
    const long long row = blockIdx.x;
    if (row >= rows) return;
    const T* const from = x + row * cols;
    float* const to = y + row * cols;
    float carried = 0.0f;
    for (int first = 0; first < cols; first += THREADS * ITEMS) {
        float items[ITEMS];
        for (int i = 0; i < ITEMS; ++i) {
            const int col = first + static_cast<int>(threadIdx.x) * ITEMS + i;
            items[i] = col < cols ? static_cast<float>(from[col]) : 0.0f;
        }
        float sum = 0.0f;
        Scan(shared.scan).InclusiveSum(items, items, sum);
        for (int i = 0; i < ITEMS; ++i) items[i] += carried;
        carried += sum;
        __syncthreads();
        Store(shared.store).Store(to + first, items, cols - first);
        __syncthreads();
    }
}
