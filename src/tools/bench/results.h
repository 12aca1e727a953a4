// SPDX-License-Identifier: Apache-2.0
//
// Functions on reports to which several runs add.
#pragma once

#include <kiln/tools/bench.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln::bench {

/// The value below which `percent` of the values lie, interpolated between two of them. There must be some.
double percentile(std::vector<double> values, double percent);
/// Sets the geometric mean of the ratios to one comparator, and its percentile; of `like` all that is not computed is
/// taken. Does nothing if no row has the comparator.
void add_mean(BenchSuite& suite, BenchMean like);
/// Of all rows of the suite.
void add_mean(BenchSuite& suite, const std::string& with, std::optional<double> must = {},
              std::optional<double> aim = {});

/// Throws UsageError when the report is of another device or architecture, or when only one of both is quick. An empty
/// architecture is not known.
void check_same_kind(const BenchReport& report, const std::string& device, const std::string& arch,
                     bool quick);
/// Whether nothing failed and all results are right.
bool is_good(const BenchRow& row);
/// Removes problems that now have a row from the `missing` lists of parts, but for rows of earlier runs that failed.
void settle_missing(BenchReport& report);
/// Removes runs without rows and parts.
void drop_unused_runs(BenchReport& report);

}  // namespace kiln::bench
