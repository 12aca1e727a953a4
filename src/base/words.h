// SPDX-License-Identifier: Apache-2.0
//
// Words: the known one that is nearest to a mistyped one, lists, amounts, and the space around them.
#pragma once

#include <cstdint>
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

/// Without the space around it.
std::string_view trimmed(std::string_view text);

inline constexpr std::string_view kBlanks = " \t\r\v\f";  ///< the space within a line of C++
/// From the first character on that is none of them.
std::string_view without_blanks(std::string_view text);

/// "sm_75, sm_80, sm_90a"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

/// "500", "64KiB", "1.5 GiB", "2G": bytes, in powers of 1024; nullopt for anything else.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

/// "1 block", "3 blocks"
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);

/// With a full stop at its end, where it has no end of its own: "no such kind; did you mean wgmma?" stays.
std::string with_full_stop(std::string text);

/// "812 bytes", "12.5 KiB", "1.0 GiB"
std::string bytes_text(std::uint64_t bytes);

/// "sm_75, sm_80 and sm_90a"
std::string enumerate(const std::vector<std::string>& words);

}  // namespace kiln
