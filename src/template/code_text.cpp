// SPDX-License-Identifier: Apache-2.0
//
// One pass over the bytes with C++'s rules for comments, strings and characters, and a stack of open brackets.
#include "template/code_text.h"

#include <algorithm>
#include <vector>

#include "base/characters.h"
#include "base/include_check.h"
#include "base/preprocessor_scan.h"
#include "format/format.h"
#include "template/cpp_lexer.h"

namespace kiln {
namespace {

constexpr std::size_t kMostBytesOfCode = 64 << 10;
constexpr std::size_t kLongestDelimiter = 16;  // of a raw string, as in the standard

constexpr std::string_view kTemplateBegins = "#line 1 \"";  // own_text_begin() looks for it

char closing(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

class CodeCheck {
  public:
    explicit CodeCheck(std::string_view text) : text_(text) {}

    std::string wrong() {
        if (text_.size() > kMostBytesOfCode)
            return formatted("it has {} bytes, and the most is {}", text_.size(), kMostBytesOfCode);
        if (const std::size_t nul = text_.find('\0'); nul != text_.npos) return at(nul, "there is a NUL");
        if (const std::size_t end = find_lone_return(text_); end != text_.npos)
            return at(end,
                      "there is a carriage return without a line feed, which some compilers take for the "
                      "end of a line");
        if (const std::size_t line = text_.find(kTemplateBegins); line != text_.npos)
            return at(line,
                      std::string(kTemplateBegins) +
                          "...\" begins the template's own text, also in a comment or a string; write it in "
                          "another way");
        if (const std::size_t mark = text_.find("//@"); mark != text_.npos)
            return at(mark, "//@ begins a line of a template's front matter; write another comment");
        for (std::size_t slash = text_.find('\\'); slash != text_.npos; slash = text_.find('\\', slash + 1)) {
            const std::size_t next = text_.find_first_not_of(" \t\r\v\f", slash + 1);
            if (next == text_.npos || text_[next] == '\n')
                return at(slash, "a backslash continues the line; write it as one line");
        }
        while (wrong_.empty() && position_ < text_.size()) step();
        if (wrong_.empty() && !open_.empty())
            fail(open_.back(),
                 std::string("this ") + text_[open_.back()] + " has no " + closing(text_[open_.back()]));
        if (wrong_.empty()) check_key();
        return wrong_;
    }

  private:
    std::string at(std::size_t offset, const std::string& what) const {
        const std::string_view before = text_.substr(0, offset);
        const std::size_t line = before.rfind('\n');  // text_.npos + 1 is 0
        return formatted("line {}, column {}: {}", 1 + std::ranges::count(before, '\n'),
                         offset - (line + 1) + 1, what);
    }

    /// What is not part of the build's key is as wrong here as in the template's own text.
    void check_key() {
        if (const auto rejected = rejected_text(text_))
            wrong_ = formatted("line {}, column {}: {}", rejected->line, rejected->column, rejected->message);
    }

    void fail(std::size_t offset, const std::string& what) { wrong_ = at(offset, what); }

    void step() {
        const char c = text_[position_];
        const char next = position_ + 1 < text_.size() ? text_[position_ + 1] : '\0';
        if (c == '\n') {
            at_line_start_ = true;
            ++position_;
        } else if (is_blank(c)) {
            ++position_;
        } else if (c == '/' && next == '/') {
            position_ = std::min(text_.find('\n', position_), text_.size());
        } else if (c == '/' && next == '*') {
            const std::size_t end = text_.find("*/", position_ + 2);
            if (end == text_.npos) return fail(position_, "this comment has no end");
            position_ = end + 2;
        } else if (at_line_start_ && (c == '#' || (c == '%' && next == ':'))) {
            fail(position_, "there is a preprocessor line; instead of #pragma write _Pragma(\"...\")");
        } else {
            at_line_start_ = false;
            token(c);
        }
    }

    void token(char c) {
        if (is_identifier_start(c)) return word();
        if (is_digit(c)) {  // 1'000 has no quote
            while (position_ < text_.size() && (is_identifier_part(text_[position_]) ||
                                                text_[position_] == '\'' || text_[position_] == '.'))
                ++position_;
            return;
        }
        if (c == '"' || c == '\'') return quoted(c);
        if (const char meant = digraph()) {
            const std::string written(text_.substr(position_, 2));
            return fail(position_, written + " is a digraph; write " + meant);
        }
        if (c == '(' || c == '[' || c == '{') open_.push_back(position_);
        if (c == ')' || c == ']' || c == '}') close(c);
        ++position_;
    }

    /// The bracket that the next two bytes are another spelling of, or 0.
    char digraph() const {
        const std::string_view rest = text_.substr(position_);
        if (rest.starts_with("<%")) return '{';
        if (rest.starts_with("%>")) return '}';
        if (rest.starts_with(":>")) return ']';
        // <:: is < and ::, unless : or > follows.
        const char after = rest.size() > 3 ? rest[3] : '\0';
        if (rest.starts_with("<:") && (!rest.starts_with("<::") || after == ':' || after == '>')) return '[';
        return '\0';
    }

    void close(char c) {
        if (open_.empty()) return fail(position_, std::string("this ") + c + " closes nothing");
        const char open = text_[open_.back()];
        if (closing(open) != c)
            return fail(position_, std::string("this ") + c + " closes a " + open + " (" +
                                       at(open_.back(), "it stands there") + ")");
        open_.pop_back();
    }

    void word() {
        const std::size_t begin = position_;
        while (position_ < text_.size() && is_identifier_part(text_[position_])) ++position_;
        const std::string_view word = text_.substr(begin, position_ - begin);
        if (position_ < text_.size() && text_[position_] == '"' && word.back() == 'R' && word.size() <= 3)
            raw_string();
    }

    void quoted(char quote) {
        const std::size_t begin = position_++;
        while (position_ < text_.size() && text_[position_] != quote && text_[position_] != '\n')
            position_ += text_[position_] == '\\' ? 2 : 1;
        if (position_ >= text_.size() || text_[position_] != quote)
            return fail(begin, std::string("this ") + quote + " has no second one in its line");
        ++position_;
    }

    void raw_string() {
        const std::size_t begin = position_;
        const std::size_t open = text_.find('(', begin);
        const std::size_t end =
            open == text_.npos || open - begin > kLongestDelimiter + 1
                ? text_.npos
                : text_.find(")" + std::string(text_.substr(begin + 1, open - begin - 1)) + "\"", open);
        if (end == text_.npos) return fail(begin, "this raw string has no end");
        position_ = end + (open - begin) + 1;
    }

    std::string_view text_;
    std::size_t position_ = 0;
    bool at_line_start_ = true;
    std::vector<std::size_t> open_;  // brackets
    std::string wrong_;
};

}  // namespace

std::string wrong_in_code(std::string_view body) { return CodeCheck(body).wrong(); }

std::string wrong_in_code(const Code& code) {
    if (!code.is_ltoir()) return wrong_in_code(std::string_view(code.body()));
    constexpr std::size_t kMostBytesOfLtoir = 64 << 20;
    constexpr std::string_view kLtoir = "\xed\x43\x4e\x7f", kFatbin = "\x50\xed\x55\xba";
    const std::string& symbol = code.symbol();
    if (symbol.empty() || !is_identifier_start(symbol.front()) ||
        !std::ranges::all_of(symbol, is_identifier_part))
        return "\"" + symbol.substr(0, 60) + "\" is not the name of a function";
    if (code.ltoir().size() > kMostBytesOfLtoir)
        return formatted("its LTO-IR has {} bytes, and the most is {}", code.ltoir().size(),
                         kMostBytesOfLtoir);
    if (!code.ltoir().starts_with(kLtoir) && !code.ltoir().starts_with(kFatbin))
        return "its bytes are neither LTO-IR nor a fatbin; nvcc -dlto -ltoir, nvcc -dlto -fatbin or NVRTC "
               "with "
               "--dlink-time-opt makes them";
    return wrong_in_code(std::string_view(code.body()));
}

std::optional<std::string> argument_names(std::string_view signature) {
    signature = signature.substr(1, signature.size() - 2);
    std::string names;
    std::string_view name;
    int depth = 0, words = 0;
    bool is_array = false, any = false;
    const auto finish = [&] {
        if (words < 2) return false;  // a type and a name
        names.append(names.empty() ? "" : ", ").append(name);
        words = 0;
        return true;
    };
    for (const CppToken& token : cpp_tokens(signature)) {
        any = true;
        if (token.text == "[" || token.text == "]") is_array = token.text == "[";
        if (token.text == "<") ++depth;
        if (token.text == ">") --depth;
        if (token.text == "," && depth == 0 && !finish()) return std::nullopt;
        if (token.kind != CppToken::Kind::identifier || depth != 0 || is_array) continue;
        name = token.text;
        ++words;
    }
    if (any && !finish()) return std::nullopt;
    return names;
}

}  // namespace kiln
