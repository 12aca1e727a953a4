// SPDX-License-Identifier: Apache-2.0
//
// Tally: compares elements with their references and keeps the worst. One per thread, then merged;
// the result does not depend on how the elements were divided.
#pragma once

#include <cstdint>

#include "cli/verify.h"

namespace kiln::cli {

class Tally {
  public:
    static constexpr double kUnit = 0x1p-24;  // unit roundoff of FP32

    /// exact: elements must be equal to their references.
    explicit Tally(std::int64_t k, bool exact) : k_(k), exact_(exact) {}

    /// magnitude: (|A||B|) of this element.
    void add(std::int64_t row, std::int64_t column, float found, double expected, double magnitude);
    void merge(const Tally& other);
    const Verdict& verdict() const { return verdict_; }

  private:
    void keep_first(const Verdict::Wrong& wrong);

    std::int64_t k_;
    bool exact_;
    Verdict verdict_;
};

}  // namespace kiln::cli
