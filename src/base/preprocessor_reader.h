// SPDX-License-Identifier: Apache-2.0
//
// The characters and the smallest pieces of a text as a preprocessor sees them: lines that end in a backslash are joined, and a
// comment is a blank.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/characters.h"

namespace kiln {

/// Of UTF-8: compilers skip it where a text begins with it.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// By character: what compilers allow in a word, be it the first one or a later one. A table, since a scan spends most of its time
/// on words.
inline constexpr std::array<bool, 256> kIsWordPart = [] {
    std::array<bool, 256> table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        const char c = static_cast<char>(i);
        table[i] = is_identifier_part(c) || c == '$' || i >= 0x80u;
    }
    return table;
}();
constexpr bool is_word_part(char c) { return kIsWordPart[static_cast<unsigned char>(c)]; }

class PreprocessorReader {
  public:
    /// joined: takes what is not in the text in one piece.
    PreprocessorReader(std::string_view text, std::deque<std::string>& joined);

    bool at_end() const { return at_ >= text_.size(); }
    /// In the text, of the next character.
    std::size_t position() {
        (void)peek();
        return at_;
    }
    /// The character behind the lines that end in a backslash; '\0' at the end.
    char peek() {
        if (at_ < text_.size() && text_[at_] != '\\') return text_[at_];
        return peek_behind_joined_lines();
    }
    void take() {
        (void)peek();
        if (at_ < text_.size()) ++at_;
    }
    /// Blanks, without a look for joined lines.
    void skip_blanks() {
        while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    }
    /// The word that begins here, if it stands there in one piece and is no prefix of a string; else empty.
    std::string_view plain_word() const {
        std::size_t end = at_;
        while (end < text_.size() && is_word_part(text_[end])) ++end;
        if (end < text_.size() && (text_[end] == '\\' || text_[end] == '"')) return {};
        return text_.substr(at_, end - at_);
    }
    void skip(std::size_t count) { at_ += count; }
    bool take(std::string_view wanted);
    bool take_comment();
    /// Blanks and comments, not the end of the line.
    void skip_space();
    /// The characters of words and numbers that follow; none may.
    std::string_view word();
    void skip_number();
    /// The inside of a string or character whose first quote was taken, its escapes as they stand.
    std::string_view literal(char close);
    /// Whether a raw string follows this word, which was taken.
    bool begins_raw_string(std::string_view word);
    /// The inside of a raw string, from its quote on.
    std::string_view raw_string();
    /// Up to the closing character, which is taken; nullopt when the line ends before it.
    std::optional<std::string_view> enclosed(char close);
    /// The rest of the line without comments; with `in_parentheses` up to the parenthesis that closes what is open. `end`: behind the
    /// last of it, in the text.
    std::string_view tokens(bool in_parentheses, std::size_t& end);
    /// In the text, behind what was taken last.
    std::size_t consumed() const { return at_; }
    /// Goes back to a position that was there.
    void go_back(std::size_t position) { at_ = position; }

  private:
    char peek_behind_joined_lines();
    bool skip_to(std::size_t end);
    void take_literal_into(std::string& result, char close);
    std::string_view kept(std::string text) { return joined_.emplace_back(std::move(text)); }

    const std::string_view text_;
    std::deque<std::string>& joined_;
    std::size_t at_ = 0;
};

}  // namespace kiln
