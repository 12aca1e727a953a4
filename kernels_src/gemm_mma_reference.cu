// gemm_mma_reference: ACTIVATION(ALPHA * A * B + BETA * residual + bias) in double, with a bound for FMA and tensor cores
//
// The bound on the sum is ProductSum's, derived in kiln/gemm_bound.h; what the epilogue adds to it is derived in
// kiln/epilogue_reference.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_mma_reference
//@ param   T           type in half, bfloat16, float = half  "element type of A and B"
//@ param   OUT         type in float, half, bfloat16 = float  "element type of bias and residual"
//@ param   TRANS_A     bool = false   "A is stored k x m"
//@ param   TRANS_B     bool = false   "B is stored n x k"
//@ param   ALPHA       float = 1      "factor of the product"
//@ param   BIAS        int in 0, 1, 2 = 0  "0 none, 1: bias[j] is added to column j, 2: bias[i] to row i"
//@ param   RESIDUAL    bool = false   "BETA * residual is added"
//@ param   BETA        float = 1      "factor of residual"
//@ param   ACTIVATION  int in 0, 1, 2, 3 = 0  "0 none, 1 relu, 2 gelu, 3 silu"
//@ data    a factor k
//@ data    b factor k
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/gemm_bound.h"

extern "C" __global__ void gemm_mma_reference(long long count, const long long* __restrict__ which,
                                              double* __restrict__ expected, double* __restrict__ bound,
                                              int m, int n, int k, const T* __restrict__ a,
                                              const T* __restrict__ b, const OUT* __restrict__ bias,
                                              const OUT* __restrict__ residual) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const kiln::GemmExpectation<T, OUT, false, TRANS_A, TRANS_B, BIAS, RESIDUAL, ACTIVATION> expect = {
        m, n, k, a, b, bias, residual, ALPHA, BETA};
    if (i < count) expect(which ? which[i] : i, expected + i, bound + i);
}
