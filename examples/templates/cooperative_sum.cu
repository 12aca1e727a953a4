// cooperative_sum: the sum of an array of CUDA's __half by cooperative groups
// SPDX-License-Identifier: Apache-2.0
//
// <cuda_fp16.h> and <cooperative_groups/reduce.h> are found in the CUDA toolkit or in the Python package
// nvidia-cuda-runtime. One block; the sums of its warps meet in shared memory.
//
//@ kernel  cooperative_sum
//@ param   THREADS  int in 64, 128, 256, 512, 1024 = 256  "threads of the block"
//@ backend cuda
//@ size    n = 1048576 test 100003
//@ input   x [n]
//@ output  sum [1] by half_sum_reference exact
//@ block   THREADS
//@ grid    1
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

extern "C" __global__ __launch_bounds__(THREADS) void cooperative_sum(int n, const __half* __restrict__ x,
                                                                      float* __restrict__ sum) {
    __shared__ float sums[THREADS / 32];
    const cg::thread_block block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    float mine = 0.0f;
    for (unsigned i = block.thread_rank(); i < static_cast<unsigned>(n); i += THREADS) mine += __half2float(x[i]);
    mine = cg::reduce(warp, mine, cg::plus<float>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = mine;
    block.sync();
    if (block.thread_rank() != 0) return;
    for (int i = 1; i < THREADS / 32; ++i) mine += sums[i];
    *sum = mine;
}
