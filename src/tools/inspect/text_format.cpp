// SPDX-License-Identifier: Apache-2.0
//
// Formats numbers.
#include "inspect/text_format.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace kiln {

std::string format_text(const char* pattern, ...) {
    std::va_list arguments, again;
    va_start(arguments, pattern);
    va_copy(again, arguments);
    const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
    va_end(arguments);
    std::string text(length < 0 ? 0 : static_cast<std::size_t>(length), '\0');
    std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    va_end(again);
    return text;
}

std::string percent(double share) {
    const double points = 100 * share;
    return format_text(points != 0 && points < 9.95 ? "%.1f%%" : "%.0f%%", points);
}

std::string lines_text(const std::vector<int>& lines) {
    std::vector<int> once;
    for (const int line : lines)
        if (std::ranges::find(once, line) == once.end()) once.push_back(line);
    std::string text = once.size() == 1 ? "line " : "lines ";
    for (std::size_t i = 0; i < once.size(); ++i)
        text += (i == 0 ? "" : i + 1 == once.size() ? " and " : ", ") + std::to_string(once[i]);
    return text;
}

std::string time_of(double ms) {
    if (ms < 1) return format_text("%.3g us", ms * 1000);
    if (ms < 1000) return format_text("%.3g ms", ms);
    return format_text("%.3g s", ms / 1000);
}

std::string first_line(std::string_view message) {
    std::string_view line = message.substr(0, message.find('\n'));
    while (!line.empty() && (line.back() == '.' || line.back() == ':' || line.back() == ' '))
        line.remove_suffix(1);
    return std::string(line);
}

}  // namespace kiln
