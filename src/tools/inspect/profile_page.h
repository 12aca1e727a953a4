// SPDX-License-Identifier: Apache-2.0
//
// The counters that are requested, and tables of comma-separated values. read_profile_page
// (kiln/tools/profile.h) explains the pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// For Nsight Compute; docs/counters.md says why these. The first two are required.
const std::vector<std::string>& ncu_metrics();
/// For rocprofv3 and rocprof.
const std::vector<std::string>& rocprof_counters();

/// RFC 4180, and lenient: a quote within an unquoted field is a character.
std::vector<std::vector<std::string>> parse_csv(std::string_view text);

/// The table in what ncu printed, without the lines of the profiler and of its child around it; empty: none.
std::string_view ncu_table(std::string_view output);

}  // namespace kiln
