// SPDX-License-Identifier: Apache-2.0
//
// Parameters as numbers: expressions, rules and comparisons work on coded values. An integer is its own
// code, false and true are 0 and 1, a type is its index in element_types(); codes of floats are ordered like
// the floats, and there is one for 0 and -0. That of code is a digest, from which the text can't be had: the text goes
// next to the codes (VariantMaker).
#pragma once

#include <kiln/template.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The values of all parameters of a template, in its order.
using Codes = std::vector<std::int64_t>;

/// nullopt when the value is of another kind than the parameter, or names no type.
std::optional<std::int64_t> encode(const Parameter& parameter, const Value& value);
/// Of code: the default, whose code it must be.
Value decode(const Parameter& parameter, std::int64_t code);
/// decode(...).text()
std::string code_text(const Parameter& parameter, std::int64_t code);

/// How many values it may take, and which is the i-th. A float that may be anything, and code, count as their default.
std::uint64_t choice_count(const Parameter& parameter);
std::int64_t choice(const Parameter& parameter, std::uint64_t i);

/// Throws VariantError that names the parameter, the value and the nearest allowed ones. Returns the code.
std::int64_t checked_code(const Parameter& parameter, const Value& value);

std::vector<std::string> parameter_names(const std::vector<Parameter>& parameters);

/// "; the nearest is 32 or 64", for an integer, or the code of a float, outside the allowed ones.
std::string nearest_choices(const Parameter& parameter, std::int64_t code);

}  // namespace kiln
