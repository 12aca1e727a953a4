// SPDX-License-Identifier: Apache-2.0
//
// Which lines of two texts differ.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace kiln {

/// Lines count from 1; 0: not there. A changed line has both.
struct LineDifference {
    std::size_t wanted_line = 0;
    std::size_t found_line = 0;
    std::string_view wanted;
    std::string_view found;
};

/// By a longest common subsequence of lines, in order. nullopt when the texts differ in too many lines for
/// that: its cost is bounded at some ten milliseconds.
std::optional<std::vector<LineDifference>> diff_lines(std::string_view wanted, std::string_view found);

}  // namespace kiln
