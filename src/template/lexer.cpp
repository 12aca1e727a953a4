// SPDX-License-Identifier: Apache-2.0
//
// The token rules of front-matter lines.
#include "template/lexer.h"

#include <kiln/error.h>

#include <algorithm>
#include <charconv>

namespace kiln {
namespace {

constexpr std::string_view kTwoByteSymbols[] = {"==", "!=", "<=", ">=", "&&", "||", ".."};
constexpr std::string_view kOneByteSymbols = "+-*/%!<>()[]?:,=.";

/// Bytes of the UTF-8 sequence that starts with `lead`, so that messages never show half a character.
std::size_t sequence_length(char lead) {
    const auto byte = static_cast<unsigned char>(lead);
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

std::optional<float> read_float(std::string_view text, std::size_t& length) {
    length = 0;
    const std::size_t digits = text.starts_with('-') ? 1 : 0;
    const std::string_view unsigned_text = text.substr(digits);
    // from_chars would take inf and nan, too.
    const bool is_number = !unsigned_text.empty() && (is_digit(unsigned_text[0]) || unsigned_text[0] == '.');
    if (!is_number) return std::nullopt;
    float value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::invalid_argument) return std::nullopt;
    length = static_cast<std::size_t>(rest - text.data());
    if (error != std::errc()) return std::nullopt;
    return value;
}

Lexer::Lexer(std::string_view line, std::size_t begin, const std::string& file, int line_number)
    : line_(line), file_(file), line_number_(line_number), position_(begin) {
    read();
}

void Lexer::skip_blanks() {
    while (position_ < line_.size() && is_blank(line_[position_])) ++position_;
}

void Lexer::read() {
    skip_blanks();
    const std::size_t begin = position_;
    const auto finish = [&](TokenKind kind, std::size_t end) {
        token_ = {kind, slice(begin, end), begin, end};
        position_ = end;
    };
    if (begin == line_.size()) return finish(TokenKind::end, begin);

    std::size_t end = begin + 1;
    const char first = line_[begin];
    if (is_identifier_part(first)) {
        while (end < line_.size() && is_identifier_part(line_[end])) ++end;
        return finish(is_digit(first) ? TokenKind::number : TokenKind::identifier, end);
    }
    if (first == '"') {
        while (end < line_.size() && line_[end] != '"') end += line_[end] == '\\' ? 2 : 1;
        if (end >= line_.size()) {
            token_ = {TokenKind::string, slice(begin, line_.size()), begin, line_.size()};
            fail(token_, "this string has no closing quote");
        }
        token_ = {TokenKind::string, slice(begin + 1, end), begin, end + 1};
        position_ = end + 1;
        return;
    }
    for (std::string_view symbol : kTwoByteSymbols)
        if (line_.substr(begin, 2) == symbol) return finish(TokenKind::symbol, begin + 2);
    if (kOneByteSymbols.find(first) != std::string_view::npos) return finish(TokenKind::symbol, end);

    end = std::min(line_.size(), begin + sequence_length(first));
    token_ = {TokenKind::symbol, slice(begin, end), begin, end};
    fail(token_, "the character " + std::string(token_.text) + " has no meaning in front matter");
}

Token Lexer::next() {
    const Token token = token_;
    if (token.kind != TokenKind::end) read();
    return token;
}

bool Lexer::accept(std::string_view text) {
    if (token_.kind == TokenKind::string || token_.kind == TokenKind::end || token_.text != text)
        return false;
    read();
    return true;
}

void Lexer::expect(std::string_view text, std::string_view where) {
    if (!accept(text))
        fail(token_,
             "expected " + std::string(text) + " " + std::string(where) + ", found " + describe(token_));
}

Token Lexer::expect_identifier(std::string_view what) {
    if (token_.kind != TokenKind::identifier)
        fail(token_, "expected " + std::string(what) + ", found " + describe(token_));
    return next();
}

std::int64_t Lexer::expect_integer(std::string_view what) {
    const Token first = token_;
    const bool negative = accept("-");
    if (token_.kind != TokenKind::number)
        fail(token_, "expected " + std::string(what) + ", an integer, found " + describe(token_));
    const Token digits = next();
    const std::string written = std::string(negative ? "-" : "").append(digits.text);
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(written.data(), written.data() + written.size(), value);
    if (error == std::errc::result_out_of_range) fail(first, written + " does not fit 64 bits");
    if (rest != written.data() + written.size()) fail(first, written + " is not a decimal integer");
    return value;
}

float Lexer::expect_float(std::string_view what) {
    const Token first = token_;
    const std::string_view rest_of_line = line_.substr(token_.begin);
    std::size_t length = 0;
    const auto value = read_float(rest_of_line, length);
    if (length == 0)
        fail(first, "expected " + std::string(what) + ", a decimal number, found " + describe(first));
    Token written{TokenKind::number, rest_of_line.substr(0, length), first.begin, first.begin + length};
    const auto continues = [&] {
        return written.end < line_.size() &&
               (is_identifier_part(line_[written.end]) || line_[written.end] == '.');
    };
    if (continues()) {
        while (continues()) ++written.end;
        fail(first, std::string(slice(first.begin, written.end)) + " is not a decimal number");
    }
    if (!value) fail(first, std::string(written.text) + " is out of the range of float");
    position_ = written.end;
    read();
    return *value;
}

std::string Lexer::accept_string() {
    std::string result;
    if (token_.kind != TokenKind::string) return result;
    for (std::size_t i = 0; i < token_.text.size(); ++i) {
        if (token_.text[i] == '\\' && i + 1 < token_.text.size()) ++i;
        result += token_.text[i];
    }
    read();
    return result;
}

void Lexer::expect_end(std::string_view what) {
    if (token_.kind != TokenKind::end)
        fail(token_, "unexpected " + describe(token_) + " after " + std::string(what));
}

Token Lexer::next_word() {
    position_ = token_.begin;
    std::size_t end = position_;
    while (end < line_.size() && !is_blank(line_[end]) && line_[end] != ',') ++end;
    const Token word{end == position_ ? TokenKind::end : TokenKind::identifier, slice(position_, end),
                     position_, end};
    position_ = end;
    read();
    return word;
}

Token Lexer::expect_parentheses(std::string_view what) {
    if (token_.text != "(" || token_.kind != TokenKind::symbol)
        fail(token_, "expected " + std::string(what) + ", found " + describe(token_));
    const std::size_t begin = token_.begin;
    int depth = 0;
    for (std::size_t end = begin; end < line_.size(); ++end) {
        depth += line_[end] == '(' ? 1 : line_[end] == ')' ? -1 : 0;
        if (depth != 0) continue;
        position_ = end + 1;
        const Token taken{TokenKind::symbol, slice(begin, end + 1), begin, end + 1};
        read();
        return taken;
    }
    fail(token_, "this ( has no )");
}

Token Lexer::next_until_string() {
    const std::size_t begin = token_.begin;
    const std::size_t stop = std::min(line_.find('"', begin), line_.size());
    std::size_t end = stop;
    while (end > begin && is_blank(line_[end - 1])) --end;
    position_ = stop;
    read();
    return {end == begin ? TokenKind::end : TokenKind::identifier, slice(begin, end), begin, end};
}

void Lexer::fail(const Token& token, const std::string& message) const {
    throw TemplateError(file_, line_number_, location(token.begin).column, message);
}

std::string Lexer::describe(const Token& token) {
    if (token.kind == TokenKind::end) return "the end of the line";
    if (token.kind == TokenKind::string) return "the text \"" + std::string(token.text) + "\"";
    return std::string(token.text);
}

}  // namespace kiln
