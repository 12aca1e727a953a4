// gemm_reference: A * B in double, each element with the error bound of a sum of k products in float
//
// Each product of two half or bfloat16 values is exact in float; whatever the order of the sum, it differs
// from the exact one by at most gamma(k) * sum |a b| (Higham, section 3.1). Products of floats round once
// more, or not at all in an FMA. This covers the tensor cores of sm_90a, too: of 16 products and the sum so
// far each is cut off two bits behind the last place of the largest, then the total is: 17 u / 2 + 2 u of the
// sum of sizes, where gamma(16) allows 16 u. Other tensor and matrix cores need more: kiln/gemm_bound.h. Where all
// products are integers and sum |a b| <= 2^24, no sum in float has an error, and the result must be equal.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  gemm_reference
//@ param   T  type in half, bfloat16, float = half  "element type of A and B"
//@ data    a factor k
//@ data    b factor k
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void gemm_reference(long long count, const long long* __restrict__ which,
                                          double* __restrict__ expected, double* __restrict__ bound, int n, int k,
                                          const T* __restrict__ a, const T* __restrict__ b) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    const T* const row = a + element / n * k;
    const T* const column = b + element % n;
    kiln::FloatSum sum;
    for (long long p = 0; p < k; ++p) sum.add(kiln::wide(row[p]) * kiln::wide(column[p * n]));
    const double value = sum.value();
    expected[i] = value;
    bound[i] = sum.is_exact() ? 0
                              : kiln::gamma<float>(k + 1.0) * sum.magnitude() +
                                    kiln::unit_roundoff<float> * (value < 0 ? -value : value);
}
