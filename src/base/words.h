// SPDX-License-Identifier: Apache-2.0
//
// Words for messages: the known word that is nearest to a mistyped one, and lists.
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

/// "; did you mean BM?" when one of the known words is near, else nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

/// "sm_75, sm_80, sm_90a"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

/// "sm_75, sm_80 and sm_90a"
std::string enumerate(const std::vector<std::string>& words);

}  // namespace kiln
