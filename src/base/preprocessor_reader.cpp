// SPDX-License-Identifier: Apache-2.0
//
// Most text has no joined lines: pieces without a backslash are views of the text, and only others are put together.
#include "base/preprocessor_reader.h"

#include <algorithm>

#include "base/words.h"

namespace kiln {

PreprocessorReader::PreprocessorReader(std::string_view text, std::deque<std::string>& joined)
    : text_(text), joined_(joined), at_(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0) {}

char PreprocessorReader::peek_behind_joined_lines() {
    while (at_ < text_.size() && text_[at_] == '\\') {
        std::size_t next = at_ + 1;
        while (next < text_.size() && is_blank(text_[next])) ++next;  // compilers allow blanks there
        if (next >= text_.size() || text_[next] != '\n') break;
        at_ = next + 1;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
}

bool PreprocessorReader::take(std::string_view wanted) {
    const std::size_t before = at_;
    for (const char c : wanted) {
        if (peek() != c || at_end()) {
            at_ = before;
            return false;
        }
        take();
    }
    return true;
}

// Goes to `end`, or to the end of the text for npos; false, where it is, when a line may be joined before it.
bool PreprocessorReader::skip_to(std::size_t end) {
    end = std::min(end, text_.size());
    if (text_.substr(at_, end - at_).find('\\') != std::string_view::npos) return false;
    at_ = end;
    return true;
}

bool PreprocessorReader::take_comment() {
    if (peek() != '/') return false;
    if (take("//")) {
        if (skip_to(text_.find('\n', at_))) return true;
        while (!at_end() && peek() != '\n') take();
        return true;
    }
    if (!take("/*")) return false;
    if (skip_to(text_.find("*/", at_))) {
        at_ = std::min(at_ + 2, text_.size());
        return true;
    }
    while (!at_end() && !take("*/")) take();
    return true;
}

void PreprocessorReader::skip_space() {
    for (;;) {
        const char c = peek();
        if (at_end()) return;
        if (is_blank(c) || c == '\0')  // compilers skip a NUL, with a warning
            take();
        else if (c != '/' || !take_comment())
            return;
    }
}

std::string_view PreprocessorReader::word() {
    (void)peek();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word_part(text_[at_])) ++at_;
    if (at_ >= text_.size() || text_[at_] != '\\') return text_.substr(begin, at_ - begin);
    std::string result(text_.substr(begin, at_ - begin));
    while (is_word_part(peek()) && !at_end()) {
        result += peek();
        take();
    }
    return kept(std::move(result));
}

void PreprocessorReader::skip_number() {
    while (!at_end() && (is_word_part(peek()) || peek() == '.' || peek() == '\''))
        take();  // 1'000 has no character
}

std::string_view PreprocessorReader::literal(char close) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != close && text_[at_] != '\n' && text_[at_] != '\\') ++at_;
    if (at_ >= text_.size() || text_[at_] == '\n') return text_.substr(begin, at_ - begin);
    if (text_[at_] == close) return text_.substr(begin, at_++ - begin);
    std::string result(text_.substr(begin, at_ - begin));
    take_literal_into(result, close);
    return kept(std::move(result));
}

void PreprocessorReader::take_literal_into(std::string& result, char close) {
    for (;;) {
        const char c = peek();
        if (at_end() || c == '\n') return;
        take();
        if (c == close) return;
        result += c;
        if (c == '\\' && peek() != '\n') {
            result += peek();
            take();
        }
    }
}

// Lines are not joined in it.
bool PreprocessorReader::begins_raw_string(std::string_view word) {
    constexpr auto kPrefixes = std::to_array<std::string_view>({"R", "LR", "uR", "UR", "u8R"});
    return peek() == '"' && std::ranges::find(kPrefixes, word) != kPrefixes.end();
}

std::string_view PreprocessorReader::raw_string() {
    (void)peek();
    ++at_;
    const std::size_t open = std::min(text_.find('(', at_), text_.size());
    const std::string end = ")" + std::string(text_.substr(at_, open - at_)) + "\"";
    const std::size_t close = std::min(text_.find(end, open), text_.size());
    const std::size_t begin = std::min(open + 1, close);
    at_ = std::min(close + end.size(), text_.size());
    return text_.substr(begin, close - begin);
}

std::optional<std::string_view> PreprocessorReader::enclosed(char close) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != close && text_[at_] != '\n' && text_[at_] != '\\') ++at_;
    if (at_ < text_.size() && text_[at_] == close) return text_.substr(begin, at_++ - begin);
    std::string result(text_.substr(begin, at_ - begin));
    for (;;) {
        const char c = peek();
        if (at_end() || c == '\n') return std::nullopt;
        take();
        if (c == close) return kept(std::move(result));
        result += c;
    }
}

std::string_view PreprocessorReader::tokens(bool in_parentheses, std::size_t& end) {
    std::string result;
    int depth = 0;
    end = position();
    for (;;) {
        const char c = peek();
        if (at_end() || c == '\n') break;
        if (in_parentheses && c == ')' && depth-- == 0) break;
        if (c == '(') ++depth;
        if (take_comment()) {
            result += ' ';
            continue;
        }
        take();
        result += c;
        if (c == '"' || c == '\'') {
            take_literal_into(result, c);
            result += c;
        }
        if (!is_blank(c)) end = at_;
    }
    return trimmed(kept(std::move(result)));
}

}  // namespace kiln
