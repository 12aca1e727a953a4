// SPDX-License-Identifier: Apache-2.0
//
// Value and Parameter of the public API, and coding of values.
#include "template/parameter.h"

#include <kiln/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/words.h"
#include "template/element_type.h"
#include "template/lexer.h"

namespace kiln {
namespace {

std::string kind_text(const Parameter& parameter) {
    switch (parameter.kind) {
        case ParameterKind::integer:
            return "an integer";
        case ParameterKind::boolean:
            return "true or false";
        case ParameterKind::type:
            return "a type";
    }
    return {};
}

/// "one of 16, 32, 64" or "in 1..8".
std::string membership(const Parameter& parameter) {
    return (parameter.allowed.empty() ? "in " : "one of ") + parameter.allowed_text();
}

[[noreturn]] void refuse(const Parameter& parameter, std::string_view text, const std::string& why) {
    throw VariantError(parameter.name + " = " + std::string(text) + " " + why);
}

std::string allowed_and_default(const Parameter& parameter) {
    return "; it must be " + membership(parameter) + " (" + parameter.default_value.text() + " by default)";
}

std::uint64_t distance(std::int64_t a, std::int64_t b) {
    return a < b ? static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a)
                 : static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b);
}

/// For what is a number but no integer, such as 1e9 or 48.5.
std::string nearest_to_number(const Parameter& parameter, std::string_view text) {
    double number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || rest != text.data() + text.size() || error != std::errc() ||
        !(std::abs(number) < 9e18))
        return {};
    return nearest_choices(parameter, static_cast<std::int64_t>(number));
}

Value parse_integer(const Parameter& parameter, std::string_view text) {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = !text.empty() && rest == text.data() + text.size();
    if (is_number && error == std::errc::result_out_of_range) {
        const bool negative = text.front() == '-';
        const auto [lowest, highest] = [&] {
            if (parameter.allowed.empty()) return std::pair(parameter.min, parameter.max);
            const auto [low, high] = std::ranges::minmax(parameter.allowed, {}, &Value::as_int);
            return std::pair(low.as_int(), high.as_int());
        }();
        refuse(parameter, text,
               "does not fit 64 bits; it must be " + membership(parameter) + ", of which " +
                   std::to_string(negative ? lowest : highest) + " is nearest");
    }
    if (!is_number)
        refuse(parameter, text,
               "is not an integer written in decimal digits" + allowed_and_default(parameter) +
                   nearest_to_number(parameter, text));
    return static_cast<long long>(value);
}

}  // namespace

std::string Value::text() const {
    if (is_int()) return std::to_string(as_int());
    if (is_bool()) return as_bool() ? "true" : "false";
    return as_type();
}

std::string Parameter::allowed_text() const {
    if (allowed.empty()) return std::to_string(min) + ".." + std::to_string(max);
    std::vector<std::string> words;
    for (const Value& value : allowed) words.push_back(value.text());
    return join(words);
}

bool Parameter::allows(const Value& value) const {
    const auto code = encode(*this, value);
    if (!code) return false;
    if (allowed.empty()) return *code >= min && *code <= max;
    return std::ranges::any_of(allowed, [&](const Value& one) { return encode(*this, one) == code; });
}

Value Parameter::parse(std::string_view written) const {
    switch (kind) {
        case ParameterKind::integer:
            return decode(*this, checked_code(*this, parse_integer(*this, written)));
        case ParameterKind::boolean:
            if (written == "true" || written == "1") return true;
            if (written == "false" || written == "0") return false;
            refuse(*this, written, "is neither true nor false (" + default_value.text() + " by default)");
        case ParameterKind::type:
            break;
    }
    return decode(*this, checked_code(*this, Value(std::string(written))));
}

std::optional<std::int64_t> encode(const Parameter& parameter, const Value& value) {
    switch (parameter.kind) {
        case ParameterKind::integer:
            if (value.is_int()) return value.as_int();
            break;
        case ParameterKind::boolean:
            if (value.is_bool()) return value.as_bool();
            break;
        case ParameterKind::type:
            if (value.is_type()) return find_element_type_or_alias(value.as_type());
            break;
    }
    return std::nullopt;
}

Value decode(const Parameter& parameter, std::int64_t code) {
    switch (parameter.kind) {
        case ParameterKind::integer:
            break;
        case ParameterKind::boolean:
            return code != 0;
        case ParameterKind::type:
            return std::string(element_types()[static_cast<std::size_t>(code)].name);
    }
    return static_cast<long long>(code);
}

std::string code_text(const Parameter& parameter, std::int64_t code) {
    return decode(parameter, code).text();
}

std::uint64_t choice_count(const Parameter& parameter) {
    if (!parameter.allowed.empty()) return parameter.allowed.size();
    return distance(parameter.min, parameter.max) + 1;
}

std::int64_t choice(const Parameter& parameter, std::uint64_t i) {
    if (!parameter.allowed.empty()) return *encode(parameter, parameter.allowed[i]);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(parameter.min) + i);
}

std::int64_t checked_code(const Parameter& parameter, const Value& value) {
    const auto code = encode(parameter, value);
    if (code && parameter.allows(value)) return *code;
    if (!code && parameter.kind == ParameterKind::type && value.is_type()) {
        std::vector<std::string> names;
        for (const Value& one : parameter.allowed) names.push_back(one.text());
        refuse(parameter, value.text(),
               "is no known type; it must be " + membership(parameter) + did_you_mean(value.text(), names));
    }
    if (!code)
        refuse(parameter, value.text(), "is not " + kind_text(parameter) + allowed_and_default(parameter));
    refuse(parameter, value.text(),
           "is not " + membership(parameter) +
               (parameter.kind == ParameterKind::integer
                    ? nearest_choices(parameter, *code)
                    : " (" + parameter.default_value.text() + " by default)"));
}

std::vector<std::string> parameter_names(const std::vector<Parameter>& parameters) {
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters) names.push_back(parameter.name);
    return names;
}

std::string nearest_choices(const Parameter& parameter, std::int64_t value) {
    std::vector<std::string> nearest;
    if (parameter.allowed.empty()) {
        nearest = {std::to_string(std::clamp(value, parameter.min, parameter.max))};
    } else {
        auto closest = std::numeric_limits<std::uint64_t>::max();
        for (const Value& one : parameter.allowed) closest = std::min(closest, distance(one.as_int(), value));
        for (const Value& one : parameter.allowed)
            if (distance(one.as_int(), value) == closest) nearest.push_back(one.text());
    }
    return "; the nearest is " + join(nearest, " or ");
}

}  // namespace kiln
