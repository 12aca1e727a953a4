// SPDX-License-Identifier: Apache-2.0
//
// What a preprocessor would do to a text, as far as files go: the files that it reads or asks for, and the macros that may
// name them. The text is read as a preprocessor reads it (lines joined by a backslash, comments, strings, raw strings,
// digraphs, a byte order mark), but nothing is expanded, and branches that are not taken count too.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Operators of #if that ask for files.
constexpr auto kFileQuestions =
    std::to_array<std::string_view>({"__has_include", "__has_include_next", "__has_embed"});

/// What an #include or a question names.
struct NamedFile {
    enum class Form {
        quoted,  ///< "name"
        angled,  ///< <name>
        tokens   ///< anything else: a preprocessor expands its macros first
    };
    Form form = Form::tokens;
    std::string_view name;  ///< without quotes or brackets; of tokens all of them, each comment a blank
    std::size_t begin = 0, end = 0;  ///< in the text, with quotes or brackets
};

struct MacroDefinition {
    std::string_view name;
    bool has_parameters = false;
    std::string_view parameters = {};  ///< what stands between the parentheses
    std::string_view value = {};       ///< without comments
};

struct PreprocessorItem {
    enum class Kind {
        include,    ///< #include, #include_next, #import, #embed, #pragma ... dependency
        question,   ///< WORD(file) in a directive, WORD being one of those that are looked for
        mention,    ///< such a word there without an operand; what only asks whether it is defined is none
        assembler,  ///< a directive of the assembler that reads a file, in a string
        clock       ///< __DATE__, __TIME__, __TIMESTAMP__
    };
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    Kind kind = Kind::include;
    std::size_t start = 0;           ///< in the text: of the #, of the word, of the string
    std::size_t word_begin = 0;      ///< likewise, of the word
    std::string_view word;           ///< "include", "pragma GCC dependency", "__has_include", ".incbin"
    NamedFile file = {};             ///< of an include and a question; of a mention where the word stands
    std::size_t definition = kNone;  ///< which of the definitions it stands in

    bool is_next() const { return word == "include_next" || word == "__has_include_next"; }
};

/// Views are of the text that was scanned or of `joined`. Moving a scan keeps them.
struct PreprocessorScan {
    PreprocessorScan() = default;
    PreprocessorScan(PreprocessorScan&&) = default;
    PreprocessorScan& operator=(PreprocessorScan&&) = default;

    std::vector<PreprocessorItem> items;  ///< in the order of the text
    std::vector<MacroDefinition> definitions;
    std::deque<std::string> joined;  ///< what stands in the text with a comment or the end of a line in it
};

/// more_questions: macros that ask as __has_include does.
PreprocessorScan scan_preprocessor(std::string_view text,
                                   const std::set<std::string, std::less<>>& more_questions = {});

/// The first carriage return from `at` on without a line feed behind it, which Clang takes for the end of a line and GCC does not;
/// npos for none. A scan does not take it for one.
std::size_t find_lone_return(std::string_view text, std::size_t at = 0);

}  // namespace kiln
