// SPDX-License-Identifier: Apache-2.0
//
// Edit distance by dynamic programming over three rows.
#include "base/words.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>

#include "format/format.h"

namespace kiln {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    const auto same = [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    };
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        before.swap(last);
        last.swap(row);
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
            row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
    }
    return row.back();
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n\v\f";
    const std::size_t first = text.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
    std::optional<std::string> best;
    std::size_t best_distance = 0;
    for (const auto& candidate : known) {
        const std::size_t distance = edit_distance(word, candidate);
        const std::size_t allowed = std::max<std::size_t>(1, candidate.size() / 3);
        if (distance > allowed || (best && distance >= best_distance)) continue;
        best = candidate;
        best_distance = distance;
    }
    return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
    if (word.size() < 2) return {};  // every other single letter is one edit away
    const auto found = nearest(word, known);
    return found ? "; did you mean " + *found + "?" : std::string();
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += separator;
        text += word;
    }
    return text;
}

std::string enumerate(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i != 0) text += i + 1 == words.size() ? " and " : ", ";
        text += words[i];
    }
    return text;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (error != std::errc() || !(number >= 0)) return std::nullopt;
    std::string unit;
    for (const char* c = stop; c != end; ++c) {
        if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
    constexpr std::string_view kUnits = "kmgt";
    double factor = 1;
    if (!unit.empty() && unit != "b" && unit != "bytes") {
        const auto power = kUnits.find(unit[0]);
        if (power == kUnits.npos || (unit.size() > 1 && unit.substr(1) != "ib" && unit.substr(1) != "b"))
            return std::nullopt;
        factor = std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
    }
    const double bytes = std::floor(number * factor);
    if (bytes > 9e15) return std::nullopt;  // past what a double counts exactly
    return static_cast<std::uint64_t>(bytes);
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
    return formatted("{} {}", count, count == 1 ? one : many);
}

std::string with_full_stop(std::string text) {
    if (!text.empty() && std::string_view(".?!").find(text.back()) == std::string_view::npos) text += '.';
    return text;
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto amount = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
    return formatted("{:.{}f} {}", amount, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace kiln
