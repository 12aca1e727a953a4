// SPDX-License-Identifier: Apache-2.0
//
// One pass over the text: a reader that joins lines, and above it the few kinds of tokens that matter here.
#include "base/include_check.h"

#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "base/characters.h"
#include "base/past_key.h"

namespace kiln {
namespace {

constexpr auto kFileDirectives =
    std::to_array<std::string_view>({"include", "include_next", "import", "embed"});
constexpr auto kFileQuestions =
    std::to_array<std::string_view>({"__has_include", "__has_include_next", "__has_embed"});
constexpr auto kRawPrefixes = std::to_array<std::string_view>({"R", "LR", "uR", "UR", "u8R"});

template <std::size_t size>
bool is_one_of(std::string_view word, const std::array<std::string_view, size>& words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

// By a table, since this check spends most of its time on words.
constexpr std::array<bool, 256> kIsWord = [] {
    std::array<bool, 256> table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        const char c = static_cast<char>(i);
        table[i] = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '$' ||
                   i >= 0x80u;
    }
    return table;
}();
bool is_word(char c) { return kIsWord[static_cast<unsigned char>(c)]; }

class IncludeCheck {
  public:
    explicit IncludeCheck(std::string_view text) : text_(text) {}

    /// Throws RejectedText.
    std::vector<IncludedName> run() {
        bool line_starts = true;
        while (at_ < text_.size()) {
            const std::size_t start = at_;
            const char c = peek();
            if (c == '\n') {
                take();
                line_starts = true;
            } else if (is_blank(c) || c == '\0') {
                take();
                skip_blanks();
            } else if (skip_plain_word()) {
                line_starts = false;
                end_strings();
            } else if (take_comment()) {
            } else if (line_starts && take_hash()) {
                line_starts = false;
                end_strings();
                directive(start);
            } else {
                line_starts = false;
                is_string_ = false;
                token(start, c);
                if (!is_string_) end_strings();
            }
        }
        end_strings();
        return std::move(names_);
    }

  private:
    // The character behind the lines that end in a backslash; '\0' at the end.
    char peek() {
        while (at_ < text_.size() && text_[at_] == '\\') {
            std::size_t next = at_ + 1;
            while (next < text_.size() && is_blank(text_[next])) ++next;  // compilers allow blanks there
            if (next >= text_.size() || text_[next] != '\n') break;
            at_ = next + 1;
        }
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    void take() {
        (void)peek();
        if (at_ < text_.size()) ++at_;
    }
    bool take(std::string_view wanted) {
        const std::size_t before = at_;
        for (const char c : wanted) {
            if (peek() != c || at_ >= text_.size()) {
                at_ = before;
                return false;
            }
            take();
        }
        return true;
    }
    bool take_hash() { return take("#") || take("%:"); }
    bool take_comment() {
        if (peek() != '/') return false;
        if (take("//")) {
            if (skip_to(text_.find('\n', at_))) return true;
            while (at_ < text_.size() && peek() != '\n') take();
            return true;
        }
        if (!take("/*")) return false;
        if (skip_to(text_.find("*/", at_))) {
            at_ = std::min(at_ + 2, text_.size());
            return true;
        }
        while (at_ < text_.size() && !take("*/")) take();
        return true;
    }

    // Most text has no joined lines: these three go over it without looking for them at each character.
    // Goes to `end`, or to the end of the text for npos; false, where it is, when a line may be joined before it.
    bool skip_to(std::size_t end) {
        end = std::min(end, text_.size());
        if (text_.substr(at_, end - at_).find('\\') != std::string_view::npos) return false;
        at_ = end;
        return true;
    }
    void skip_blanks() {
        while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    }
    // A word that neither names a file nor is the prefix of a string; false, at the same position, for
    // anything else.
    bool skip_plain_word() {
        if (text_[at_] == '_' || is_digit(text_[at_])) return false;
        std::size_t end = at_;
        while (end < text_.size() && is_word(text_[end])) ++end;
        if (end == at_ || (end < text_.size() && (text_[end] == '\\' || text_[end] == '"'))) return false;
        at_ = end;
        return true;
    }

    void skip_space() {
        while (at_ < text_.size() && (is_blank(peek()) || peek() == '/')) {
            if (is_blank(peek()))
                take();
            else if (!take_comment())
                return;
        }
    }
    std::string word() {
        std::string result;
        while (is_word(peek())) {
            result += peek();
            take();
        }
        return result;
    }
    // Up to the closing character, which is taken; nullopt when the line ends before it.
    std::optional<std::string> enclosed(char close) {
        std::string result;
        for (;;) {
            const char c = peek();
            if (at_ >= text_.size() || c == '\n') return std::nullopt;
            take();
            if (c == close) return result;
            result += c;
        }
    }

    void token(std::size_t start, char c) {
        if (c == '"') {
            take();
            add_string(start, decoded_literal(literal('"')));
        } else if (c == '\'') {
            take();
            (void)literal('\'');
        } else if (is_digit(c)) {
            while (is_word(peek()) || peek() == '.' || peek() == '\'') take();  // 1'000 holds no character
        } else if (is_word(c)) {
            const std::string name = word();
            if (peek() == '"' && is_one_of(name, kRawPrefixes))
                raw_string(start);
            else if (is_one_of(name, kFileQuestions))
                question(start, name);
            else if (is_one_of(name, kClockMacros))
                fail(start,
                     name +
                         ": it changes from one compile to the next and is not part of the build's key; "
                         "use a parameter");
        } else {
            take();
        }
    }
    // The inside of a string or character, its escapes as they stand.
    std::string literal(char close) {
        std::string result;
        for (;;) {
            const char c = peek();
            if (at_ >= text_.size() || c == '\n') return result;
            take();
            if (c == close) return result;
            result += c;
            if (c == '\\' && peek() != '\n') {
                result += peek();
                take();
            }
        }
    }
    // Lines are not joined in it.
    void raw_string(std::size_t start) {
        ++at_;
        const std::size_t open = std::min(text_.find('(', at_), text_.size());
        const std::string end = ")" + std::string(text_.substr(at_, open - at_)) + "\"";
        const std::size_t close = std::min(text_.find(end, open), text_.size());
        const std::size_t begin = std::min(open + 1, close);
        add_string(start, text_.substr(begin, close - begin));
        at_ = std::min(close + end.size(), text_.size());
    }
    /// Strings next to each other are one.
    void add_string(std::size_t start, std::string_view meant) {
        is_string_ = true;
        literals_.push_back({strings_.size(), start});
        strings_ += meant;
    }
    void end_strings() {
        if (literals_.empty()) return;
        if (const auto found = find_file_directive(strings_)) {
            const auto behind = std::ranges::upper_bound(literals_, found->at, {}, &Literal::begin);
            fail(std::prev(behind)->start,
                 "the assembler's " + std::string(found->name) +
                     " reads a file that is not part of the build's key; write its bytes into an array of a "
                     "header next to the template");
        }
        literals_.clear();
        strings_.clear();
    }

    void directive(std::size_t start) {
        skip_space();
        std::string name = word();
        if (name == "pragma") {  // GCC's compares the age of a file
            skip_space();
            const std::string whose = word();
            skip_space();
            if (word() != "dependency") return;
            name += " " + whose + " dependency";
        } else if (!is_one_of(name, kFileDirectives)) {
            return;
        }
        skip_space();
        operand(start, "#" + name + " ");
    }
    void question(std::size_t start, const std::string& name) {
        skip_space();
        if (!take("(")) return;  // whether the compiler has it
        skip_space();
        operand(start, name + "(");
    }
    // `before` is what stands before it, for messages.
    void operand(std::size_t start, const std::string& before) {
        const char open = peek();
        const std::string after = before.ends_with('(') ? ")" : "";
        if (open != '"' && open != '<') {
            const std::string macro = word();
            fail(start, before + macro + after +
                            ": the file's name comes from a macro, so that its content can't be part of the "
                            "build's key; write the name itself, in quotes");
        }
        const char close = open == '<' ? '>' : '"';
        take();
        const auto name = enclosed(close);
        if (!name) return;  // the compiler says what is wrong with that
        const std::filesystem::path path(*name);
        const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
        if (!path.is_absolute() && !climbs) {
            if (!name->empty() && (before == "#include " || before == "__has_include("))
                names_.push_back({*name, open == '"'});
            return;
        }
        fail(start, before + open + *name + close + after + ": the name " +
                        (climbs ? "leads out of the template's directory" : "is absolute") +
                        ", and such a file is not part of the build's key; put it into the template's "
                        "directory or below, or pass it as a header, and include it by its name there");
    }
    [[noreturn]] void fail(std::size_t offset, const std::string& message) const {
        const std::string_view before = text_.substr(0, offset);
        const auto line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
        const std::size_t line_start = before.rfind('\n') + 1;  // 0 without one
        throw RejectedText{line, static_cast<int>(offset - line_start) + 1, message};
    }

    struct Literal {
        std::size_t begin;  ///< in strings_
        std::size_t start;  ///< in the text
    };

    const std::string_view text_;
    std::size_t at_ = 0;
    std::vector<Literal> literals_;  ///< the last one, with those right before it
    std::string strings_;            ///< what they mean together
    bool is_string_ = false;         ///< the last token
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
