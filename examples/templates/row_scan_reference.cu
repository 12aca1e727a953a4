// row_scan_reference: the running sums of each row in double, with the bound of sums in float
//
// A sum of d additions, in whatever order, differs from the exact one by at most gamma(d) sum |x| (Higham, section 4.2).
// An element of column c is a sum of c + 1 terms; carrying from tile to tile, and rounding to float, add fewer than 64
// operations more. Integers whose magnitudes add up to no more than 2^24 have no error.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  row_scan_reference
//@ param   T  type in half, float = float
//@ data    x term cols
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void row_scan_reference(long long count, const long long* __restrict__ which,
                                              double* __restrict__ expected, double* __restrict__ bound, int rows,
                                              int cols, const T* __restrict__ x) {
    (void)rows;
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    const int col = static_cast<int>(element % cols);
    const T* const row = x + (element - col);
    kiln::FloatSum sum;
    for (int c = 0; c <= col; ++c) sum.add(kiln::wide(row[c]));
    expected[i] = sum.value();
    bound[i] = sum.is_exact() ? 0 : kiln::gamma<float>(col + 64.0) * sum.magnitude() + 0x1p-149;
}
