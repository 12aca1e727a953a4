// SPDX-License-Identifier: Apache-2.0
//
// Strict: anything that the writer would not have written is an error.
#include "tune/wisdom_line.h"

#include <kiln/error.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>

#include "base/characters.h"
#include "base/renamed_parameters.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::string_view kSeparator = " | ", kNone = "-";
constexpr std::size_t kDigestLength = 16;
constexpr std::string_view kDateShape = "0000-00-00T00:00:00Z";
constexpr std::string_view kFieldNames[] = {
    "template", "sizes",    "values", "device", "architecture", "time", "number of variants tried",
    "digest",   "compiler", "date"};
constexpr std::size_t kFields = std::size(kFieldNames);

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(std::string_view text) {
    return !text.empty() && is_letter(text.front()) &&
           std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

[[noreturn]] void refuse(std::size_t field, std::string_view found, const std::string& wanted) {
    throw UsageError("the " + std::string(kFieldNames[field]) + " '" + std::string(found) +
                     "' is not valid: " + wanted);
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + separator.size());
    }
}

/// The words of a field, which may be empty.
std::vector<std::string_view> words_of(std::string_view field) {
    return field == kNone ? std::vector<std::string_view>() : split(field, " ");
}
std::string or_none(const std::string& field) { return field.empty() ? std::string(kNone) : field; }

template <class T>
bool parse_whole(std::string_view text, T& number) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end;
}

std::pair<std::string_view, std::string_view> assignment(std::size_t field, std::string_view word) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    if (equals == std::string_view::npos || !is_name(name) || equals + 1 == word.size())
        refuse(field, word, "it should be NAME=VALUE");
    return {name, word.substr(equals + 1)};
}

/// A float without a fraction is read as an integer; Parameter::parse(value.text()) converts it later.
Value parse_value(std::size_t field, std::string_view text) {
    if (text == "true") return true;
    if (text == "false") return false;
    if (std::int64_t whole = 0; parse_whole(text, whole)) return whole;
    float number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end && std::isfinite(number)) return number;
    const bool is_type = is_letter(text.front()) &&
                         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
    if (!is_type) refuse(field, text, "a value is a number, true, false or a type");
    return std::string(text);
}

/// Old names of parameters become today's.
void parse_values(std::size_t field, std::span<const std::string_view> words, std::string_view template_name,
                  Values& values, std::vector<std::string>* names) {
    for (const std::string_view word : words) {
        const auto [written, value] = assignment(field, word);
        const std::string_view name = current_parameter_name(template_name, written);
        if (!values.emplace(std::string(name), parse_value(field, value)).second)
            refuse(field, word, "it is given twice");
        if (names != nullptr) names->emplace_back(name);
    }
}

/// Of the calendar, and a time of day.
bool is_date(std::string_view text) {
    const bool has_shape =
        text.size() == kDateShape.size() && std::ranges::equal(text, kDateShape, [](char found, char wanted) {
            return wanted == '0' ? is_digit(found) : found == wanted;
        });
    if (!has_shape) return false;
    const auto number = [&](std::size_t at, std::size_t digits) {
        unsigned value = 0;
        for (const char c : text.substr(at, digits)) value = value * 10 + static_cast<unsigned>(c - '0');
        return value;
    };
    const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(number(0, 4))),
                                          std::chrono::month(number(5, 2)), std::chrono::day(number(8, 2))};
    constexpr unsigned kMostSeconds = 60;  // a leap second
    return day.ok() && number(11, 2) < 24 && number(14, 2) < 60 && number(17, 2) <= kMostSeconds;
}

std::string values_text(const Values& values, const std::vector<std::string>& problem, bool of_problem) {
    std::string text;
    for (const auto& [name, value] : values) {
        if ((std::ranges::find(problem, name) != problem.end()) != of_problem) continue;
        text += (text.empty() ? "" : " ") + name + "=" + value.text();
    }
    return text;
}

std::string problem_text(const WisdomEntry& entry) {
    const std::string values = values_text(entry.values, entry.problem_values, true);
    return entry.template_name + (values.empty() ? "" : " " + values);
}

}  // namespace

std::string as_field(std::string_view text) {
    std::string field(text);
    for (char& c : field)
        if (c == '|' || static_cast<unsigned char>(c) < 0x20) c = '_';
    return or_none(field);
}

std::string utc_now(std::chrono::hours later) {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + later);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    char text[kDateShape.size() + 1];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

std::string sizes_text(const Sizes& sizes) {
    std::string text;
    for (const auto& [name, value] : sizes)
        text += formatted("{}{}={}", text.empty() ? "" : " ", name, value);
    return text;
}

WisdomEntry parse_wisdom_line(std::string_view line) {
    const std::vector<std::string_view> fields = split(line, kSeparator);
    if (fields.size() != kFields)
        throw UsageError(
            formatted("the line has {} fields instead of {}; is it cut short?", fields.size(), kFields));
    WisdomEntry entry;
    const std::vector<std::string_view> words = split(fields[0], " ");
    if (!is_name(words[0])) refuse(0, fields[0], "it should begin with a template's name");
    entry.template_name = words[0];
    parse_values(0, std::span(words).subspan(1), entry.template_name, entry.values, &entry.problem_values);
    std::ranges::sort(entry.problem_values);

    for (const std::string_view word : words_of(fields[1])) {
        const auto [name, text] = assignment(1, word);
        std::int64_t size = 0;
        if (!parse_whole(text, size) || size <= 0) refuse(1, word, "a size is a positive integer");
        if (!entry.sizes.emplace(std::string(name), size).second) refuse(1, word, "it is given twice");
    }
    parse_values(2, words_of(fields[2]), entry.template_name, entry.values, nullptr);
    for (const std::size_t field : {3, 4, 8})
        if (fields[field].empty()) refuse(field, fields[field], "it is empty");
    entry.device = fields[3];
    entry.arch = fields[4];

    constexpr std::string_view kUnit = " ms";
    std::string_view time = fields[5];
    if (!time.ends_with(kUnit)) refuse(5, time, "it should be a number of milliseconds, such as 0.187 ms");
    time.remove_suffix(kUnit.size());
    if (!parse_whole(time, entry.median_ms) || !std::isfinite(entry.median_ms) || entry.median_ms <= 0)
        refuse(5, fields[5], "it should be a positive number of milliseconds, such as 0.187 ms");
    if (!parse_whole(fields[6], entry.tried)) refuse(6, fields[6], "it should be an integer");
    if (fields[7].size() != kDigestLength ||
        !std::ranges::all_of(fields[7], [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }))
        refuse(7, fields[7], "it should be 16 hexadecimal digits");
    entry.digest = fields[7];
    entry.compiler = fields[8];
    if (!is_date(fields[9])) refuse(9, fields[9], "it should be such as 2026-11-22T03:05:00Z");
    entry.date = fields[9];
    return entry;
}

std::string WisdomEntry::slot() const {
    return problem_text(*this) + std::string(kSeparator) + sizes_text(sizes) + std::string(kSeparator) +
           device + std::string(kSeparator) + arch;
}

std::string WisdomEntry::text() const {
    std::string text = problem_text(*this);
    for (const std::string& field :
         {or_none(sizes_text(sizes)), or_none(values_text(values, problem_values, false)), as_field(device),
          as_field(arch), formatted("{:.6f} ms", std::max(median_ms, 1e-6)), std::to_string(tried), digest,
          as_field(compiler), date})
        text += std::string(kSeparator) + field;
    return text;
}

}  // namespace kiln
