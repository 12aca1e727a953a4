// SPDX-License-Identifier: Apache-2.0
//
// Never fails: text that is not C++ leads to tokens without a kernel.
#include "template/cpp_lexer.h"

#include <algorithm>
#include <string>

#include "template/lexer.h"

namespace kiln {
namespace {

constexpr std::size_t npos = std::string_view::npos;

class CppLexer {
  public:
    explicit CppLexer(std::string_view text) : text_(text) {}

    std::vector<CppToken> tokens() {
        tokens_.reserve(text_.size() / kCharactersPerToken);
        while (position_ < text_.size()) step();
        return std::move(tokens_);
    }

  private:
    static constexpr std::size_t kCharactersPerToken = 4;  // about: blanks and comments are none

    void step() {
        const char c = text_[position_];
        if (c == '\n') {
            at_line_start_ = true;
            ++position_;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f') {
            ++position_;
        } else if (c == '/' && next() == '/') {
            skip_line();
        } else if (c == '/' && next() == '*') {
            skip_past("*/", position_ + 2);
        } else if (c == '#' && at_line_start_) {
            skip_line();
        } else {
            at_line_start_ = false;
            token(c);
        }
    }

    void token(char c) {
        const std::size_t begin = position_;
        if (is_identifier_start(c)) {
            take_word();
            const std::string_view word = text_.substr(begin, position_ - begin);
            if (at() == '"' && word.back() == 'R' && word.size() <= 3) return raw_string(begin);
            add(CppToken::Kind::identifier, begin);
        } else if (is_digit(c)) {
            while (position_ < text_.size() && (is_identifier_part(text_[position_]) ||
                                                text_[position_] == '\'' || text_[position_] == '.'))
                ++position_;
            add(CppToken::Kind::other, begin);
        } else if (c == '"' || c == '\'') {
            quoted(c, begin);
        } else {
            position_ += (c == ':' && next() == ':') || (c == '-' && next() == '>') ? 2 : 1;
            add(CppToken::Kind::other, begin);
        }
    }

    void take_word() {
        while (position_ < text_.size() && is_identifier_part(text_[position_])) ++position_;
    }

    void quoted(char quote, std::size_t begin) {
        ++position_;
        while (position_ < text_.size() && text_[position_] != quote && text_[position_] != '\n')
            position_ += text_[position_] == '\\' ? 2 : 1;
        position_ = std::min(position_, text_.size());
        if (at() == quote) ++position_;
        add(CppToken::Kind::string, begin);
    }

    void raw_string(std::size_t begin) {
        const std::size_t open = text_.find('(', position_);
        if (open == npos) {
            position_ = text_.size();
            return;
        }
        std::string close(text_.substr(position_, open - position_));
        close.front() = ')';  // was the quote
        close += '"';
        skip_past(close, open);
        add(CppToken::Kind::string, begin);
    }

    /// To the end of a line, over the ends that a backslash escapes.
    void skip_line() {
        const std::size_t end = std::min(text_.find('\n', position_), text_.size());
        if (text_.substr(position_, end - position_).find('\\') == npos) {
            position_ = end;
            return;
        }
        while (position_ < text_.size() && text_[position_] != '\n')
            position_ += text_[position_] == '\\' ? 2 : 1;
        position_ = std::min(position_, text_.size());
    }

    void skip_past(std::string_view end, std::size_t from) {
        const std::size_t found = text_.find(end, from);
        position_ = found == npos ? text_.size() : found + end.size();
    }

    /// The character here and the one after it; behind the end 0.
    char at() const { return position_ < text_.size() ? text_[position_] : '\0'; }
    char next() const { return position_ + 1 < text_.size() ? text_[position_ + 1] : '\0'; }
    void add(CppToken::Kind kind, std::size_t begin) {
        tokens_.push_back({kind, text_.substr(begin, position_ - begin), begin});
    }

    std::string_view text_;
    std::size_t position_ = 0;
    bool at_line_start_ = true;
    std::vector<CppToken> tokens_;
};

}  // namespace

std::vector<CppToken> cpp_tokens(std::string_view text) { return CppLexer(text).tokens(); }

}  // namespace kiln
