// stencil_reference: weighted sums of neighbours in double, with the bound of sums in float
//
// The sum of d = SIDE * SIDE products, in whatever order, differs from the exact one by at most gamma(d) sum |w x|
// (Higham, section 3.1), with the unit roundoff of float or, for doubles, of double. Products and sums of integers up to 2^24 have no error.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  stencil_reference
//@ param   T       type in half, float, double = float
//@ param   RADIUS  int in 1, 2, 3 = 1
//@ let     SIDE = 2 * RADIUS + 1
//@ data    x factor SIDE * SIDE
//@ data    weights factor SIDE * SIDE
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/reference.h"

extern "C" __global__ void stencil_reference(long long count, const long long* __restrict__ which,
                                             double* __restrict__ expected, double* __restrict__ bound, int rows,
                                             int cols, const T* __restrict__ x, const float* __restrict__ weights) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const long long element = which ? which[i] : i;
    const long long row = element / cols, col = element % cols;
    kiln::FloatSum sum;
    for (int dy = -RADIUS; dy <= RADIUS; ++dy) {
        if (row + dy < 0 || row + dy >= rows) continue;
        for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
            if (col + dx < 0 || col + dx >= cols) continue;
            sum.add(kiln::wide(weights[(dy + RADIUS) * SIDE + dx + RADIUS]) * kiln::wide(x[(row + dy) * cols + col + dx]));
        }
    }
    expected[i] = sum.value();
    // Of doubles the expected value is no more exact than the result.
    constexpr double kRelative =
        sizeof(T) == 8 ? 2 * kiln::gamma<double>(SIDE * SIDE + 1.0) : kiln::gamma<float>(SIDE * SIDE + 1.0);
    bound[i] = sum.is_exact() ? 0 : kRelative * sum.magnitude();
}
