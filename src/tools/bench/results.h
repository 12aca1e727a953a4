// SPDX-License-Identifier: Apache-2.0
//
// What is done with reports that several runs add to.
#pragma once

#include <kiln/tools/bench.h>

#include <optional>
#include <string>

namespace kiln::bench {

/// Adds the geometric mean of the ratios to one comparator, in place of an earlier one of it; nothing where no row has
/// it.
void add_mean(BenchSuite& suite, const std::string& with, std::optional<double> must = {},
              std::optional<double> aim = {});

/// Throws UsageError when the report is of another device, or quick where this is not.
void check_same_kind(const BenchReport& report, const std::string& device, bool quick);
/// Takes away the rows that failed, and what failed in suites, since they are measured again.
void drop_failures(BenchReport& report);
/// Takes problems that have a row by now from what parts lack.
void settle_missing(BenchReport& report);
/// Takes away runs of which nothing is left.
void drop_unused_runs(BenchReport& report);

}  // namespace kiln::bench
