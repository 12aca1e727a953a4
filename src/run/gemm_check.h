// SPDX-License-Identifier: Apache-2.0
//
// Checks C = A * B. All matrices are row-major, C in FP32; the reference accumulates in FP64 on all cores. It compares
// every element, or a sample together with Freivalds' test of the whole matrix.
//
// The bound. Let u = 2^-24 be the unit roundoff of FP32, and K the number of terms. Whatever the order of accumulation,
// the computed c differs from the exact sum by at most gamma_K * (|A||B|), with gamma_K = K u / (1 - K u): Higham,
// Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1 (products of FP16 or BF16 values are exact in
// FP32; those of FP32 values round once, or not at all in an FMA, and the first addition, to zero, is exact). Each
// element is held to
//     K u (|A||B|)_ij + u |reference_ij|,
// and where all inputs are integers so small that no sum can exceed 2^24, to equality.
//
// Freivalds' test: for a vector x of random signs, C x and A (B x) are compared row by row. The errors e_ij of a right
// C behave like a random walk: |e_ij| <= lambda sqrt(K) u (|A||B|)_ij except with a probability of about 2
// exp(-lambda^2 / 2) (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019); lambda = 4. For
// random signs, Hoeffding's inequality gives |sum_j x_j e_ij| <= 6 sqrt(sum_j e_ij^2) except with a probability of 2
// exp(-18), and by Cauchy and Schwarz (|A||B|)_ij <= |a_i|_2 |b_j|_2. Together, row i is held to
//     6 lambda sqrt(K) u |a_i|_2 |B|_F,
// and with such integers to 0: a single wrong element in a row is always found, several unless their errors
// cancel.
#pragma once

#include <kiln/run.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace kiln {

/// Const access from any thread.
class GemmOperand {
  public:
    /// type: half, bfloat16 or float. The data must outlive it.
    GemmOperand(std::string type, std::int64_t rows, std::int64_t columns, const std::byte* data);

    std::int64_t rows() const { return rows_; }
    std::int64_t columns() const { return columns_; }
    /// Elements (row, column) to (row, column + count - 1), exactly.
    void widen(std::int64_t row, std::int64_t column, std::int64_t count, double* out) const;
    double at(std::int64_t row, std::int64_t column) const;
    /// The largest magnitude if all elements are integers; else nullopt.
    std::optional<double> largest_integer() const;

  private:
    template <class F>
    void with_data(F&& f) const;

    std::string type_;
    std::int64_t rows_, columns_;
    const std::byte* data_;
};

class GemmCheck {
  public:
    /// Elements of a sample.
    static constexpr std::size_t kSample = 4096;
    /// Reads rows of C from `first` on, as many as fill `out`. Called from one thread.
    using ReadRows = std::function<void(std::int64_t first, std::span<float> out)>;

    GemmCheck(GemmOperand a, GemmOperand b);

    /// Compares every element: 2 m n k operations.
    OutputCheck full(const ReadRows& c) const;
    /// Compares `sample` elements, and runs Freivalds' test: O(m n + n k + m k) operations.
    OutputCheck sampled(const ReadRows& c, std::size_t sample, std::uint64_t seed, bool freivalds) const;

  private:
    std::int64_t m() const { return a_.rows(); }
    std::int64_t n() const { return b_.columns(); }
    std::int64_t k() const { return a_.columns(); }
    struct Totals;
    struct RowTest;
    void each_band(
        const ReadRows& c, Totals& totals,
        const std::function<void(std::int64_t first, std::int64_t rows, const float* band)>& use) const;
    void check_block(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t columns, const float* c,
                     Totals& totals) const;
    RowTest row_test(std::uint64_t seed) const;

    GemmOperand a_, b_;
    bool exact_;  ///< no sum in FP32 has a rounding error
};

}  // namespace kiln
