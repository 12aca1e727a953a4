// SPDX-License-Identifier: Apache-2.0
//
// Statistics of compared elements. One per thread, then merged: the result does not depend on the partition of
// elements among threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kiln {

struct ComparedElement {
    double found = 0, expected = 0, bound = 0;
    bool wrong = false;
    double error = 0;  ///< |found - expected|
    double ratio = 0;  ///< error / bound
};

struct ErrorStatistics {
    std::uint64_t checked = 0, wrong = 0;
    std::uint64_t not_finite = 0;  ///< right elements that are NaN or infinite
    double worst = 0, max_abs_error = 0;
    std::int64_t first = -1;  ///< the number of the first wrong element
    ComparedElement first_wrong;

    /// An infinite bound means that the element may hold anything.
    void add(std::int64_t number, const ComparedElement& element) {
        if (element.bound == INFINITY) return;
        ++checked;
        worst = std::max(worst, element.ratio);
        max_abs_error = std::max(max_abs_error, element.error);
        if (!element.wrong) {
            not_finite += std::isfinite(element.found) ? 0U : 1U;
            return;
        }
        ++wrong;
        keep(number, element);
    }
    void merge(const ErrorStatistics& other) {
        checked += other.checked;
        wrong += other.wrong;
        not_finite += other.not_finite;
        worst = std::max(worst, other.worst);
        max_abs_error = std::max(max_abs_error, other.max_abs_error);
        if (other.first >= 0) keep(other.first, other.first_wrong);
    }

  private:
    void keep(std::int64_t number, const ComparedElement& element) {
        if (first >= 0 && first <= number) return;
        first = number;
        first_wrong = element;
    }
};

}  // namespace kiln
