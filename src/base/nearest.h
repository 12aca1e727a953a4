// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean": the known word that is nearest to a mistyped one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The word with the smallest edit distance (optimal string alignment: an insertion, deletion,
/// replacement or swap of neighbours counts one; upper and lower case alike), if that is at most a third
/// of its length, or one for short words; else nullopt.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace kiln
