// SPDX-License-Identifier: Apache-2.0
//
// Tokens of one front-matter line, with their columns, so that every error points at its token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/characters.h"

namespace kiln {

/// A place in a template's file, both from 1; the column counts bytes.
struct Location {
    int line = 1;
    int column = 1;
};

enum class TokenKind { identifier, number, string, symbol, end };

struct Token {
    TokenKind kind = TokenKind::end;
    std::string_view text;  ///< as written; for a string without its quotes, escapes not yet resolved
    std::size_t begin = 0;  ///< bytes from the start of the line
    std::size_t end = 0;
};

/// Reads tokens one at a time with one of look-ahead. `line` and `file` must outlive it.
class Lexer {
  public:
    /// Starts at byte `begin` of `line`, which is line number `line_number` of `file`.
    Lexer(std::string_view line, std::size_t begin, const std::string& file, int line_number);

    const Token& peek() const { return token_; }
    Token next();
    /// Takes the next token when it is this symbol or word.
    bool accept(std::string_view text);
    /// Takes the next token, which must be this symbol or word; `where` ends the message ("after NAME").
    void expect(std::string_view text, std::string_view where);
    /// Takes an identifier; `what` names what is missing otherwise ("the kernel's name").
    Token expect_identifier(std::string_view what);
    /// Takes an integer with an optional sign. Throws when it does not fit 64 bits.
    std::int64_t expect_integer(std::string_view what);
    /// Takes a finite decimal number with an optional sign, such as 0.5 or 1e-3: the nearest float.
    float expect_float(std::string_view what);
    /// Takes a string when one is next; its escapes (\" and \\) are resolved.
    std::string accept_string();
    void expect_end(std::string_view what);

    /// The line's bytes between two places.
    std::string_view slice(std::size_t begin, std::size_t end) const {
        return line_.substr(begin, end - begin);
    }
    Location location(std::size_t offset) const { return {line_number_, static_cast<int>(offset) + 1}; }
    const std::string& file() const { return file_; }
    /// Takes raw bytes up to a comma, a blank or the end, past the token rules: an architecture.
    Token next_word();
    /// Takes raw bytes from the ( that is next to its ): the declaration of a function's arguments.
    Token expect_parentheses(std::string_view what);
    /// Takes raw bytes up to a string or the end, without the blanks behind them: a type in C++.
    Token next_until_string();

    [[noreturn]] void fail(const Token& token, const std::string& message) const;
    /// "BM", "the end of the line".
    static std::string describe(const Token& token);

  private:
    void read();
    void skip_blanks();

    std::string_view line_;
    const std::string& file_;
    int line_number_;
    std::size_t position_;
    Token token_;
};

/// The float that is nearest to the decimal number at the start of `text`; `length` is how many bytes it has,
/// 0 when there is none. nullopt also for one that is too large for a float, or too small and not 0.
std::optional<float> read_float(std::string_view text, std::size_t& length);

}  // namespace kiln
