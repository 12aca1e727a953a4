// softmax_reference: softmax of SCORE of a row in double, with the bound of a computation in float
//
// y = e / s with e = exp(x - m). With u the unit roundoff of float: the exponent has an absolute error of at
// most 4 u |x - m|, scaled by log2(e) or not, and u (|x| + |m|) more where elements are scaled before they are subtracted;
// that is a relative error of e. exp itself is within 4 u. So each term is relatively off by at most
// r = 4 u (|x - m| + 1) + u (|x| + |m|). In an online sum other such exponentials rescale it
// whenever the maximum rises: some ln(cols) times in rows of random order, and once per level of the tree. 40
// times are allowed for; their exponents telescope, so that is 40 * 4 u more. The sum, of THREADS threads that share a
// row, by vectors and then by a tree, adds gamma(cols / THREADS + 64); division and product 3 u; then the rounding
// to T. What a caller's SCORE is off, which kiln/functor_reference.h estimates, is a relative error of its exponential.
//
// Two of three rows are shifted, which shows a maximum that is not subtracted. A SCORE that is not linear may hide peaks there.
// SPDX-License-Identifier: Apache-2.0
//
//@ kernel  softmax_reference
//@ param   T  type in half, bfloat16, float = half
//@ param   THREADS  int in 1..1024 = 1  "threads that share a row"
//@ param   SCORE  code = "return x;" (auto x, long long row, int column) -> decltype(x)  "what the softmax is of"
//@ bound   THREADS
//@ data    x shifted_peaks 8
//@ backend host
//@ block   64
//@ grid    ceil_div(count, 64)
#include "kiln/functor_reference.h"

constexpr int kThreads = 64;

extern "C" __global__ void softmax_reference(long long count, const long long* __restrict__ which,
                                             double* __restrict__ expected, double* __restrict__ bound, int cols,
                                             const T* __restrict__ x) {
    const kiln::OutputElement element = kiln::output_element(count, which, cols);
    const T* const row = x + element.number / cols * cols;
    const auto score = [&](int col, double& error) {
        double result = kiln::wide(row[col]);
        error = 0;
        kiln::expect_functor([&](auto x) { return SCORE(x, element.number / cols, col); }, &result, &error);
        return result;
    };
    // Where the block's elements are of one row, each thread has a part of its columns.
    const int begin = element.together ? static_cast<int>(threadIdx.x) : 0;
    const int step = element.together ? kThreads : 1;
    const auto joined = [=](double own, auto join) {
        if (!element.together) return own;
        __shared__ double parts[kThreads];
        parts[threadIdx.x] = own;
        __syncthreads();
        double all = parts[0];
        for (int part = 1; part < kThreads; ++part) all = join(all, parts[part]);
        __syncthreads();
        return all;
    };
    double error = 0, largest = -__builtin_huge_val();
    for (int col = begin; col < cols; col += step) largest = fmax(largest, score(col, error));
    largest = joined(largest, [](double a, double b) { return fmax(a, b); });
    constexpr double u = kiln::unit_roundoff<float>;
    const auto scaled = [&](double scored) { return u * (fabs(scored) + fabs(largest)); };
    double sum = 0, sum_error = 0;
    for (int col = begin; col < cols; col += step) {
        const double scored = score(col, error), distance = largest - scored;
        const double term = exp(-distance);
        sum += term;
        if (term > 0) sum_error += term * (4 * u * (distance + 41) + scaled(scored) + 2 * error);
    }
    const auto added = [](double a, double b) { return a + b; };
    sum = joined(sum, added);
    sum_error = joined(sum_error, added);
    if (!element.exists) return;
    const double scored = score(static_cast<int>(element.number % cols), error), distance = largest - scored;
    const double value = exp(-distance) / sum;
    const double relative = 4 * u * (distance + 1) + scaled(scored) + 2 * error + sum_error / sum +
                            kiln::gamma<float>(cols / THREADS + 64.0) + 3 * u;
    expected[element.place] = value;
    bound[element.place] = (value > 0 ? value * relative : 0) + kiln::kFloatTiny;
}
