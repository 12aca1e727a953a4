// SPDX-License-Identifier: Apache-2.0
//
// Rows of benchmarks with given figures.
#pragma once

#include <kiln/tools/bench.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::test {

inline BenchRow row_with(double median, const std::vector<BenchComparison>& comparisons) {
    BenchRow row;
    row.problem = "a problem";
    row.unit = "us";
    row.kiln = BenchSpread{median, median, median, 1};
    row.comparisons = comparisons;
    return row;
}

inline BenchComparison ratio_to(const std::string& with, double ratio, std::optional<double> must = {},
                                std::optional<double> aim = {}) {
    BenchComparison one;
    one.with = with;
    one.ratio = ratio;
    one.must = must;
    one.aim = aim;
    return one;
}

}  // namespace kiln::test
