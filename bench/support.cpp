// SPDX-License-Identifier: Apache-2.0
//
// Spreads, tables and options of cache-bench.
#include "support.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/option_values.h"

namespace kiln::bench {

Json to_json(const Spread& spread) {
    return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}, {"count", spread.count}};
}

std::string rounded(double value, int digits) {
    const double magnitude = value == 0 ? 0 : std::floor(std::log10(std::abs(value)));
    const int decimals = std::clamp(digits - 1 - static_cast<int>(magnitude), 0, 6);
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", decimals, value);
    return text;
}

std::string Table::text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string gap(widths[i] - row[i].size(), ' ');
            line += (i == 0 ? row[i] + gap : "  " + gap + row[i]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

bool Arguments::flag(std::string_view name) {
    const auto found = std::find(words_.begin(), words_.end(), name);
    if (found == words_.end()) return false;
    words_.erase(found);
    return true;
}

std::string Arguments::text(std::string_view name, std::string otherwise) {
    const auto found = std::find(words_.begin(), words_.end(), name);
    if (found == words_.end()) return otherwise;
    if (found + 1 == words_.end()) throw UsageError(std::string(name) + " needs a value");
    std::string value = *(found + 1);
    words_.erase(found, found + 2);
    return value;
}

int Arguments::number(std::string_view name, int otherwise, int min, int max) {
    const std::string value = text(name, std::to_string(otherwise));
    return static_cast<int>(
        cli::parse_whole(name, value, static_cast<std::uint64_t>(min), static_cast<std::uint64_t>(max)));
}

void Arguments::expect_no_more(std::string_view usage) const {
    if (!words_.empty())
        throw UsageError("unexpected argument '" + words_.front() + "'; usage: " + std::string(usage));
}

}  // namespace kiln::bench
