// SPDX-License-Identifier: Apache-2.0
//
// Which files a text may reach. A build's key has the digest of every header that is passed to the compiler in
// memory; a file that the compiler opens by itself would not be in the key. So a name must be below the
// template's directory, and be written literally, so that it can be followed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// What an #include or a __has_include names.
struct IncludedName {
    std::string name;
    bool is_quoted = true;     ///< else in angle brackets
    bool is_question = false;  ///< of a __has_include
    int line = 0, column = 0;  ///< from 1

    std::string text() const { return is_quoted ? '"' + name + '"' : '<' + name + '>'; }
};

/// What the #include and __has_include of a text name, in their order. Throws TemplateError, with the line, for a file
/// that the text names past the key: an absolute name or one with ".." (#include, #include_next, #import, #embed,
/// __has_include, __has_embed, #pragma dependency), a name that only a macro gives, a file that the assembler would read
/// (.incbin, .include in a string), a question that is part of a macro or has no parentheses, a carriage return without a
/// line feed, and the date and time of the compile (__DATE__, __TIME__, __TIMESTAMP__). Reads the text as a preprocessor
/// does: lines joined by a backslash, comments, strings, digraphs. A dead branch counts too.
std::vector<IncludedName> checked_includes(std::string_view text, const std::string& file);

/// What checked_includes() throws for, in a text that is no file: the first, with its place, from 1.
struct RejectedText {
    int line = 0;
    int column = 0;
    std::string message;
};
std::optional<RejectedText> rejected_text(std::string_view text);

}  // namespace kiln
