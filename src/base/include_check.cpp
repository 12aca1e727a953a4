// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with each thing that a scan of the text has found, in the order of the text.
#include "base/include_check.h"

#include <kiln/error.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <utility>

#include "base/preprocessor_reader.h"
#include "base/preprocessor_scan.h"

namespace kiln {
namespace {

using Item = PreprocessorItem;

class IncludeCheck {
  public:
    explicit IncludeCheck(std::string_view text) : text_(text) {}

    /// Throws RejectedText.
    std::vector<IncludedName> run() {
        if (const std::size_t lone = find_lone_return(text_); lone != text_.npos)
            fail(lone,
                 "there is a carriage return without a line feed, which some compilers take for the end of a "
                 "line");
        const PreprocessorScan scan = scan_preprocessor(text_);
        for (const Item& item : scan.items) check(item);
        return std::move(names_);
    }

  private:
    void check(const Item& item) {
        const std::string word(item.word);
        switch (item.kind) {
            case Item::Kind::include:
                return file(item, "#" + word + " ", "");
            case Item::Kind::question:
                file(item, word + "(", ")");
                if (item.definition == Item::kNone) return;
                fail(item.start,
                     word +
                         " in a macro: what the macro asks for depends on where it is used, so that it "
                         "can't be part of the build's key; write it into an #if line");
            case Item::Kind::mention:
                fail(item.start,
                     word +
                         " without a name in parentheses: what it asks for can't be part of the build's key; "
                         "write " +
                         word + "(\"name\") into an #if line");
            case Item::Kind::assembler:
                fail(item.start,
                     "the assembler's " + word +
                         " reads a file that is not part of the build's key; write its bytes into an "
                         "array of a "
                         "header next to the template");
            case Item::Kind::clock:
                fail(item.start,
                     word +
                         ": it changes from one compile to the next and is not part of the build's key; "
                         "use a parameter");
        }
    }

    // `before` and `after` are what stands around it, for messages.
    void file(const Item& item, const std::string& before, const std::string& after) {
        const NamedFile& file = item.file;
        if (file.form == NamedFile::Form::tokens) {
            if (file.name.starts_with('"')) return;  // not closed: the compiler says what is wrong with that
            const auto end = std::ranges::find_if_not(file.name, is_word_part);
            fail(item.start,
                 before + std::string(file.name.begin(), end) + after +
                     ": the file's name comes from a macro, so that its content can't be part of the "
                     "build's key; write the name itself, in quotes");
        }
        const bool is_quoted = file.form == NamedFile::Form::quoted;
        const Place at = place(item.start);
        const bool is_question = item.kind == Item::Kind::question;
        const IncludedName named{std::string(file.name), is_quoted, is_question, at.line, at.column};
        const std::filesystem::path path(named.name);
        const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
        if (path.is_absolute() || climbs)
            fail(item.start,
                 before + named.text() + after + ": the name " +
                     (climbs ? "leads out of the template's directory" : "is absolute") +
                     ", and such a file is not part of the build's key; put it into the template's "
                     "directory or below, or pass it as a header, and include it by its name there");
        if (!named.name.empty() && (item.word == "include" || item.word == "__has_include"))
            names_.push_back(named);
    }

    struct Place {
        int line = 0, column = 0;
    };
    Place place(std::size_t start) const {
        const std::string_view before = text_.substr(0, start);
        const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
        const std::size_t line_start = before.rfind('\n') + 1;  // 0 without one
        return {line, static_cast<int>(start - line_start) + 1};
    }

    [[noreturn]] void fail(std::size_t start, const std::string& message) const {
        const Place at = place(start);
        throw RejectedText{at.line, at.column, message};
    }

    const std::string_view text_;
    std::vector<IncludedName> names_;
};

}  // namespace

std::vector<IncludedName> checked_includes(std::string_view text, const std::string& file) {
    try {
        return IncludeCheck(text).run();
    } catch (const RejectedText& rejected) {
        throw TemplateError(file, rejected.line, rejected.column, rejected.message);
    }
}

std::optional<RejectedText> rejected_text(std::string_view text) {
    try {
        static_cast<void>(IncludeCheck(text).run());
    } catch (const RejectedText& rejected) {
        return rejected;
    }
    return std::nullopt;
}

}  // namespace kiln
