// SPDX-License-Identifier: Apache-2.0
//
// The data of inputs with Data::contributions: patterns in which every contribution to a result exceeds its rounding
// error bound. Random data would hide a missing contribution: of 16384 keys with about equal weights, a tile adds
// less than a worst-case bound allows, and a sum of terms of both signs is smaller than its error bound.
//
//   factor, term  Integers whose sums stay within 2^24 in any order: they have no rounding error at all, and the
//                 reference's bound is 0. As large as that allows, so that a sum in fewer bits is wrong too. Where
//                 there are too many for that, most of them are zero, but never the first and last 64.
//   peaks         16 to 64 elements of a row (more if there are fewer rows) are `size` above the others, in
//                 places that move on from one row to the next through a permutation of the columns: each column is a
//                 peak of some row, and each peak has a large part in what a row's sums come to. The first and the last
//                 column are peaks of every long row: samples look there most, and peaks show what a row has lost.
//   shifted_peaks The same in rows that are shifted: row 0 by -128, row 1 by 128, row 2 not at all, and so on. A softmax is the same
//                 for each shift, but not if the maximum is not subtracted, or begins at 0.
//   key, query    A key is one of about size / 16 vectors of signs, chosen by its number; a query is six times one of
//                 them. Different vectors are nearly orthogonal, so that a query's weights are alike on the 16 or so
//                 keys of its vector, wherever these lie, and next to nothing on all others: each of them is about a
//                 sixteenth of the result. A quarter of the queries choose the vector of the key of their own number,
//                 a quarter that of the next one, which a causal mask leaves out. The last element of keys is -1, and
//                 that of a quarter of the queries 1024: there all scores are far below zero, which is the score of
//                 keys that are not there, so that a missing mask behind the last key shows.
#pragma once

#include <kiln/template.h>

#include <cstdint>

namespace kiln {

/// Element number `i` of the tensor, an integer that its type holds, or a number in [-1, 1) with up to 24 bits more.
/// Only for tensors with a pattern and floating-point elements.
class PatternElements {
  public:
    /// seed: of the problem. exact: the magnitude up to which the type holds all integers.
    PatternElements(const Tensor& tensor, std::uint64_t seed, std::int64_t exact);

    double operator()(std::uint64_t i) const;

  private:
    double integer(std::uint64_t i, bool is_signed) const;

    Pattern pattern_;
    std::uint64_t shared_seed_;  ///< the same in all tensors
    std::uint64_t own_seed_;
    std::uint64_t count_;
    std::uint64_t row_;    ///< elements of a row
    std::uint64_t size_;   ///< of the pattern
    std::uint64_t most_;   ///< factor, term: the largest magnitude
    std::uint64_t of_;     ///< factor, term: one in so many is not zero, as a fraction of 2^32
    std::uint64_t peaks_;  ///< of a row
    std::uint64_t codes_;  ///< vectors that keys are chosen from
};

}  // namespace kiln
