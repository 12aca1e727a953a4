// SPDX-License-Identifier: Apache-2.0
//
// Each element is a function of its number only. Keys and queries use the same vectors.
#include "run/patterns.h"

#include <algorithm>
#include <cmath>

#include "run/inputs.h"

namespace kiln {
namespace {

constexpr double kExactSum = 0x1p24;  // integers up to here are exact in float
constexpr std::int64_t kMostTerm = 255;
constexpr std::uint64_t kDenseEnds = 64;               // elements at each end that are never zero
constexpr std::uint64_t kPeaks = 16, kMostPeaks = 64;  // of a row
constexpr std::uint64_t kAlike = 16;                   // keys of one vector
constexpr double kQueryScale =
    6;  // times sqrt(HEAD_DIM) is the score of a match; other scores are normally distributed
constexpr double kBelowZero = 1024;  // times -1, in a quarter of the scores
constexpr double kShift = 128;       // exponentials of it and of -120 are no floats
constexpr std::uint64_t kWhole = 1ULL << 32;

/// In [-1, 1), with 24 bits.
double uniform(std::uint64_t word) { return static_cast<double>(word >> 40) * 0x1p-23 - 1; }

}  // namespace

PatternElements::PatternElements(const Tensor& tensor, std::uint64_t seed, std::int64_t exact)
    : pattern_(tensor.pattern),
      shared_seed_(random_word(seed, 0x6b6579)),
      own_seed_(tensor_seed(seed, tensor.name)),
      count_(static_cast<std::uint64_t>(tensor.count())),
      row_(static_cast<std::uint64_t>(tensor.extents.empty() ? 1 : tensor.extents.back())),
      size_(static_cast<std::uint64_t>(tensor.pattern_size)),
      most_(1),
      of_(kWhole),
      peaks_(std::clamp<std::uint64_t>(row_ * 8 / std::max<std::uint64_t>(1, count_ / row_), kPeaks,
                                       kMostPeaks)),
      codes_(std::max<std::uint64_t>(1, size_ / kAlike)) {
    peaks_ = std::min(peaks_, std::max<std::uint64_t>(1, row_ / 2));
    const double sums = kExactSum / static_cast<double>(size_);
    const double largest = pattern_ == Pattern::factor ? std::floor(std::sqrt(sums)) : std::floor(sums);
    most_ =
        static_cast<std::uint64_t>(std::clamp(largest, 1.0, static_cast<double>(std::min(exact, kMostTerm))));
    // Fewer non-zero elements, of magnitude 1, or 1 to 3 for terms, if the sum of all would be too large.
    const double most = pattern_ == Pattern::factor ? 1 : 3;
    if (largest >= most) return;
    most_ = static_cast<std::uint64_t>(most);
    const double share = pattern_ == Pattern::factor ? std::sqrt(sums / 2) : sums / 4;
    of_ = static_cast<std::uint64_t>(std::min(1.0, share) * static_cast<double>(kWhole));
}

double PatternElements::integer(std::uint64_t i, bool is_signed) const {
    const std::uint64_t word = random_word(own_seed_, i);
    const bool at_end = i < kDenseEnds || count_ - i <= kDenseEnds;
    if (!at_end && (word & (kWhole - 1)) >= of_) return 0;
    const auto magnitude = static_cast<double>(1 + below(random_word(word, 1), most_));
    return is_signed && word >> 63 != 0 ? -magnitude : magnitude;
}

double PatternElements::operator()(std::uint64_t i) const {
    const std::uint64_t row = i / row_, column = i % row_;
    const auto code_of = [&](std::uint64_t number) {
        return below(random_word(shared_seed_, number), codes_);
    };
    const auto sign = [&](std::uint64_t code) {
        return (random_word(random_word(~shared_seed_, code), column / 64) >> column % 64 & 1) != 0 ? 1.0
                                                                                                    : -1.0;
    };
    const bool is_last = column + 1 == row_;
    switch (pattern_) {
        case Pattern::none:
            break;
        case Pattern::factor:
            return integer(i, true);
        case Pattern::term:
            return integer(i, false);
        case Pattern::peaks:
        case Pattern::shifted_peaks: {
            const std::uint64_t place = permuted(column, row_, shared_seed_);
            const std::uint64_t behind = (place + row_ - row * peaks_ % row_) % row_;
            const double noise = uniform(random_word(own_seed_, i));
            // Peaks are nearly equal, so that none hides another.
            const bool at_end = row_ >= kDenseEnds && (column == 0 || column + 1 == row_);
            const double shift = pattern_ == Pattern::peaks || row % 3 == 2 ? 0
                                 : row % 3 == 0                             ? -kShift
                                                                            : kShift;
            return shift + (at_end || behind < peaks_ ? static_cast<double>(size_) + noise / 4 : noise);
        }
        case Pattern::key:
            return is_last ? -1 : sign(code_of(row));
        case Pattern::query: {
            if (is_last) return row % 4 == 3 ? kBelowZero : 0;
            const std::uint64_t code = row % 4 == 1   ? code_of(row + 1)
                                       : row % 4 == 2 ? code_of(row)
                                                      : below(random_word(own_seed_, row), codes_);
            return kQueryScale * sign(code);
        }
    }
    return 0;
}

}  // namespace kiln
