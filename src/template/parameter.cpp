// SPDX-License-Identifier: Apache-2.0
//
// Value and Parameter of the public API, and coding of values.
#include "template/parameter.h"

#include <kiln/error.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/digest.h"
#include "base/float_environment.h"
#include "base/quoted_text.h"
#include "base/words.h"
#include "format/format.h"
#include "template/arithmetic.h"
#include "template/code_text.h"
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
        case ParameterKind::real:
            return "a finite float";
        case ParameterKind::code:
            return "code";
    }
    return {};
}

bool is_any_float(const Parameter& parameter) {
    return parameter.kind == ParameterKind::real && parameter.allowed.empty();
}

/// No list and no range says what it may be.
bool is_open(const Parameter& parameter) {
    return is_any_float(parameter) || parameter.kind == ParameterKind::code;
}

/// "one of 16, 32, 64", "in 1..8" or "any finite float".
std::string membership(const Parameter& parameter) {
    if (is_open(parameter)) return parameter.allowed_text();
    return (parameter.allowed.empty() ? "in " : "one of ") + parameter.allowed_text();
}

[[noreturn]] void refuse(const Parameter& parameter, std::string_view text, const std::string& why) {
    throw VariantError(parameter.name + " = " + std::string(text) + " " + why);
}

std::string allowed_and_default(const Parameter& parameter) {
    const std::string must = is_open(parameter) ? "" : "; it must be " + membership(parameter);
    return must + " (" + parameter.default_text() + " by default)";
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
               formatted("does not fit 64 bits; it must be {}, of which {} is nearest", membership(parameter),
                         negative ? lowest : highest));
    }
    if (!is_number)
        refuse(parameter, text,
               "is not an integer written in decimal digits" + allowed_and_default(parameter) +
                   nearest_to_number(parameter, text));
    return static_cast<long long>(value);
}

Value parse_real(const Parameter& parameter, std::string_view text) {
    std::size_t length = 0;
    const std::optional<float> value = read_float(text, length);
    if (length == 0 || length != text.size())
        refuse(parameter, text, "is not a finite float" + allowed_and_default(parameter));
    if (!value) refuse(parameter, text, "is out of the range of float" + allowed_and_default(parameter));
    return *value;
}

/// By value, and one for both zeros: the bits of the magnitude, with the sign of the number.
std::int64_t float_code(float value) {
    const std::int64_t magnitude = std::bit_cast<std::uint32_t>(std::abs(value));
    return std::signbit(value) ? -magnitude : magnitude;
}

/// Of a type, as the parameter's list names it: `int` for int32_t where the list has `int`. Others have a code too.
std::optional<int> type_code(const Parameter& parameter, std::string_view name) {
    const auto code = find_element_type_or_alias(name);
    if (!code) return std::nullopt;
    const auto normalised = [](int of) { return element_types()[static_cast<std::size_t>(of)].normalised; };
    std::optional<int> same;
    for (const Value& one : parameter.allowed) {
        const auto listed = find_element_type_or_alias(one.as_type());
        if (listed == code) return code;
        if (listed && !same && normalised(*listed) == normalised(*code)) same = listed;
    }
    return same ? same : code;
}

/// An integer is rounded, as one that is written as text is.
std::optional<float> nearest_float(const Value& value) {
    if (value.is_float() && std::isfinite(value.as_float())) return value.as_float();
    if (!value.is_int()) return std::nullopt;
    return static_cast<float>(value.as_int());
}

/// Written by a person or by Code::text(). nullopt: `why` says what is wrong.
std::optional<Code> read_code(std::string_view written, std::string& why) {
    std::optional<std::string> body(written);
    if (written.starts_with("@ltoir:")) {
        why = "the LTO-IR that " + std::string(written) + " names must be given itself";
        return std::nullopt;
    }
    if (written.starts_with('"')) body = unquoted_text(written);
    why = body ? wrong_in_code(*body)
               : "it begins with a quote and is no text in quotes with the escapes of C++";
    return why.empty() ? std::optional<Code>(std::move(*body)) : std::nullopt;
}

[[noreturn]] void refuse_code(const Parameter& parameter, const std::string& why) {
    throw VariantError(parameter.name + " is not " + parameter.allowed_text() + ": " + why);
}

/// Of texts that differ it differs, but for one pair of 2^60.
std::int64_t code_of(const Code& code) {
    constexpr std::size_t kDigits = 15;
    std::int64_t number = 0;
    const std::string digits =
        digest_hex(code.body() + '\0' + code.symbol() + '\0' + code.digest()).substr(0, kDigits);
    std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    return number;
}

/// Both zeros are one. In the usual environment: to a thread that takes denormals for zero, as all do in programs that are
/// linked with -ffast-math, each of them would have the text of 0.
std::string shortest(float value) {
    const FloatEnvironment stays;
    std::fesetenv(FE_DFL_ENV);
    char digits[32];
    const auto end =
        std::to_chars(std::begin(digits), std::end(digits), float_code(value) == 0 ? 0.0f : value).ptr;
    return {digits, end};
}

}  // namespace

// What is out of the range of float stays text, which is read as any other.
Value::Value(double value) : value_(static_cast<float>(value)) {
    const float rounded = as_float();
    const bool is_lost = float_code(rounded) == 0 ? value != 0 : !std::isfinite(rounded);
    if (!is_lost || !std::isfinite(value)) return;
    char digits[32];
    value_ = std::string(std::begin(digits), std::to_chars(std::begin(digits), std::end(digits), value).ptr);
}

Code::Code(std::string body) : data_(std::make_shared<const Data>(Data{std::move(body), {}, {}, {}})) {}

Code Code::ltoir(std::string bytes, std::string symbol, std::string body) {
    Code code{std::string()};
    std::string digest = digest_hex(bytes);
    code.data_ = std::make_shared<const Data>(
        Data{std::move(body), std::move(symbol), std::move(bytes), std::move(digest)});
    return code;
}

std::string Code::text() const {
    if (!is_ltoir()) return quoted_text(body());
    constexpr std::size_t kShown = 16;
    return "@ltoir:" + symbol() + ":" + digest().substr(0, kShown);
}

std::string Value::text() const {
    if (is_code()) return as_code().text();
    if (is_float()) return shortest(as_float());
    if (is_int()) return std::to_string(as_int());
    if (is_bool()) return as_bool() ? "true" : "false";
    return as_type();
}

std::string Parameter::allowed_text() const {
    if (is_any_float(*this)) return "any finite float";
    if (kind == ParameterKind::code) return "the body of " + result + " " + name + signature;
    if (allowed.empty()) return formatted("{}..{}", min, max);
    std::vector<std::string> words;
    for (const Value& value : allowed) words.push_back(value.text());
    return join(words);
}

std::string Parameter::default_text() const {
    return default_expression.empty() ? default_value.text() : default_expression;
}

bool Parameter::allows(const Value& value) const {
    const auto code = encode(*this, value);
    if (!code) return false;
    if (is_open(*this)) return true;
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
            refuse(*this, written, "is neither true nor false (" + default_text() + " by default)");
        case ParameterKind::real:
            return decode(*this, checked_code(*this, parse_real(*this, written)));
        case ParameterKind::code: {
            std::string why;
            if (auto code = read_code(written, why)) return std::move(*code);
            refuse_code(*this, why);
        }
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
            if (value.is_type()) return type_code(parameter, value.as_type());
            break;
        case ParameterKind::real:
            if (const auto number = nearest_float(value)) return float_code(*number);
            break;
        case ParameterKind::code:
            if (value.is_code()) return code_of(value.as_code());
            if (value.is_type()) {
                std::string why;
                if (const auto code = read_code(value.as_type(), why)) return code_of(*code);
            }
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
        case ParameterKind::real: {
            const auto magnitude = static_cast<std::uint32_t>(code < 0 ? -code : code);
            const auto value = std::bit_cast<float>(magnitude);
            return code < 0 ? -value : value;
        }
        case ParameterKind::code:
            return parameter.default_value;
    }
    return static_cast<long long>(code);
}

std::string code_text(const Parameter& parameter, std::int64_t code) {
    return decode(parameter, code).text();
}

std::uint64_t choice_count(const Parameter& parameter) {
    if (!parameter.allowed.empty()) return parameter.allowed.size();
    if (is_open(parameter)) return 1;
    return arithmetic::distance(parameter.min, parameter.max) + 1;
}

std::int64_t choice(const Parameter& parameter, std::uint64_t i) {
    if (!parameter.allowed.empty()) return *encode(parameter, parameter.allowed[i]);
    if (is_open(parameter)) return *encode(parameter, parameter.default_value);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(parameter.min) + i);
}

std::int64_t checked_code(const Parameter& parameter, const Value& value) {
    if (parameter.kind == ParameterKind::code && value.is_code()) {
        if (const std::string why = wrong_in_code(value.as_code()); !why.empty()) refuse_code(parameter, why);
        return code_of(value.as_code());
    }
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
               (parameter.kind == ParameterKind::integer || parameter.kind == ParameterKind::real
                    ? nearest_choices(parameter, *code)
                    : " (" + parameter.default_text() + " by default)"));
}

std::vector<std::string> parameter_names(const std::vector<Parameter>& parameters) {
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters) names.push_back(parameter.name);
    return names;
}

std::string nearest_choices(const Parameter& parameter, std::int64_t code) {
    std::vector<std::string> nearest;
    if (parameter.kind == ParameterKind::real) {
        const double wanted = decode(parameter, code).as_float();
        const auto distance_to = [&](const Value& one) { return std::abs(one.as_float() - wanted); };
        const double closest = distance_to(*std::ranges::min_element(parameter.allowed, {}, distance_to));
        for (const Value& one : parameter.allowed)
            if (distance_to(one) == closest) nearest.push_back(one.text());
    } else if (parameter.allowed.empty()) {
        nearest = {std::to_string(std::clamp(code, parameter.min, parameter.max))};
    } else {
        auto closest = std::numeric_limits<std::uint64_t>::max();
        for (const Value& one : parameter.allowed)
            closest = std::min(closest, arithmetic::distance(one.as_int(), code));
        for (const Value& one : parameter.allowed)
            if (arithmetic::distance(one.as_int(), code) == closest) nearest.push_back(one.text());
    }
    return "; the nearest is " + join(nearest, " or ");
}

inline namespace KILN_ABI {

std::string_view name(ParameterKind kind) {
    switch (kind) {
        case ParameterKind::integer:
            return "int";
        case ParameterKind::boolean:
            return "bool";
        case ParameterKind::type:
            return "type";
        case ParameterKind::real:
            return "float";
        case ParameterKind::code:
            return "code";
    }
    return "unknown";
}

}  // namespace KILN_ABI
}  // namespace kiln
