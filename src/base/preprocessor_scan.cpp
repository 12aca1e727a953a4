// SPDX-License-Identifier: Apache-2.0
//
// One pass over the text, by the few kinds of tokens that matter here.
#include "base/preprocessor_scan.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/past_key.h"
#include "base/preprocessor_reader.h"
#include "base/words.h"

namespace kiln {
namespace {

using Item = PreprocessorItem;

constexpr auto kFileDirectives =
    std::to_array<std::string_view>({"include", "include_next", "import", "embed"});
// What follows these is only asked for being defined, or becomes undefined.
constexpr auto kTakesAName =
    std::to_array<std::string_view>({"ifdef", "ifndef", "elifdef", "elifndef", "undef"});
// A longer value is no name of a file, and not worth to be copied without its comments.
constexpr std::size_t kLongestValue = 1000;

template <class Words>
bool is_one_of(std::string_view word, const Words& words) {
    return std::ranges::find(words, word) != std::ranges::end(words);
}

class Scanner {
  public:
    Scanner(std::string_view text, const std::set<std::string, std::less<>>& more_questions)
        : text_(text), more_questions_(more_questions), reader_(text, scan_.joined) {
        const auto look_for = [&](std::string_view word) {
            lengths_[static_cast<unsigned char>(word.front())] |= length_bit(word);
        };
        for (const std::string_view word : kFileQuestions) look_for(word);
        for (const std::string_view word : kClockMacros) look_for(word);
        for (const std::string_view word : more_questions) look_for(word);
    }

    PreprocessorScan run() {
        bool line_starts = true;
        for (;;) {
            const char c = reader_.peek();
            if (reader_.at_end()) break;
            if (c == '\n') {
                end_definition();
                reader_.take();
                line_starts = true;
                is_directive_ = false;
            } else if (is_blank(c) || c == '\0') {
                reader_.take();
                reader_.skip_blanks();
            } else if (skip_plain_word(c)) {
                line_starts = false;
                end_strings();
            } else if (c == '/' && reader_.take_comment()) {
            } else {
                is_string_ = false;
                const std::size_t start = reader_.position();
                if (line_starts && (reader_.take("#") || reader_.take("%:")))
                    directive(start);
                else
                    token(start, c);
                line_starts = false;
                if (!is_string_) end_strings();
            }
        }
        end_definition();
        end_strings();
        return std::move(scan_);
    }

  private:
    static std::uint64_t length_bit(std::string_view word) { return std::uint64_t{1} << (word.size() % 64); }

    // One that is not looked for.
    bool skip_plain_word(char c) {
        if (!is_word_part(c) || is_digit(c)) return false;
        const std::string_view word = reader_.plain_word();
        if (word.empty() || may_be_noted(word)) return false;
        reader_.skip(word.size());
        return true;
    }
    bool may_be_noted(std::string_view word) const {
        return (lengths_[static_cast<unsigned char>(word.front())] & length_bit(word)) != 0;
    }

    void token(std::size_t start, char c) {
        if (c == '"') {
            reader_.take();
            add_string(start, reader_.literal('"'), false);
        } else if (c == '\'') {
            reader_.take();
            (void)reader_.literal('\'');
        } else if (is_digit(c)) {
            reader_.skip_number();
        } else if (is_word_part(c)) {
            const std::string_view word = reader_.word();
            if (reader_.begins_raw_string(word))
                add_string(start, reader_.raw_string(), true);
            else if (may_be_noted(word))
                noted_word(start, word);
        } else {
            reader_.take();
        }
    }

    void noted_word(std::size_t start, std::string_view word) {
        if (is_one_of(word, kClockMacros))
            add(Item::Kind::clock, start, start, word);
        else if (is_directive_ && (is_one_of(word, kFileQuestions) || more_questions_.contains(word)))
            question(start, word);
    }

    void question(std::size_t start, std::string_view word) {
        NamedFile file;
        file.begin = start;
        file.end = reader_.consumed();
        reader_.skip_space();
        if (reader_.take("(")) {
            reader_.skip_space();
            file = operand(true);
            add(Item::Kind::question, start, start, word).file = file;
        } else if (!is_asked_for_itself(start)) {
            add(Item::Kind::mention, start, start, word).file = file;
        }
    }

    // Whether `defined` stands before it, with a parenthesis or without.
    bool is_asked_for_itself(std::size_t start) const {
        constexpr std::string_view kDefined = "defined";
        std::string_view before = text_.substr(0, start);
        const auto drop_blanks = [&] {
            while (!before.empty() && is_blank(before.back())) before.remove_suffix(1);
        };
        drop_blanks();
        if (before.ends_with('(')) before.remove_suffix(1);
        drop_blanks();
        if (!before.ends_with(kDefined)) return false;
        before.remove_suffix(kDefined.size());
        return before.empty() || !is_word_part(before.back());
    }

    void directive(std::size_t start) {
        reader_.skip_space();
        const std::size_t word_begin = reader_.position();
        const std::string_view word = reader_.word();
        is_directive_ = word != "error" && word != "warning";  // whose text is for people
        if (word == "pragma") {
            pragma(start, word_begin);
        } else if (word == "define") {
            define();
        } else if (is_one_of(word, kTakesAName)) {
            reader_.skip_space();
            (void)reader_.word();
        } else if (is_one_of(word, kFileDirectives)) {
            reader_.skip_space();
            const NamedFile file = operand(false);
            add(Item::Kind::include, start, word_begin, word).file = file;
        }
    }

    // GCC's `#pragma GCC dependency FILE` compares the age of a file.
    void pragma(std::size_t start, std::size_t word_begin) {
        reader_.skip_space();
        const std::string_view whose = reader_.word();
        reader_.skip_space();
        const std::size_t before = reader_.position();
        if (reader_.word() != "dependency") return reader_.go_back(before);
        reader_.skip_space();
        const NamedFile file = operand(false);
        const std::string& word = scan_.joined.emplace_back("pragma " + std::string(whose) + " dependency");
        add(Item::Kind::include, start, word_begin, word).file = file;
    }

    void define() {
        reader_.skip_space();
        MacroDefinition definition;
        definition.name = reader_.word();
        if (definition.name.empty()) return;
        if (reader_.take("(")) {
            std::size_t end = 0;
            definition.has_parameters = true;
            definition.parameters = reader_.tokens(true, end);
            (void)reader_.take(")");
        }
        value_begin_ = reader_.position();
        definition_ = scan_.definitions.size();
        scan_.definitions.push_back(definition);
    }

    void end_definition() {
        if (definition_ == Item::kNone) return;
        const std::string_view value = text_.substr(value_begin_, reader_.position() - value_begin_);
        scan_.definitions[std::exchange(definition_, Item::kNone)].value = without_comments(value);
    }

    std::string_view without_comments(std::string_view value) {
        if (value.size() > kLongestValue || (value.find('/') == value.npos && value.find('\\') == value.npos))
            return trimmed(value);
        std::size_t end = 0;
        return PreprocessorReader(value, scan_.joined).tokens(false, end);
    }

    NamedFile operand(bool in_parentheses) {
        NamedFile file;
        const char open = reader_.peek();
        file.begin = reader_.position();
        if (open == '<' || open == '"') {
            reader_.take();
            if (const auto name = reader_.enclosed(open == '<' ? '>' : '"')) {
                file.form = open == '<' ? NamedFile::Form::angled : NamedFile::Form::quoted;
                file.name = *name;
                file.end = reader_.consumed();
                return file;
            }
            reader_.go_back(file.begin);
        }
        file.name = reader_.tokens(in_parentheses, file.end);
        return file;
    }

    Item& add(Item::Kind kind, std::size_t start, std::size_t word_begin, std::string_view word) {
        Item& item = scan_.items.emplace_back();
        item.kind = kind;
        item.start = start;
        item.word_begin = word_begin;
        item.word = word;
        item.definition = definition_;
        return item;
    }

    /// Strings next to each other are one.
    void add_string(std::size_t start, std::string_view inside, bool is_raw) {
        is_string_ = true;
        literals_.push_back({strings_.size(), start});
        if (is_raw || inside.find('\\') == inside.npos)
            strings_ += inside;
        else
            strings_ += decoded_literal(inside);
    }
    void end_strings() {
        if (literals_.empty()) return;
        if (const auto found = find_file_directive(strings_)) {
            const auto behind = std::ranges::upper_bound(literals_, found->at, {}, &Literal::begin);
            const std::size_t start = std::prev(behind)->start;
            add(Item::Kind::assembler, start, start, found->name);
        }
        literals_.clear();
        strings_.clear();
    }

    struct Literal {
        std::size_t begin;  ///< in strings_
        std::size_t start;  ///< in the text
    };

    const std::string_view text_;
    const std::set<std::string, std::less<>>& more_questions_;
    std::array<std::uint64_t, 256>
        lengths_{};  ///< of the words that are looked for, by their first character
    PreprocessorScan scan_;
    PreprocessorReader reader_;
    std::size_t definition_ = Item::kNone;  ///< the one in whose value it is
    std::size_t value_begin_ = 0;
    std::vector<Literal> literals_;  ///< the last one, with those right before it
    std::string strings_;            ///< what they mean together
    bool is_string_ = false;         ///< the last token
    bool is_directive_ = false;      ///< the line
};

}  // namespace

PreprocessorScan scan_preprocessor(std::string_view text,
                                   const std::set<std::string, std::less<>>& more_questions) {
    return Scanner(text, more_questions).run();
}

std::size_t find_lone_return(std::string_view text, std::size_t at) {
    at = text.find('\r', at);
    while (at != text.npos && at + 1 < text.size() && text[at + 1] == '\n') at = text.find('\r', at + 1);
    return at;
}

}  // namespace kiln
