// SPDX-License-Identifier: Apache-2.0
//
// Parses numbers and choices; the edit distance for "did you mean".
#include "cli/option_values.h"

#include <kiln/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <numeric>

#include "format/format.h"

namespace kiln::cli {
namespace {

std::string folded(std::string_view text) {
    std::string result(text);
    for (char& c : result) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        if (c == '_') c = '-';
    }
    return result;
}

/// The number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before_last, last, row(b.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= a.size(); ++i) {
        before_last = std::move(last);
        last = row;
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
    }
    return row[b.size()];
}

}  // namespace

std::uint64_t parse_whole(std::string_view option, std::string_view text, std::uint64_t min,
                          std::uint64_t max) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    const bool whole = stop == end && !text.empty() && problem != std::errc::invalid_argument;
    if (whole && problem == std::errc() && value >= min && value <= max) return value;

    const bool negative =
        text.size() > 1 && text[0] == '-' &&
        std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; });
    std::string message(option);
    message += formatted(" must be an integer from {} to {}; '{}' is ", min, max, text);
    if (negative || (whole && problem == std::errc() && value < min))
        message += formatted("too small, the nearest is {}", min);
    else if (whole)
        message += formatted("too large, the nearest is {}", max);
    else
        message += "not one (write it in decimal digits)";
    throw UsageError(message + ".");
}

float parse_factor(std::string_view option, std::string_view text) {
    float factor = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, factor);
    if (error != std::errc() || stop != end || !std::isfinite(factor))
        throw UsageError(std::string(option) + " " + std::string(text) +
                         ": this should be a finite number, such as 0.5 or -1e-3.");
    return factor;
}

double parse_seconds(std::string_view option, std::string_view text) {
    constexpr double kMostSeconds = 7 * 24 * 3600;
    double seconds = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, seconds);
    if (error != std::errc() || stop != end || !std::isfinite(seconds) || seconds <= 0 ||
        seconds > kMostSeconds)
        throw UsageError(std::string(option) + " " + std::string(text) +
                         ": this should be a number of seconds, such as 60 or 2.5, and a week at most.");
    return seconds;
}

std::pair<std::uint64_t, std::uint64_t> parse_shard(const std::string& text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos)
        throw UsageError("--shard " + text + ": this is I/N, the I-th of N, as in 0/8 to 7/8.");
    const std::uint64_t of = parse_whole("--shard I/N: N", text.substr(slash + 1), 1, 1'000'000);
    return {parse_whole("--shard I/N: I", text.substr(0, slash), 0, of - 1), of};
}

std::uint64_t parse_size(std::string_view option, std::string_view text) {
    constexpr double kMost = 0x1p53;  // what a double counts exactly
    double amount = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, amount, std::chars_format::fixed);
    std::string unit = folded({stop, static_cast<std::size_t>(end - stop)});
    std::erase(unit, ' ');
    const auto power = std::string_view("kmgt").find(unit.empty() ? 'b' : unit[0]);
    const bool scaled = power != std::string_view::npos;
    const std::string_view rest = std::string_view(unit).substr(scaled ? 1 : 0);
    const bool known =
        scaled ? rest.empty() || rest == "b" || rest == "ib" : rest.empty() || rest == "b" || rest == "bytes";
    if (scaled) amount = std::ldexp(amount, 10 * (static_cast<int>(power) + 1));
    if (problem == std::errc() && known && amount >= 0 && amount <= kMost)
        return static_cast<std::uint64_t>(amount);
    throw UsageError(std::string(option) + " must be a number of bytes, such as 500000, 64MiB or 1.5GiB; '" +
                     std::string(text) + "' is not.");
}

std::size_t parse_choice(std::string_view option, std::string_view text,
                         const std::vector<std::string_view>& choices) {
    const auto found = std::find(choices.begin(), choices.end(), text);
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
    const std::vector<std::string> words(choices.begin(), choices.end());
    std::string message =
        std::string(option) + " must be " + enumerate(words) + ", not '" + std::string(text) + "'.";
    if (const std::string near = nearest(text, words); !near.empty())
        message += " Did you mean " + near + "?";
    throw UsageError(message);
}

std::string nearest(std::string_view text, const std::vector<std::string>& candidates) {
    const std::string wanted = folded(text);
    std::string best;
    std::size_t best_distance = wanted.size() < 4 ? 2 : 3;
    for (const std::string& candidate : candidates) {
        const bool cut_short = wanted.size() > 1 && folded(candidate).starts_with(wanted);
        const std::size_t d = std::min<std::size_t>(distance(wanted, folded(candidate)), cut_short ? 2 : 3);
        // A word of which every letter differs is not a misspelling.
        if (d < best_distance && d < candidate.size()) {
            best = candidate;
            best_distance = d;
        }
    }
    return best;
}

std::string enumerate(const std::vector<std::string>& words, std::string_view last) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) text += i + 1 == words.size() ? last : std::string_view(", ");
        text += words[i];
    }
    return text;
}

std::string bytes_text(double bytes) {
    constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t unit = 0;
    while (bytes >= (unit == 0 ? 10240 : 1024) && unit + 1 < std::size(kUnits)) {
        bytes /= 1024;
        ++unit;
    }
    return formatted("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace kiln::cli
