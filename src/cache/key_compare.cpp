// SPDX-License-Identifier: Apache-2.0
//
// Describes the differences between two keys for people: values of constants rather than their lines, options
// as sets, lines of the template by their own numbers.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/words.h"
#include "cache/key_source.h"
#include "cache/key_text.h"
#include "cache/line_diff.h"
#include "format/format.h"
#include "format/printable.h"

namespace kiln {
namespace {

constexpr std::size_t kMostShownBytes = 80;
constexpr std::size_t kMostShownLines = 50;

using Values = std::vector<std::string_view>;
using Differences = std::vector<IngredientDifference>;

Values values_of(const std::vector<Ingredient>& ingredients, std::string_view tag) {
    Values values;
    for (const Ingredient& ingredient : ingredients)
        if (ingredient.tag == tag) values.push_back(ingredient.value);
    return values;
}

/// Control characters as escapes, so that nothing leaves the line and a tab differs from a blank.
std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\t')
            result += "\\t";
        else if (c == '\r')
            result += "\\r";
        else if (c == '\n')
            result += "\\n";
        else
            result += c;
    }
    return printable(result);
}

bool is_inside_character(std::string_view text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u;
}

/// At most kMostShownBytes of the text from `begin` on.
std::string window(std::string_view text, std::size_t begin) {
    while (begin > 0 && is_inside_character(text, begin)) --begin;
    std::string_view part = text.substr(begin);
    std::string ending;
    if (part.size() > kMostShownBytes) {
        std::size_t end = kMostShownBytes;
        while (end > 0 && is_inside_character(part, end)) --end;
        part = part.substr(0, end);
        ending = "...";
    }
    return (begin == 0 ? "" : "...") + escaped(part) + ending;
}

std::string shown(std::string_view value) {
    value = trimmed(value);
    return value.empty() ? "(blank)" : window(value, 0);
}

/// Shortens two different values so that the difference is visible.
IngredientDifference differing(std::string ingredient, std::string_view wanted, std::string_view found) {
    const bool only_outer_blanks = trimmed(wanted) == trimmed(found);
    if (!only_outer_blanks) wanted = trimmed(wanted), found = trimmed(found);
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(wanted, found).in1 - wanted.begin());
    const std::size_t begin = common > kMostShownBytes / 2 ? common - kMostShownBytes / 4 : 0;
    const auto show = [&](std::string_view value) {
        if (only_outer_blanks) return "\"" + window(value, begin) + "\"";
        return value.empty() ? std::string("(blank)") : window(value, begin);
    };
    return {std::move(ingredient), show(wanted), show(found)};
}

/// Removes common elements.
void remove_common(Values& wanted, Values& found) {
    std::erase_if(wanted, [&](std::string_view value) {
        const auto same = std::ranges::find(found, value);
        if (same == found.end()) return false;
        found.erase(same);
        return true;
    });
}

/// "--std" of "--std=c++17".
std::string_view option_name(std::string_view option) { return option.substr(0, option.find('=')); }

/// `what`: "option", "environment".
void compare_options(const std::string& what, Values wanted, Values found, Differences& differences) {
    if (wanted == found) return;
    const Values all_wanted = wanted, all_found = found;
    remove_common(wanted, found);
    if (wanted.empty() && found.empty()) {
        const auto moved = std::ranges::mismatch(all_wanted, all_found);
        differences.push_back(differing("order of " + what + "s", *moved.in1, *moved.in2));
        return;
    }
    for (const std::string_view option : wanted) {
        const auto other = std::ranges::find(found, option_name(option), option_name);
        if (other == found.end()) {
            differences.push_back({what, shown(option), {}});
        } else {
            differences.push_back(differing(what, option, *other));
            found.erase(other);
        }
    }
    for (const std::string_view option : found) differences.push_back({what, {}, shown(option)});
}

struct NamedDigest {
    std::string_view name, digest;
};

NamedDigest header_of(std::string_view value) {
    const auto space = value.rfind(' ');
    if (space == value.npos) return {value, {}};
    return {value.substr(0, space), value.substr(space + 1)};
}

std::string digest_text(std::string_view digest) { return "digest " + escaped(digest.substr(0, 12)); }

void compare_headers(Values wanted, Values found, Differences& differences) {
    if (wanted == found) return;
    const Values all_wanted = wanted, all_found = found;
    remove_common(wanted, found);
    if (wanted.empty() && found.empty()) {
        const auto moved = std::ranges::mismatch(all_wanted, all_found);
        differences.push_back(
            differing("order of headers", header_of(*moved.in1).name, header_of(*moved.in2).name));
        return;
    }
    for (const std::string_view value : wanted) {
        const NamedDigest header = header_of(value);
        const auto other =
            std::ranges::find(found, header.name, [](auto one) { return header_of(one).name; });
        const std::string ingredient = "header " + shown(header.name);
        if (other == found.end()) {
            differences.push_back({ingredient, digest_text(header.digest), {}});
        } else {
            differences.push_back(
                {ingredient, digest_text(header.digest), digest_text(header_of(*other).digest)});
            found.erase(other);
        }
    }
    for (const std::string_view value : found)
        differences.push_back(
            {"header " + shown(header_of(value).name), {}, digest_text(header_of(value).digest)});
}

void compare_constants(const std::vector<KeyConstant>& wanted, const std::vector<KeyConstant>& found,
                       Differences& differences) {
    const auto value_in = [](const std::vector<KeyConstant>& constants, std::string_view name) {
        const auto constant = std::ranges::find(constants, name, &KeyConstant::name);
        return constant == constants.end() ? nullptr : &constant->value;
    };
    for (const KeyConstant& constant : wanted) {
        const std::string* const other = value_in(found, constant.name);
        if (other == nullptr)
            differences.push_back({shown(constant.name), shown(constant.value), {}});
        else if (*other != constant.value)
            differences.push_back(differing(shown(constant.name), constant.value, *other));
    }
    for (const KeyConstant& constant : found)
        if (value_in(wanted, constant.name) == nullptr)
            differences.push_back({shown(constant.name), {}, shown(constant.value)});
}

void compare_lines(std::string_view wanted, std::string_view found, Differences& differences) {
    if (wanted == found) return;
    const auto lines = diff_lines(wanted, found);
    if (!lines) {
        const auto size = [](std::string_view text) {
            return formatted("{} lines", std::ranges::count(text, '\n') + 1);
        };
        differences.push_back({"source", size(wanted), size(found) + ", most of them different"});
        return;
    }
    for (std::size_t i = 0; i < lines->size(); ++i) {
        if (i == kMostShownLines) {
            const std::string more = std::to_string(lines->size() - i);
            differences.push_back({"source, " + more + " more lines", "(not shown)", "(not shown)"});
            return;
        }
        const LineDifference& line = (*lines)[i];
        if (line.found_line == 0)
            differences.push_back({formatted("source line {}", line.wanted_line), shown(line.wanted), {}});
        else if (line.wanted_line == 0)
            differences.push_back({formatted("source line {}", line.found_line), {}, shown(line.found)});
        else
            differences.push_back(
                differing(formatted("source line {}", line.wanted_line), line.wanted, line.found));
    }
}

void compare_sources(std::string_view wanted, std::string_view found, Differences& differences) {
    if (wanted == found) return;
    const std::size_t before = differences.size();
    const KeySource a = split_source(wanted);
    const KeySource b = split_source(found);
    compare_constants(a.constants, b.constants, differences);
    compare_lines(a.body, b.body, differences);
    // Equal constants and lines, but another text: the format of the head differs.
    if (differences.size() == before) differences.push_back(differing("head of the source", wanted, found));
}

}  // namespace

std::vector<IngredientDifference> compare_keys(std::string_view wanted, std::string_view found) {
    Differences differences;
    if (wanted == found) return differences;
    const auto a = parse_key_text(wanted);
    const auto b = parse_key_text(found);
    if (!a || !b) {
        const auto what = [](bool is_key) { return is_key ? "a key" : "no key that can be read"; };
        return {{"key", what(a.has_value()), what(b.has_value())}};
    }
    const auto one = [](const std::vector<Ingredient>& of, std::string_view tag) {
        return values_of(of, tag).front();
    };
    const auto compare_one = [&](std::string_view tag) {
        const std::string_view x = one(*a, tag), y = one(*b, tag);
        if (x != y) differences.push_back(differing(std::string(tag), x, y));
    };
    for (const std::string_view tag : {"backend", "arch", "compiler"}) compare_one(tag);
    for (const char* tag : {"environment", "option", "compiler-option"})
        compare_options(tag, values_of(*a, tag), values_of(*b, tag), differences);
    for (const std::string_view tag : {"file", "entry"}) compare_one(tag);
    compare_headers(values_of(*a, "header"), values_of(*b, "header"), differences);
    const auto includes = [](const std::vector<Ingredient>& of) {
        const auto values = values_of(of, "includes");
        return values.empty() ? std::string() : digest_text(values.front());
    };
    if (const auto x = includes(*a), y = includes(*b); x != y)
        differences.push_back({"headers of include directories", x, y});
    compare_sources(one(*a, "source"), one(*b, "source"), differences);
    return differences;
}

}  // namespace kiln
