// SPDX-License-Identifier: Apache-2.0
//
// Converts a line of a wisdom file to an entry and back. Fields are separated by " | ":
//   template and problem values | sizes | other values | device | architecture | time | variants tried |
//   digest of the template | compiler | date
#pragma once

#include <kiln/wisdom.h>

#include <chrono>
#include <string>
#include <string_view>

namespace kiln {

/// The first line of a file.
constexpr std::string_view kWisdomHead = "# kiln wisdom 1";

/// Throws UsageError that says what is wrong with the line; the caller adds the file and line number.
WisdomEntry parse_wisdom_line(std::string_view line);

/// Free text (the name of a device or compiler) in a form that is valid in a field.
std::string as_field(std::string_view text);

/// Now, or so much later, in UTC: "2026-11-22T03:05:00Z".
std::string utc_now(std::chrono::hours later = {});

/// "m=4096 n=4096 k=4096": in the order of their names.
std::string sizes_text(const Sizes& sizes);

}  // namespace kiln
