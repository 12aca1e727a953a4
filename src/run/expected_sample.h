// SPDX-License-Identifier: Apache-2.0
//
// A sample of an output whose expected values are computed once, for many kernels with the same results: short runs of
// elements, scattered over the output, so that checking a kernel needs only a few small copies.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "run/guarded_tensor.h"
#include "run/reference.h"

namespace kiln {

class ExpectedSample {
  public:
    /// Chooses the elements; compute() computes their values.
    ExpectedSample(const Tensor& output, std::uint64_t seed);

    struct Values {
        std::vector<double> expected, bound;
    };
    /// Computes the values by a reference whose inputs are bound.
    Values compute(const Reference& reference) const;
    void set(Values values) { values_ = std::move(values); }

    std::size_t count() const { return values_.expected.size(); }
    /// How many of the sample's elements are wrong in an output.
    std::uint64_t wrong(const GuardedTensor& output) const;

  private:
    std::vector<std::pair<std::int64_t, std::int64_t>> runs_;  ///< first element, count; in order
    Values values_;
};

}  // namespace kiln
