// column_sum_reference: the sums of a matrix's columns in double, with the bound of a sum in float
//
// A sum whose longest way through the tree of additions has d of them differs from the exact one by at most
// gamma(d) sum |x| (Higham, section 4.2). The rows are cut into SPLIT_ROWS, each distributed over THREADS_Y
// threads; what those have is added one after the other. A kernel without these parameters adds all rows in
// one go. Integers whose magnitudes add up to no more than 2^24 have no error.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  column_sum_reference
//@ param   T          type in half, bfloat16, float = float
//@ param   THREADS_Y  int in 1..1024 = 1
//@ param   SPLIT_ROWS int in 1..1024 = 1
//@ bound   THREADS_Y
//@ bound   SPLIT_ROWS
//@ data    x term rows
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void column_sum_reference(long long count, const long long* __restrict__ which,
                                                double* __restrict__ expected, double* __restrict__ bound,
                                                long long rows, long long cols, const T* __restrict__ x) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long col = which ? which[i] : i;
    kiln::FloatSum sum;
    for (long long row = 0; row < rows; ++row) sum.add(kiln::wide(x[row * cols + col]));
    expected[i] = sum.value();
    const long long depth =
        rows / (static_cast<long long>(SPLIT_ROWS) * THREADS_Y) + 2 + THREADS_Y + SPLIT_ROWS;
    bound[i] =
        sum.is_exact() ? 0 : kiln::gamma<float>(static_cast<double>(depth)) * sum.magnitude() + 0x1p-149;
}
