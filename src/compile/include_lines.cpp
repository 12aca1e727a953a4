// SPDX-License-Identifier: Apache-2.0
//
// From one # to the next. A directive that is continued on another line with a backslash is read as far as its first
// line goes.
#include "compile/include_lines.h"

#include <string.h>

#include <algorithm>

#include "base/characters.h"
#include "base/words.h"

namespace kiln {
namespace {

void skip_blanks(std::string_view& line) {
    line.remove_prefix(
        static_cast<std::size_t>(std::find_if_not(line.begin(), line.end(), is_blank) - line.begin()));
}

std::string_view take_word(std::string_view& line) {
    const auto end = std::find_if_not(line.begin(), line.end(), is_identifier_part);
    const std::string_view word = line.substr(0, static_cast<std::size_t>(end - line.begin()));
    line.remove_prefix(word.size());
    return word;
}

/// The operand of `directive` at the head of the line; nothing for what is none.
void add_operand(std::string_view directive, std::string_view line, std::vector<IncludeLine>& lines) {
    if (line.empty()) return;
    if (line.front() == '"' || line.front() == '<') {
        const std::size_t close = line.find(line.front() == '"' ? '"' : '>', 1);
        if (close == std::string_view::npos || close == 1) return;
        const auto form = line.front() == '"' ? IncludeForm::quoted : IncludeForm::angled;
        lines.push_back({directive, line.substr(0, close + 1), line.substr(1, close - 1), form});
        return;
    }
    std::string_view rest = line;
    const std::string_view word = take_word(rest);
    if (word.empty()) return;
    skip_blanks(rest);
    if (!rest.starts_with('(')) {
        lines.push_back({directive, word, word, IncludeForm::macro});
        return;
    }
    const std::size_t close = rest.find_last_of(')');
    const std::string_view argument = rest.substr(1, close == std::string_view::npos ? close : close - 1);
    if (close != std::string_view::npos) line.remove_suffix(rest.size() - close - 1);
    lines.push_back({directive, line, word, IncludeForm::call, trimmed(argument)});
}

/// `line`: from the parenthesis behind the name on.
void add_function(std::string_view name, std::string_view line, IncludeScan& scan) {
    IncludeFunction& function = scan.functions.emplace_back(IncludeFunction{name, {}, {}});
    line.remove_prefix(1);
    skip_blanks(line);
    const std::string_view parameter = take_word(line);
    skip_blanks(line);
    if (!line.starts_with(')')) return;
    line.remove_prefix(1);
    skip_blanks(line);
    const std::size_t close = line.find('>');
    if (!line.starts_with('<') || close == std::string_view::npos) return;
    function.parameter = parameter;
    function.value = line.substr(0, close + 1);
}

void add_macro(std::string_view line, IncludeScan& scan) {
    skip_blanks(line);
    const std::string_view name = take_word(line);
    if (!name.empty() && line.starts_with('(')) add_function(name, line, scan);
    if (name.empty() || line.empty() || !is_blank(line.front()))
        return;  // with arguments, or without a value
    skip_blanks(line);
    std::size_t end = line.size();
    if (!line.empty() && (line.front() == '<' || line.front() == '"')) {
        end = line.find(line.front() == '<' ? '>' : '"', 1);
        if (end == std::string_view::npos) return;
        ++end;
    } else {
        for (const std::string_view comment : {"//", "/*"}) end = std::min(end, line.find(comment));
        while (end > 0 && (is_blank(line[end - 1]) || line[end - 1] == '\r')) --end;
        const std::string_view value = line.substr(0, end);
        if (value.empty() || (value.front() >= '0' && value.front() <= '9')) return;
        if (!std::all_of(value.begin(), value.end(), is_of_path)) {
            std::string_view rest = value;
            const bool is_name = !take_word(rest).empty();
            skip_blanks(rest);
            if (is_name && rest.starts_with('(') && rest.ends_with(')')) scan.calls.emplace_back(name, value);
            return;
        }
    }
    scan.macros.emplace_back(name, line.substr(0, end));
}

}  // namespace

IncludeScan scan_includes(std::string_view text) {
    IncludeScan scan;
    for (std::size_t at = text.find('#'); at != std::string_view::npos; at = text.find('#', at)) {
        std::size_t before = at;
        while (before > 0 && is_blank(text[before - 1])) --before;
        const bool starts_line = before == 0 || text[before - 1] == '\n';
        ++at;
        if (!starts_line) continue;
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        skip_blanks(line);
        const std::string_view directive = take_word(line);
        if (directive == "include" || directive == "include_next") {
            skip_blanks(line);
            add_operand(directive, line, scan.lines);
        } else if (directive == "define") {
            add_macro(line, scan);
        }
        at = end;
    }
    // By memmem: string_view::find stops at each underscore, of which headers are full.
    constexpr std::string_view kQuestion = "__has_include";
    const auto next_question = [&](std::size_t from) {
        const void* const found =
            ::memmem(text.data() + from, text.size() - from, kQuestion.data(), kQuestion.size());
        return found == nullptr ? std::string_view::npos
                                : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    };
    for (std::size_t at = next_question(0); at != std::string_view::npos; at = next_question(at)) {
        std::string_view line = text.substr(at, std::min(text.find('\n', at), text.size()) - at);
        const std::string_view directive = take_word(line);
        at += kQuestion.size();
        if (directive != kQuestion && directive != "__has_include_next") continue;
        skip_blanks(line);
        if (!line.starts_with('(')) continue;
        line.remove_prefix(1);
        skip_blanks(line);
        add_operand(directive, line, scan.lines);
    }
    return scan;
}

}  // namespace kiln
