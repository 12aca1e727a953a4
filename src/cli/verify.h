// SPDX-License-Identifier: Apache-2.0
//
// Is C = A * B right? Two ways to check: every element, or a sample and Freivalds' test over the
// whole. The reference accumulates in FP64 from inputs that are already rounded to their type.
//
// The bound. Let u = 2^-24 be the unit roundoff of FP32, and K the number of terms. Whatever the order
// of accumulation, the computed c differs from the exact sum by at most gamma_K * (|A||B|), with
// gamma_K = K u / (1 - K u): Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section
// 3.1 (products of FP16 or BF16 values are exact in FP32; those of FP32 values round once, or not at
// all in an FMA, and the first addition, to zero, is exact). Each element is held to
//     K u (|A||B|)_ij + u |reference_ij|.
// That grows with K, and a product that is missing does not: of 8192 it is far below the bound. So results of integers
// are checked too (Matrix::integers), whose sums have no error in any order, so that elements and row sums must be
// equal to the reference.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cli/problem.h"

namespace kiln::cli {

/// What was found. An element that is not finite has an infinite error.
struct Verdict {
    /// An element beyond its bound.
    struct Wrong {
        std::int64_t row = 0;
        std::int64_t column = 0;
        float found = 0;
        double expected = 0;
        double bound = 0;
    };

    double max_abs_error = 0;          ///< over the elements that were compared with a reference
    double max_error_over_bound = 0;   ///< right is 1 and less; sample: of elements and of row sums
    std::uint64_t checked = 0;         ///< elements that were compared
    std::uint64_t wrong = 0;           ///< of them, those beyond the bound
    std::optional<Wrong> first_wrong;  ///< the first of them by row, then column
    std::uint64_t not_finite = 0;  ///< sample: infinities and NaNs in all of C, unwritten elements included
    std::uint64_t wrong_rows = 0;  ///< sample: rows that fail Freivalds' test

    bool pass() const { return wrong == 0 && not_finite == 0 && wrong_rows == 0; }
};

/// Both hold integers, so that a right result is exact.
bool is_exact(const Matrix& a, const Matrix& b);

/// Compares every element. Takes 2 m n k operations in FP64 on all cores.
Verdict verify_full(const Matrix& a, const Matrix& b, std::span<const float> c);

/// Compares 4096 elements (corners, last row and column, both sides of tile edges, and others at
/// random), looks for NaN and infinity in all of C, and applies Freivalds' test to the whole:
/// for a vector x of random signs, C x and A (B x) are compared row by row.
///
/// The bound of that test. The errors e_ij of a right C behave like a random walk: |e_ij| <=
/// lambda sqrt(K) u (|A||B|)_ij but for a probability of about 2 exp(-lambda^2 / 2) (Higham and Mary,
/// A New Approach to Probabilistic Rounding Error Analysis, 2019); lambda = 4. For random signs,
/// Hoeffding's inequality gives |sum_j x_j e_ij| <= 6 sqrt(sum_j e_ij^2) but for a probability of
/// 2 exp(-18), and by Cauchy and Schwarz (|A||B|)_ij <= |a_i|_2 |b_j|_2. Together, row i is held to
///     t_i = 6 lambda sqrt(K) u |a_i|_2 |B|_F,
/// and with integers to 0: one wrong element in a row is always found, several but for their adding up to nothing.
/// O(m n + n k + m k) operations on all cores.
Verdict verify_sample(const Matrix& a, const Matrix& b, std::span<const float> c, std::uint64_t seed);

}  // namespace kiln::cli
