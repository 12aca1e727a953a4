// SPDX-License-Identifier: Apache-2.0
//
// Looks at the directives only. Where one stands in a comment behind the guard, there may seem to be none.
#include "compile/include_guard.h"

#include <algorithm>

#include "base/words.h"

namespace kiln {
namespace {

// The next line that begins with a #, from `at` on, as its word and what follows.
struct Directive {
    std::size_t begin = std::string_view::npos;  // of the line; npos: there is none
    std::size_t end = 0;                         // of the line, behind its line feed
    std::string_view word, operand;
};

std::string_view first_word(std::string_view text) {
    return text.substr(0, std::min(text.find_first_of(" \t\r\v\f/(\"<"), text.size()));
}

Directive next_directive(std::string_view text, std::size_t at) {
    for (std::size_t hash = text.find('#', at); hash != text.npos; hash = text.find('#', hash + 1)) {
        const std::size_t before = text.substr(0, hash).find_last_not_of(kBlanks);
        if (before != text.npos && text[before] != '\n') continue;
        Directive found;
        found.begin = before == text.npos ? 0 : before + 1;
        found.end = std::min(text.find('\n', hash), text.size() - 1) + 1;
        const std::string_view line = without_blanks(text.substr(hash + 1, found.end - hash - 1));
        found.word = first_word(line.substr(0, line.find('\n')));
        const std::string_view rest = without_blanks(line.substr(found.word.size()));
        found.operand = first_word(rest.substr(0, rest.find('\n')));
        return found;
    }
    return {};
}

bool is_comment(std::string_view text) {
    for (;;) {
        text.remove_prefix(std::min(text.find_first_not_of(" \t\r\v\f\n"), text.size()));
        if (text.empty()) return true;
        const bool is_block = text.starts_with("/*");
        if (!is_block && !text.starts_with("//")) return false;
        const std::size_t end = text.find(is_block ? "*/" : "\n", 2);
        if (end == text.npos) return !is_block;
        text.remove_prefix(end + (is_block ? 2 : 1));
    }
}

// Of the #endif that belongs to a condition which was opened before `at`, if the condition has no other branch.
std::size_t end_of_condition(std::string_view text, std::size_t at) {
    for (int depth = 1;;) {
        const Directive one = next_directive(text, at);
        if (one.begin == text.npos) return text.npos;
        if (one.word.starts_with("if")) ++depth;
        if (depth == 1 && one.word.starts_with("el")) return text.npos;
        if (one.word == "endif" && --depth == 0) {
            const std::size_t word = text.find("endif", one.begin) + one.word.size();
            return word;
        }
        at = one.end;
    }
}

}  // namespace

std::size_t include_guard_end(std::string_view text) {
    const Directive first = next_directive(text, 0);
    if (first.begin == text.npos || !is_comment(text.substr(0, first.begin))) return 0;
    if (first.word == "pragma") return first.operand == "once" ? first.end : 0;
    if (first.word != "ifndef" || first.operand.empty()) return 0;
    const Directive second = next_directive(text, first.end);
    if (second.begin == text.npos || second.word != "define" || second.operand != first.operand ||
        !is_comment(text.substr(first.end, second.begin - first.end)))
        return 0;
    // A definition that goes on in the next line would be cut in two.
    if (text.substr(second.begin, second.end - second.begin).find('\\') != text.npos) return 0;
    const std::size_t end = end_of_condition(text, second.end);
    return end != text.npos && is_comment(text.substr(end)) ? second.end : 0;
}

}  // namespace kiln
