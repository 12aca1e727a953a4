// SPDX-License-Identifier: Apache-2.0
#include "template/directives.h"

#include <kiln/error.h>

#include <algorithm>
#include <deque>
#include <iterator>

#include "base/preprocessor_reader.h"
#include "base/words.h"
#include "format/format.h"

namespace kiln {
namespace {

struct DirectiveRule {
    std::string_view name;
    bool may_repeat;
};

constexpr DirectiveRule kDirectives[] = {
    {"kernel", true},      {"param", true},  {"let", true},          {"require", true},
    {"block", false},      {"grid", false},  {"shared", true},       {"cluster", false},
    {"backend", false},    {"arch", false},  {"size", true},         {"input", true},
    {"output", true},      {"inout", true},  {"scratch", true},      {"flops", false},
    {"bytes", false},      {"naive", false}, {"tensormap", true},    {"dependent", false},
    {"opt_level", false},  {"data", true},   {"model", true},        {"bound", true},
    {"include_dir", true}, {"option", true}, {"cooperative", false},
};

/// Those that belong to the `kernel` line above them, so that each kernel may have its own.
constexpr std::string_view kLaunchDirectives[] = {"block",  "grid",      "cluster",
                                                  "shared", "dependent", "cooperative"};

std::vector<std::string> directive_names() {
    std::vector<std::string> names;
    for (const DirectiveRule& rule : kDirectives) names.emplace_back(rule.name);
    return names;
}

/// Where comments of one line begin that are on no line with anything else, in their order, up to the last directive.
std::vector<std::size_t> line_comments(std::string_view text) {
    std::deque<std::string> joined;
    PreprocessorReader reader(text, joined);
    std::vector<std::size_t> places;
    const std::size_t last = text.rfind(kDirectiveMark);
    if (last == std::string_view::npos) return places;
    bool line_starts = true;
    while (reader.peek(), !reader.at_end() && reader.position() <= last) {
        const std::size_t place = reader.position();
        const char c = reader.peek();
        if (line_starts && text.substr(place).starts_with("//")) places.push_back(place);
        if (c == '/' && reader.take_comment()) continue;
        if (c != '\n' && !is_blank(c)) line_starts = false;
        if (is_digit(c)) {
            reader.skip_number();
        } else if (is_word_part(c)) {
            if (reader.begins_raw_string(reader.word())) static_cast<void>(reader.raw_string());
        } else {
            reader.take();
            if (c == '"' || c == '\'') static_cast<void>(reader.literal(c));
            if (c == '\n') line_starts = true;
        }
    }
    return places;
}

/// use: of each line that is a directive, where it begins in the line, and the line's number. In comments of several lines and in
/// strings there are none.
template <class Use>
void each_line(std::string_view text, const Use& use) {
    const std::vector<std::size_t> comments = line_comments(text);
    int line_number = 1;
    for (std::size_t begin = 0; begin < text.size(); ++line_number) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        const std::size_t mark = std::min(line.find_first_not_of(kBlanks), line.size());
        const std::size_t place = begin + mark;
        begin = end + 1;
        if (line.substr(mark).starts_with(kDirectiveMark) && std::ranges::binary_search(comments, place))
            use(line, mark + kDirectiveMark.size(), line_number);
    }
}

std::string_view take_word(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    const auto end = std::ranges::find_if_not(text, is_identifier_part);
    const std::string_view word = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    text.remove_prefix(word.size());
    return word;
}

}  // namespace

std::string first_kernel(std::string_view text) {
    std::string name;
    each_line(text, [&](std::string_view line, std::size_t begin, int) {
        line.remove_prefix(begin);
        if (name.empty() && take_word(line) == "kernel") name = take_word(line);
    });
    return name;
}

Directives::Directives(std::string_view text, const std::string& file) : file_(file) {
    each_line(text, [&](std::string_view line, std::size_t begin, int number) { add(line, begin, number); });
}

void Directives::add(std::string_view line, std::size_t begin, int line_number) {
    const std::size_t last = line.find_last_not_of(kBlanks);
    if (line[last] == '\\')
        throw TemplateError(
            file_, line_number, static_cast<int>(last) + 1,
            "a //@ line can't be continued on the next one with a backslash; write it in one line");
    Lexer lexer(line, begin, file_, line_number);
    if (lexer.peek().kind == TokenKind::end) return;
    if (lexer.peek().kind != TokenKind::identifier)
        lexer.expect_identifier("a directive (" + join(directive_names()) + ")");
    const Token name = lexer.next();
    const auto rule = std::ranges::find(kDirectives, name.text, &DirectiveRule::name);
    if (rule == std::end(kDirectives)) {
        const std::vector<std::string> names = directive_names();
        const std::string hint = did_you_mean(name.text, names);
        lexer.fail(name, "unknown directive " + std::string(name.text) +
                             (hint.empty() ? "; there are " + join(names) : hint));
    }
    std::vector<Directive>& same = of(name.text);
    if (!same.empty() && !rule->may_repeat &&
        (!is_of_launch(name.text) ||
         kernel_of(same.back()) + 1 == std::max<std::size_t>(of("kernel").size(), 1)))
        fail_second(lexer, name, same.back().line);
    same.push_back({name, line_number, lexer});
}

void Directives::fail_second(const Lexer& lexer, const Token& name, int first_line) {
    lexer.fail(name, formatted("a second {} line; the first is on line {}", name.text, first_line));
}

bool Directives::is_of_launch(std::string_view name) {
    return std::ranges::find(kLaunchDirectives, name) != std::end(kLaunchDirectives);
}

std::size_t Directives::kernel_of(const Directive& line) const {
    const auto kernels = by_name_.find("kernel");
    if (kernels == by_name_.end()) return 0;
    const auto above = std::ranges::count_if(
        kernels->second, [&](const Directive& kernel) { return kernel.line <= line.line; });
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(above, 1) - 1);
}

Directive* Directives::single(std::string_view name, std::size_t kernel) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end() || found->second.empty()) return nullptr;
    if (!is_of_launch(name)) return &found->second.front();
    for (Directive& line : found->second)
        if (kernel_of(line) == kernel) return &line;
    return nullptr;
}

}  // namespace kiln
