// SPDX-License-Identifier: Apache-2.0
//
// Formats numbers.
#include "inspect/text_format.h"

#include <algorithm>

#include "format/format.h"

namespace kiln {

std::string percent(double share) {
    const double points = 100 * share;
    return formatted("{:.{}f}%", points, points != 0 && points < 9.95 ? 1 : 0);
}

std::string lines_text(const std::vector<int>& lines) {
    std::vector<int> once;
    for (const int line : lines)
        if (std::ranges::find(once, line) == once.end()) once.push_back(line);
    std::string text = once.size() == 1 ? "line " : "lines ";
    for (std::size_t i = 0; i < once.size(); ++i)
        text += formatted("{}{}", i == 0 ? "" : i + 1 == once.size() ? " and " : ", ", once[i]);
    return text;
}

std::string time_of(double ms) {
    if (ms < 1) return formatted("{:.3g} us", ms * 1000);
    if (ms < 1000) return formatted("{:.3g} ms", ms);
    return formatted("{:.3g} s", ms / 1000);
}

std::string first_line(std::string_view message) {
    std::string_view line = message.substr(0, message.find('\n'));
    while (!line.empty() && (line.back() == '.' || line.back() == ':' || line.back() == ' '))
        line.remove_suffix(1);
    return std::string(line);
}

}  // namespace kiln
