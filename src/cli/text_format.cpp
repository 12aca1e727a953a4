// SPDX-License-Identifier: Apache-2.0
//
// Formats numbers, tables and paragraphs.
#include "cli/text_format.h"

#include <algorithm>

#include "format/format.h"

namespace kiln::cli {

std::string line(const char* title, const std::string& text) {
    return formatted("  {:<10} {}\n", title, text);
}

std::string table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& right) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        if (row.size() > widths.size()) widths.resize(row.size());
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows) {
        std::string written;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string space(widths[i] - row[i].size(), ' ');
            const bool on_right = std::find(right.begin(), right.end(), i) != right.end();
            written += "  " + (on_right ? space + row[i] : row[i] + space);
        }
        written.erase(written.find_last_not_of(' ') + 1);
        text += written + "\n";
    }
    return text;
}

std::string wrapped(const std::string& text, std::size_t indent, int columns) {
    if (columns <= 0) return text;
    const auto width = std::max(static_cast<std::size_t>(columns), indent + 1) - indent;
    std::string result;
    std::size_t at = 0;
    while (text.size() - at > width) {
        std::size_t space = text.rfind(' ', at + width);
        if (space == std::string::npos || space <= at) space = text.find(' ', at);
        if (space == std::string::npos) break;
        result += text.substr(at, space - at) + "\n" + std::string(indent, ' ');
        at = space + 1;
    }
    return result + text.substr(at);
}

std::string duration(double ms) {
    if (ms < 1) return formatted("{:.4g} us", ms * 1000);
    if (ms < 1000) return formatted("{:.4g} ms", ms);
    return formatted("{:.4g} s", ms / 1000);
}

std::string time_text(const TimeSummary& time) {
    return formatted("median {}, min {}, max {} of {} launches", duration(time.median_ms),
                     duration(time.min_ms), duration(time.max_ms), time.iterations);
}

std::string flops_text(double gflops) {
    return gflops >= 1000 ? formatted("{:.4g} TFLOP/s", gflops / 1000) : formatted("{:.4g} GFLOP/s", gflops);
}

std::string origin_text(Origin origin, double elapsed_ms) {
    const std::string took = duration(elapsed_ms);
    switch (origin) {
        case Origin::compiled:
            return "compiled in " + took;
        case Origin::off:
            return "compiled in " + took + ", the cache being off";
        default:
            return "from the cache (" + std::string(name(origin)) + ") in " + took;
    }
}

}  // namespace kiln::cli
