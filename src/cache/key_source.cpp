// SPDX-License-Identifier: Apache-2.0
//
// The head is one #include line, one declaration per parameter, the functions whose bodies callers give, and the #line
// that begins the template.
#include "cache/key_source.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/quoted_text.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::string_view kPreludeLine = "#include \"kiln/device.h\"";
constexpr std::string_view kLastLine = "#line 1 \"";
constexpr std::string_view kFunction = "static __device__ __forceinline__ ";

struct TypeName {
    std::string_view spelling, name;
};

/// Types that front matter names otherwise than C++ does. Several of its names may share a spelling.
constexpr TypeName kTypeNames[] = {
    {"kiln::half", "half"},       {"kiln::bfloat16", "bfloat16"},     {"signed char", "int8_t"},
    {"unsigned char", "uint8_t"}, {"unsigned short", "uint16_t"},     {"unsigned int", "unsigned"},
    {"long long", "int64_t"},     {"unsigned long long", "uint64_t"},
};

std::string type_name(std::string_view spelling) {
    const auto known = std::ranges::find(kTypeNames, spelling, &TypeName::spelling);
    return std::string(known == std::end(kTypeNames) ? spelling : known->name);
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

std::optional<std::string_view> take_line(std::string_view& text) {
    const auto end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
}

std::optional<KeyConstant> read_constant(std::string_view line) {
    if (!line.ends_with(';')) return std::nullopt;
    line.remove_suffix(1);
    const bool is_type = take_prefix(line, "using ");
    const bool is_float = !is_type && take_prefix(line, "constexpr float ");
    if (!is_type && !is_float && !take_prefix(line, "constexpr int ") &&
        !take_prefix(line, "constexpr long long ") && !take_prefix(line, "constexpr bool "))
        return std::nullopt;
    const auto equals = line.find(" = ");
    if (equals == line.npos || equals == 0) return std::nullopt;
    const std::string_view value = line.substr(equals + 3);
    if (value.empty()) return std::nullopt;
    if (is_float) {
        const double number = std::strtof(std::string(value).c_str(), nullptr);
        return KeyConstant{line.substr(0, equals), formatted("{:.9g}", number)};
    }
    // The one integer without a literal.
    if (value == "-9223372036854775807 - 1")
        return KeyConstant{line.substr(0, equals), "-9223372036854775808"};
    return KeyConstant{line.substr(0, equals), is_type ? type_name(value) : std::string(value)};
}

/// The function whose head has been taken, with its body, which has no preprocessor lines.
std::optional<KeyConstant> read_function(std::string_view& text) {
    auto name = take_line(text);
    if (!name || !name->starts_with(kLastLine) || !name->ends_with('"')) return std::nullopt;
    name->remove_suffix(1);
    KeyConstant function{name->substr(name->rfind('.') + 1), {}};
    std::string body;
    while (auto line = take_line(text)) {
        if (*line == "}" && (text.starts_with(kLastLine) || text.starts_with(kFunction))) {
            if (!body.empty()) body.pop_back();
            function.value = quoted_text(body);
            return function;
        }
        body.append(*line).append(1, '\n');
    }
    return std::nullopt;
}

/// Of the line that was taken last, and of those behind it that belong to it.
std::optional<KeyConstant> read_declaration(std::string_view line, std::string_view& text) {
    if (line.starts_with("extern \"C\" __device__ ")) {  // of a function that the next one calls
        const auto next = take_line(text);
        return next && next->starts_with(kFunction) ? read_function(text) : std::nullopt;
    }
    return line.starts_with(kFunction) ? read_function(text) : read_constant(line);
}

}  // namespace

std::vector<KeyConstant> source_constants(std::string_view text) {
    std::vector<KeyConstant> constants;
    for (auto line = take_line(text); line && !line->starts_with(kLastLine); line = take_line(text))
        if (auto constant = read_declaration(*line, text)) constants.push_back(std::move(*constant));
    return constants;
}

KeySource split_source(std::string_view text) {
    KeySource whole{{}, text};
    KeySource source;
    if (take_line(text) != kPreludeLine) return whole;
    for (;;) {
        const auto line = take_line(text);
        if (!line) return whole;
        if (line->starts_with(kLastLine)) break;
        auto constant = read_declaration(*line, text);
        if (!constant) return whole;
        source.constants.push_back(std::move(*constant));
    }
    source.body = text;
    return source;
}

}  // namespace kiln
