// SPDX-License-Identifier: Apache-2.0
#include "compile/include_macros.h"

#include <algorithm>
#include <filesystem>

#include "base/characters.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr int kMostNesting = 8;          // of macros in macros
constexpr std::size_t kMostValues = 64;  // of one macro
constexpr std::size_t kMostExpansions = 100'000;

/// Of the text that a macro stands for, a call of another macro for example: whether a path in it begins at the root or has
/// "..".
bool has_path_elsewhere(std::string_view text) {
    for (std::size_t at = text.find('/'); at != std::string_view::npos; at = text.find('/', at + 1)) {
        std::size_t begin = at;
        while (begin > 0 && is_of_path(text[begin - 1])) --begin;
        std::size_t end = at;
        while (end < text.size() && is_of_path(text[end])) ++end;
        if (leads_elsewhere(text.substr(begin, end - begin))) return true;
    }
    return false;
}

}  // namespace

bool leads_elsewhere(std::string_view name) {
    const fs::path path(name);
    return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

void IncludeMacros::add(const IncludeScan& scan) {
    for (const auto& [macro, value] : scan.macros)
        if (auto& values = macros_[macro]; values.size() < kMostValues) values.insert(value);
    calls_.insert(scan.calls.begin(), scan.calls.end());
    for (const IncludeFunction& function : scan.functions)
        functions_[function.name].emplace(function.parameter, function.value);
}

std::optional<std::string> IncludeMacros::call_that_leads_elsewhere(std::string_view macro) {
    std::set<std::string> names = values_of(macro);
    names.emplace(macro);
    for (const std::string& name : names) {
        const auto [first, last] = calls_.equal_range(name);
        for (auto call = first; call != last; ++call)
            for (std::string& one : expanded(call->second, kMostNesting))
                if (has_path_elsewhere(one)) return std::move(one);
    }
    return std::nullopt;
}

std::set<std::string> IncludeMacros::values_of(std::string_view macro) {
    return values_of(macro, kMostNesting);
}

std::set<std::string> IncludeMacros::values_of(std::string_view macro, int nesting) {
    std::set<std::string> values;
    const auto found = macros_.find(macro);
    if (found == macros_.end() || nesting == 0 || ++expansions_ > kMostExpansions) return values;
    for (const std::string_view value : found->second) {
        if (value.starts_with('"')) {
            values.emplace(value);
            continue;
        }
        for (std::string& one : expanded(value, nesting)) values.insert(std::move(one));
        if (values.size() > kMostValues) break;
    }
    return values;
}

std::set<std::string> IncludeMacros::values_of_call(const IncludeLine& line) {
    std::set<std::string> names;
    const auto found = functions_.find(line.name);
    if (found == functions_.end() || line.is_question() || line.is_next() || line.argument.empty() ||
        !std::ranges::all_of(line.argument, is_of_path))
        return {};
    for (const auto& [parameter, value] : found->second) {
        if (parameter.empty() || value.empty()) return {};
        for (const std::string& one : expanded(value, kMostNesting, {parameter, line.argument})) {
            const auto [name, is_new] = names.insert(one.substr(1, one.size() - 2));
            // What is no path yet holds a further call, or pieces that the preprocessor joins.
            if (!std::ranges::all_of(*name, is_of_path) || leads_elsewhere(*name) ||
                names.size() > kMostValues)
                return {};
        }
    }
    return names;
}

// The text with each word that is a macro replaced by each of its values, and the parameter by its argument.
std::vector<std::string> IncludeMacros::expanded(
    std::string_view text, int nesting, const std::pair<std::string_view, std::string_view>& parameter) {
    std::vector<std::string> results = {std::string()};
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = at;
        while (end < text.size() && is_identifier_part(text[end]) == is_identifier_part(text[at])) ++end;
        const std::string_view part = text.substr(at, end - at);
        at = end;
        std::vector<std::string> next;
        std::set<std::string> values;
        if (part == parameter.first) {
            for (std::string& one : expanded(parameter.second, nesting - 1)) values.insert(std::move(one));
        } else if (is_identifier_part(part.front())) {
            values = values_of(part, nesting - 1);
        }
        for (const std::string& result : results) {
            if (values.empty()) next.push_back(result + std::string(part));
            for (const std::string& value : values) next.push_back(result + value);
        }
        if (next.size() > kMostValues) next.resize(kMostValues);
        results = std::move(next);
    }
    return results;
}

}  // namespace kiln
