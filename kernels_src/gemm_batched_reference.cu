// gemm_batched_reference: activation(ALPHA * A * B + BETA * C + bias) per batch in double, with a bound
//
// The bound on the sum is ProductSum's, for FMA and tensor cores, derived in kiln/gemm_bound.h; what
// the epilogue adds to it is derived in kiln/epilogue_reference.h. c: as it was before the launch.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_batched_reference
//@ param   T           type in half, bfloat16, float = half  "element type of A and B"
//@ param   TRANS_A     bool = false   "each A is stored k x m"
//@ param   TRANS_B     bool = false   "each B is stored n x k"
//@ param   ALPHA       float = 1      "factor of the product"
//@ param   BETA        float = 0      "factor of what C held before; 0: it is not read"
//@ param   BIAS        bool = false   "bias[j] is added to column j"
//@ param   ACTIVATION  int in 0, 1, 2, 3 = 0  "0 none, 1 relu, 2 gelu, 3 silu"
//@ data    a factor k
//@ data    b factor k
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/gemm_bound.h"

extern "C" __global__ void gemm_batched_reference(long long count, const long long* __restrict__ which,
                                                  double* __restrict__ expected, double* __restrict__ bound,
                                                  int m, int n, int k, const T* __restrict__ a,
                                                  const T* __restrict__ b, const float* __restrict__ bias,
                                                  const float* __restrict__ c) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    const long long one = static_cast<long long>(m) * n;
    const long long row = element % one / n, col = element % n;
    a += element / one * m * k;
    b += element / one * n * k;
    kiln::ProductSum<T> sum;
    for (long long p = 0; p < k; ++p)
        sum.add(a[TRANS_A ? p * m + row : row * k + p], b[TRANS_B ? col * k + p : p * n + col]);
    kiln::expect_epilogue<ACTIVATION>(ALPHA, sum, BETA, BETA != 0 ? c[element] : 0, BIAS ? bias[col] : 0,
                                      expected + i, bound + i);
}
