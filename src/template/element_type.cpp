// SPDX-License-Identifier: Apache-2.0
//
// The table of element types and their aliases.
#include "template/element_type.h"

#include <algorithm>

#include "template/type_words.h"

namespace kiln {
namespace {

constexpr ElementType kTypes[] = {
    {"half", "kiln::half", "half", 2},
    {"bfloat16", "kiln::bfloat16", "bfloat16", 2},
    {"float", "float", "float", 4},
    {"double", "double", "double", 8},
    {"bool", "bool", "bool", 1},
    {"char", "signed char", "signed char", 1},
    {"short", "short", "short", 2},
    {"int", "int", "int", 4},
    {"unsigned", "unsigned int", "unsigned int", 4},
    {"int8_t", "signed char", "signed char", 1},
    {"uint8_t", "unsigned char", "unsigned char", 1},
    {"int16_t", "short", "short", 2},
    {"uint16_t", "unsigned short", "unsigned short", 2},
    {"int32_t", "int", "int", 4},
    {"uint32_t", "unsigned int", "unsigned int", 4},
    {"int64_t", "long long", "long long", 8},
    {"uint64_t", "unsigned long long", "unsigned long long", 8},
};

struct Alias {
    std::string_view text, name;
};

constexpr Alias kAliases[] = {
    {"f16", "half"},     {"fp16", "half"},       {"float16", "half"},  {"bf16", "bfloat16"},
    {"f32", "float"},    {"fp32", "float"},      {"float32", "float"}, {"f64", "double"},
    {"fp64", "double"},  {"float64", "double"},  {"i8", "int8_t"},     {"int8", "int8_t"},
    {"u8", "uint8_t"},   {"uint8", "uint8_t"},   {"i16", "int16_t"},   {"int16", "int16_t"},
    {"u16", "uint16_t"}, {"uint16", "uint16_t"}, {"i32", "int32_t"},   {"int32", "int32_t"},
    {"u32", "uint32_t"}, {"uint32", "uint32_t"}, {"i64", "int64_t"},   {"int64", "int64_t"},
    {"u64", "uint64_t"}, {"uint64", "uint64_t"},
};

}  // namespace

std::span<const ElementType> element_types() { return kTypes; }

std::vector<std::string> element_type_names() {
    std::vector<std::string> names;
    for (const ElementType& type : kTypes) names.emplace_back(type.name);
    return names;
}

std::optional<int> find_element_type(std::string_view name) {
    const auto found = std::ranges::find(kTypes, name, &ElementType::name);
    if (found == std::end(kTypes)) return std::nullopt;
    return static_cast<int>(found - std::begin(kTypes));
}

const ElementType* find_normalised_type(std::string_view normalised) {
    const auto found = std::ranges::find(kTypes, normalised, &ElementType::normalised);
    return found == std::end(kTypes) ? nullptr : found;
}

std::optional<int> find_element_type_or_alias(std::string_view name) {
    std::string lower(name);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (const auto exact = find_element_type(lower)) return exact;
    if (const std::string_view type = type_of_word(lower); !type.empty()) return find_element_type(type);
    const auto alias = std::ranges::find(kAliases, lower, &Alias::text);
    return alias == std::end(kAliases) ? std::nullopt : find_element_type(alias->name);
}

}  // namespace kiln
