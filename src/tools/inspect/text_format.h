// SPDX-License-Identifier: Apache-2.0
//
// Formats numbers within sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"

namespace kiln {

/// "0.3%", "24%", "1200%"
std::string percent(double share);
/// "line 41", "lines 41, 50 and 63"; each once, in the order given.
std::string lines_text(const std::vector<int>& lines);
/// "1.25 us", "3.4 ms", "2.1 s"
std::string time_of(double ms);
/// The first line of a longer message, without a full stop.
std::string first_line(std::string_view message);

}  // namespace kiln
