// SPDX-License-Identifier: Apache-2.0
//
// The counters that are asked for, and tables of comma-separated values. What the pages mean:
// read_profile_page (kiln/tools/profile.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Of Nsight Compute; why these: docs/counters.md. Without the first two there is nothing to compare.
const std::vector<std::string>& ncu_metrics();
/// Of rocprofv3 and rocprof.
const std::vector<std::string>& rocprof_counters();

/// RFC 4180, and lenient: a quote within an unquoted field is a character.
std::vector<std::vector<std::string>> parse_csv(std::string_view text);

/// The table in what ncu printed, without the lines of the profiler and of its child around it; empty: none.
std::string_view ncu_table(std::string_view output);

}  // namespace kiln
