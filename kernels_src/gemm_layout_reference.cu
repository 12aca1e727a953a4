// gemm_layout_reference: EPILOGUE(activation(ALPHA * A * B)) in double, with a bound for FMA and tensor cores
//
// The arguments and parameters are those of gemm_mma. The bound on the sum is ProductSum's, derived in
// kiln/gemm_bound.h; what the epilogue adds to it is derived in kiln/epilogue_reference.h; what a
// caller's EPILOGUE adds is estimated in kiln/functor_reference.h.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_layout_reference
//@ param   T           type in half, bfloat16, float = half  "element type of A and B"
//@ param   TRANS_A     bool = false   "A is stored k x m"
//@ param   TRANS_B     bool = false   "B is stored n x k"
//@ param   ALPHA       float = 1      "factor of the product"
//@ param   ACTIVATION  int in 0, 1, 2, 3 = 0  "0 none, 1 relu, 2 gelu, 3 silu"
//@ param   EPILOGUE    code = "return x;" (auto x, long long row, long long column) -> decltype(x)  "of each result"
//@ data    a factor k
//@ data    b factor k
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/functor_reference.h"
#include "kiln/gemm_bound.h"

extern "C" __global__ void gemm_layout_reference(long long count, const long long* __restrict__ which,
                                                 double* __restrict__ expected, double* __restrict__ bound,
                                                 int m, int n, int k, const T* __restrict__ a,
                                                 const T* __restrict__ b) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    const long long row = element / n, col = element % n;
    kiln::ProductSum<T> sum;
    for (long long p = 0; p < k; ++p)
        sum.add(a[TRANS_A ? p * m + row : row * k + p], b[TRANS_B ? col * k + p : p * n + col]);
    kiln::expect_epilogue<ACTIVATION>(ALPHA, sum, 0, 0, 0, expected + i, bound + i);
    kiln::expect_functor([&](auto x) { return EPILOGUE(x, row, col); }, expected + i, bound + i);
}
