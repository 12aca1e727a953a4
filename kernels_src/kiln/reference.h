// SPDX-License-Identifier: Apache-2.0
//
// What references are written with: kernels for the host that compute, in double, what another template's
// output should be, and how far it may be off. A reference's kernel begins with
//   (long long count, const long long* which, double* expected, double* bound, ...)
// and then names arguments of the template it serves: its sizes, its inputs, and its inouts as they were
// before the launch. Element i of expected and bound is for element which[i] of the output, counted in
// row-major order, or for element i itself where which is null. The bound is of the number that the kernel
// computed: that its output's type rounds it once more is added where results are compared.
//
// The model of the bounds: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, chapters 2
// to 4. u is the unit roundoff, gamma(n) = n u / (1 - n u).
#pragma once

#include "kiln/device.h"

namespace kiln {

/// The unit roundoff of a type: half of the distance from 1 to the next number. 0 for integers.
template <class T>
struct UnitRoundoff {
    static constexpr double value = 0;
};
template <>
struct UnitRoundoff<half> {
    static constexpr double value = 0x1p-11;
};
template <>
struct UnitRoundoff<bfloat16> {
    static constexpr double value = 0x1p-8;
};
template <>
struct UnitRoundoff<float> {
    static constexpr double value = 0x1p-24;
};
template <>
struct UnitRoundoff<double> {
    static constexpr double value = 0x1p-53;
};
template <class T>
constexpr double unit_roundoff = UnitRoundoff<T>::value;

/// Of a float: the absolute error of a result, in addition to its relative error, where it is subnormal or flushed to zero.
constexpr double kFloatTiny = 0x1p-126;

/// The bound on the relative error of n roundings in a row; infinite where there are so many that none holds.
template <class T>
constexpr double gamma(double n) {
    const double roundoff = n * unit_roundoff<T>;
    return roundoff < 1 ? roundoff / (1 - roundoff) : __builtin_huge_val();
}

/// A value as double, exactly.
inline double wide(half value) { return static_cast<double>(static_cast<float>(value)); }
inline double wide(bfloat16 value) { return static_cast<double>(static_cast<float>(value)); }
template <class T>
inline double wide(T value) {
    return static_cast<double>(value);
}

/// The sum of terms that a kernel adds up in float in any order. Where they are integers and the sum of their
/// magnitudes is at most 2^24, every partial sum is an integer that float holds, and so is free of error.
class FloatSum {
  public:
    void add(double term) {
        const double size = fabs(term);
        value_ += term;
        magnitude_ += size;
        integers_ &= (term + kSpacedByOne) - kSpacedByOne == term;
    }
    void add(const FloatSum& terms) {
        value_ += terms.value_;
        magnitude_ += terms.magnitude_;
        integers_ &= terms.integers_;
    }
    double value() const { return value_; }
    double magnitude() const { return magnitude_; }  ///< the sum of all |term|
    bool is_exact() const { return integers_ && magnitude_ <= kLastInteger; }

  private:
    static constexpr double kLastInteger = 0x1p24;
    static constexpr double kSpacedByOne = 0x1.8p52;  // added to it, a number becomes an integer
    double value_ = 0, magnitude_ = 0;
    bool integers_ = true;
};

/// Which element of an output with rows of row_length a thread computes.
struct OutputElement {
    long long place;   ///< in `expected` and `bound`
    long long number;  ///< in the output
    bool exists;       ///< else the last one, so that the thread can do its part of what the block shares
    bool together;     ///< all elements of the block are of one row
};
/// By all threads of the block.
inline OutputElement output_element(long long count, const long long* which, long long row_length) {
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x, place = first + threadIdx.x;
    const auto number_at = [=](long long i) { return which ? which[i] : i; };
    const long long number = number_at(place < count ? place : count - 1);
    const bool is_of_row = number / row_length == number_at(first) / row_length;
    return {place, number, place < count, __syncthreads_and(is_of_row) != 0};
}

/// The sum of term(0) to term(count - 1), as four sums, which do not wait for each other.
template <class Term>
inline FloatSum float_sum(long long count, Term term) {
    FloatSum sums[4];
    const long long last = count % 4, first = count - last;  // those that are left
    for (long long i = 0; i < first; i += 4) {
        for (int j = 0; j < 4; ++j) sums[j].add(term(i + j));
    }
    for (long long i = 0; i < last; ++i) sums[0].add(term(first + i));
    for (int j = 1; j < 4; ++j) sums[0].add(sums[j]);
    return sums[0];
}

}  // namespace kiln
