// SPDX-License-Identifier: Apache-2.0
#include "compile/include_macros.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/preprocessor_reader.h"
#include "base/words.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostNesting = 16;  // of macros in macros
constexpr std::size_t kMostValues = 64;   // of one macro
constexpr std::size_t kMostExpansions = 10'000;

bool is_path(std::string_view text) { return std::ranges::all_of(text, is_of_path); }

/// What stands between them, where the text begins and ends with these and has no such character in between.
std::optional<std::string_view> inside_of(std::string_view text, char open, char close) {
    if (text.size() < 2 || text.front() != open || text.find(close, 1) != text.size() - 1)
        return std::nullopt;
    return text.substr(1, text.size() - 2);
}

}  // namespace

bool leads_elsewhere(std::string_view name) {
    if (name.find('\\') != name.npos) return true;
    const fs::path path(trimmed(name));
    return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

std::string_view leading_word(std::string_view text) {
    return text.substr(0,
                       static_cast<std::size_t>(std::ranges::find_if_not(text, is_word_part) - text.begin()));
}

void IncludeMacros::add(const PreprocessorScan& scan) {
    for (const MacroDefinition& definition : scan.definitions)
        definitions_.emplace(definition.name, &definition);
}

IncludeMacros::Texts IncludeMacros::operands(std::string_view tokens) {
    active_.clear();
    expansions_ = 0;
    return operands_of(tokens);
}

IncludeMacros::Texts IncludeMacros::operands_of(std::string_view tokens) {
    if (const auto name = inside_of(tokens, '"', '"'))
        return leads_elsewhere(*name) ? std::nullopt : Texts({std::string(tokens)});
    if (const auto name = inside_of(tokens, '<', '>')) return angled(*name);
    const std::string_view word = leading_word(tokens);
    const std::string_view rest = trimmed(tokens.substr(word.size()));
    if (word.empty()) return std::nullopt;
    if (rest.empty()) return values_of_object(word);
    const auto argument = inside_of(rest, '(', ')');
    return argument ? values_of_call(word, trimmed(*argument)) : std::nullopt;
}

IncludeMacros::Texts IncludeMacros::values_of_object(std::string_view name) {
    const auto definitions = definitions_of(name);
    if (definitions.empty() || are_too_many()) return std::nullopt;  // it may be one of the compiler's
    std::set<std::string> all;
    active_.push_back(name);
    for (const MacroDefinition* definition : definitions) {
        Texts some = definition->has_parameters ? std::nullopt : operands_of(definition->value);
        if (!some) return std::nullopt;
        all.merge(*some);
    }
    active_.pop_back();
    return all.size() > kMostValues ? std::nullopt : Texts(std::move(all));
}

IncludeMacros::Texts IncludeMacros::values_of_call(std::string_view name, std::string_view argument) {
    const auto definitions = definitions_of(name);
    if (definitions.empty() || are_too_many() || argument.empty() || !is_path(argument)) return std::nullopt;
    std::set<std::string> all;
    active_.push_back(name);
    for (const MacroDefinition* definition : definitions) {
        Texts some = value_of_call(*definition, argument);
        if (!some) return std::nullopt;
        all.merge(*some);
    }
    active_.pop_back();
    return all.size() > kMostValues ? std::nullopt : Texts(std::move(all));
}

IncludeMacros::Texts IncludeMacros::value_of_call(const MacroDefinition& definition,
                                                  std::string_view argument) {
    const std::string_view parameter = definition.parameters, value = definition.value;
    if (parameter.empty() || leading_word(parameter) != parameter) return std::nullopt;
    if (const auto inside = inside_of(value, '<', '>')) return angled(*inside, {parameter, argument});
    if (value.starts_with('#') && trimmed(value.substr(1)) == parameter)
        return operands_of('"' + std::string(argument) + '"');
    const std::string_view called = leading_word(value);
    const auto given = inside_of(trimmed(value.substr(called.size())), '(', ')');
    const Texts arguments = given && trimmed(*given) == parameter ? expanded(argument) : std::nullopt;
    if (called.empty() || !arguments) return std::nullopt;
    std::set<std::string> all;
    for (const std::string& one : *arguments) {
        Texts some = values_of_call(called, one);
        if (!some) return std::nullopt;
        all.merge(*some);
    }
    return all;
}

IncludeMacros::Texts IncludeMacros::angled(std::string_view inside, const Argument& argument) {
    const Texts names = expanded(inside, argument);
    if (!names) return std::nullopt;
    std::set<std::string> operands;
    for (const std::string& name : *names) {
        if (leads_elsewhere(name)) return std::nullopt;
        operands.insert('<' + name + '>');
    }
    return operands;
}

// With each word replaced by each of its values. What is no path holds a call, or pieces that a preprocessor joins.
IncludeMacros::Texts IncludeMacros::expanded(std::string_view text, const Argument& argument) {
    if (!is_path(text) || are_too_many()) return std::nullopt;
    std::set<std::string> results = {std::string()};
    while (!text.empty()) {
        const auto end = std::ranges::find_if_not(
            text, [&](char c) { return is_identifier_part(c) == is_identifier_part(text.front()); });
        const std::string_view part = text.substr(0, static_cast<std::size_t>(end - text.begin()));
        text.remove_prefix(part.size());
        const Texts values = expanded_word(part, argument);
        if (!values || values->size() * results.size() > kMostValues) return std::nullopt;
        std::set<std::string> longer;
        for (const std::string& result : results)
            for (const std::string& value : *values) longer.insert(result + value);
        results = std::move(longer);
    }
    return results;
}

IncludeMacros::Texts IncludeMacros::expanded_word(std::string_view word, const Argument& argument) {
    if (word == argument.parameter) return expanded(argument.value);
    std::set<std::string> all = {std::string(word)};  // the condition of a definition may not hold
    for (const MacroDefinition* definition : definitions_of(word)) {
        if (definition->has_parameters) continue;  // without parentheses it stays
        active_.push_back(word);
        Texts some = expanded(definition->value);
        active_.pop_back();
        if (!some) return std::nullopt;
        all.merge(*some);
    }
    return all;
}

bool IncludeMacros::are_too_many() {
    return ++expansions_ > kMostExpansions || active_.size() > kMostNesting;
}

std::vector<const MacroDefinition*> IncludeMacros::definitions_of(std::string_view name) {
    std::vector<const MacroDefinition*> definitions;
    if (std::ranges::find(active_, name) != active_.end()) return definitions;
    const auto [first, last] = definitions_.equal_range(name);
    for (auto one = first; one != last; ++one) definitions.push_back(one->second);
    return definitions;
}

}  // namespace kiln
