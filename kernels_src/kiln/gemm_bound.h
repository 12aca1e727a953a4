// SPDX-License-Identifier: Apache-2.0
//
// What references of GEMMs share: a sum of products in double with a bound on what any kernel may
// make of it, with FMA, tensor cores or matrix cores, and the epilogue on top. For references, on the host only.
#pragma once

#include "kiln/epilogue_reference.h"

namespace kiln {

/// The sum of the products of elements of type T that a kernel adds up in float, in whatever order. IS_TIGHT: on
/// ordinary cores or those of sm_90 and later.
///
/// On ordinary cores its error is at most gamma(k + 1) sum |a b| (Higham, section 3.1). A tensor core takes a
/// group of exact products and the sum so far, aligns them to the largest, cuts each off after at least 24
/// bits, adds and cuts again (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores,
/// PeerJ Computer Science 7, 2021). For 8 products, an A100's group, that is at most 9 cuts of 2 u of the
/// largest, and one of 2 u of the result: 20 u sum |a b|; an H100 takes 16 products with two bits more, and
/// loses less. So the error is at most gamma(20 ceil(k / 8)) sum |a b|, which covers ordinary cores too.
///
/// The matrix cores of a gfx90a take 16-bit inputs that are subnormal for zero (PyTorch's notes on numerical
/// accuracy): their products may be missing. The tensor cores of sm_90a cut off each of 16 products and the sum so far two
/// bits behind the last place of the largest, then the total: 17 u / 2 + 2 u of the sum of sizes, where gamma(16) allows
/// 16 u. So gamma(k + 1) holds for them too (IS_TIGHT). Where all products are integers and sum |a b| <= 2^24, no sum in
/// float has an error.
template <class T, bool IS_TIGHT = false>
class ProductSum {
  public:
    void add(T a, T b) {
        const double x = wide(a), y = wide(b), product = x * y;
        sum_.add(product);
        if (is_subnormal(x) || is_subnormal(y)) missing_ += magnitude(product);
        ++count_;
    }

    double value() const { return sum_.value(); }
    /// 0: the result must be equal.
    double error() const {
        if (sum_.is_exact()) return 0;
        const auto count = static_cast<double>(count_);
        if constexpr (IS_TIGHT)
            return gamma<float>(count + 1) * sum_.magnitude() + unit_roundoff<float> * magnitude(value());
        const auto groups = static_cast<double>((count_ + 7) / 8);
        return (gamma<float>(20 * groups) + gamma<double>(count + 1)) * sum_.magnitude() + missing_ +
               count * kFloatTiny;
    }

  private:
    static double magnitude(double x) { return x < 0 ? -x : x; }
    static bool is_subnormal(double x) {
        constexpr double kSmallestNormal = sizeof(T) > 2                  ? 0
                                           : unit_roundoff < T >> 0x1p-10 ? 0x1p-126
                                                                          : 0x1p-14;
        return magnitude(x) < kSmallestNormal;
    }

    FloatSum sum_;
    double missing_ = 0;
    long long count_ = 0;
};

/// Element of C = activation(alpha * sum + beta * c + bias) with its bound; 0 where the sum has no error, no
/// step of the epilogue rounds, and the activation is none or relu.
template <int ACTIVATION, class Sum>
inline void expect_epilogue(double alpha, const Sum& sum, double beta, double c, double bias,
                            double* expected, double* bound) {
    const auto is_float = [](double x) { return static_cast<double>(static_cast<float>(x)) == x; };
    const double product = sum.value(), error = sum.error();
    const double scaled = alpha * product, old = beta != 0 ? beta * c : 0;
    const bool exact = error == 0 && ACTIVATION <= kRelu && is_float(scaled) && is_float(old) &&
                       is_float(scaled + old) && is_float(scaled + old + bias);
    *expected = epilogue_wide<ACTIVATION>(alpha, product, beta, c, bias);
    *bound = exact ? 0 : epilogue_bound<ACTIVATION>(alpha, product, error, beta, c, bias);
}

/// What the references of GEMMs with kiln/gemm_epilogue.h have in common.
template <class T, class OUT, bool IS_TIGHT, bool TRANS_A, bool TRANS_B, int BIAS, bool RESIDUAL,
          int ACTIVATION>
struct GemmExpectation {
    int m, n, k;
    const T *a, *b;
    const OUT *bias, *residual;
    double alpha, beta;

    /// Of element `element` of C.
    void operator()(long long element, double* expected, double* bound) const {
        const long long row = element / n, col = element % n;
        ProductSum<T, IS_TIGHT> sum;
        for (long long p = 0; p < k; ++p)
            sum.add(a[TRANS_A ? p * m + row : row * k + p], b[TRANS_B ? col * k + p : p * n + col]);
        double old = 0, added = 0;
        if constexpr (RESIDUAL) old = wide(residual[element]);
        if constexpr (BIAS != 0) added = wide(bias[BIAS == 2 ? row : col]);
        expect_epilogue<ACTIVATION>(alpha, sum, RESIDUAL ? beta : 0, old, added, expected, bound);
    }
};

}  // namespace kiln
