// SPDX-License-Identifier: Apache-2.0
//
// A pass over the tokens distinguishes use from declaration. Under hipRTC half and __half are HIP's own types before
// the first line is read, and can't be declared again; there a macro gives the word another name, which namespace kiln
// has too, so that kiln::half still means the same.
#include "template/type_words.h"

#include <algorithm>
#include <array>

#include "template/cpp_lexer.h"
#include "template/lexer.h"

namespace kiln {
namespace {

constexpr auto kTypeWords = std::to_array<TypeWord>({{"half", "half"},
                                                     {"__half", "half"},
                                                     {"bfloat16", "bfloat16"},
                                                     {"__nv_bfloat16", "bfloat16"},
                                                     {"nv_bfloat16", "bfloat16"},
                                                     {"__hip_bfloat16", "bfloat16"},
                                                     {"hip_bfloat16", "bfloat16"}});

/// Headers that declare them.
constexpr auto kVendorHeaders = std::to_array<std::string_view>(
    {"cuda_fp16.h", "cuda_bf16.h", "hip_fp16.h", "hip_bf16.h", "hip_bfloat16.h"});

/// What the tokens say of each word of kTypeWords.
struct Found {
    bool is_used = false, is_declared = false;
};
using Words = std::array<Found, kTypeWords.size()>;

/// Whether a word may stand there bare: most templates say kiln::half, and name types in their //@ lines.
bool may_use(std::string_view text) {
    for (const std::string_view part : {"half", "bfloat16"}) {
        for (std::size_t at = text.find(part); at != std::string_view::npos;
             at = text.find(part, at + part.size())) {
            if (at > 0 && text[at - 1] == ':') continue;
            const std::size_t line = text.rfind('\n', at) + 1;  // npos + 1 is 0
            const std::size_t first = text.find_first_not_of(" \t", line);
            if (text.substr(first, 2) != "//") return true;
        }
    }
    return false;
}

/// One pass over a text. Only declarations outside all braces, except those of extern "C", declare a word for all of
/// the text.
class Scan {
  public:
    Scan(std::string_view text, Words& words) : tokens_(cpp_tokens(text)), words_(words) {}

    void run() {
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            const std::string_view token = tokens_[i].text;
            if (token == "{" || token == "}" || token == "(" || token == ")") bracket(i);
            if (token == ";" || token == "}") is_assigned_ = uses_kiln_ = false;
            if (token == "=") is_assigned_ = true;
            if (token == "namespace" && is(i - 1, "using") && is(i + 1, "kiln")) uses_kiln_ = true;
            if (uses_kiln_) declare("half"), declare("bfloat16");
            const auto word = std::ranges::find(kTypeWords, token, &TypeWord::word);
            if (word == kTypeWords.end() || is(i - 1, ".") || is(i - 1, "->")) continue;
            // kiln::half, except using kiln::half;
            if (is(i - 1, "::") && !(is(i - 3, "using") && is(i + 1, ";"))) continue;
            note(i, words_[index(word)]);
        }
    }

  private:
    static std::size_t index(const TypeWord* word) {
        return static_cast<std::size_t>(word - kTypeWords.data());
    }

    bool is(std::size_t i, std::string_view text) const {
        return i < tokens_.size() && tokens_[i].text == text;
    }

    void declare(std::string_view word) {
        words_[index(std::ranges::find(kTypeWords, word, &TypeWord::word))].is_declared = true;
    }

    void bracket(std::size_t i) {
        const std::string_view token = tokens_[i].text;
        if (token == "{") braces_.push_back(!(i > 0 && is(i - 1, "\"C\"")));
        if (token == "}" && !braces_.empty()) braces_.pop_back();
        depth_ += token == "(" ? 1 : token == ")" ? -1 : 0;
    }

    void note(std::size_t i, Found& word) const {
        const bool outside = depth_ == 0 && std::ranges::find(braces_, true) == braces_.end();
        constexpr std::string_view kKinds[] = {"struct", "class", "union", "enum"};
        const bool is_type = i > 0 && std::ranges::find(kKinds, tokens_[i - 1].text) != std::end(kKinds);
        const bool ends =
            is(i + 1, "=") || is(i + 1, ";") || is(i + 1, "[") || is(i + 1, "(") || is(i + 1, "{");
        if (outside && (is_type || (ends && !is_assigned_)))
            word.is_declared = true;
        else
            word.is_used = true;
    }

    const std::vector<CppToken> tokens_;
    Words& words_;
    std::vector<bool> braces_;  // of those open: whether it hides what is declared in it
    int depth_ = 0;
    bool is_assigned_ = false, uses_kiln_ = false;  // since the statement began
};

std::string declaration(const TypeWord& word) {
    const std::string name(word.word), type(word.type), other = "kiln_word_" + name;
    return "#if defined(__HIPCC_RTC__) || defined(__HIPCC__)\n"
           "namespace kiln { using " +
           other + " = " + type +
           "; }\n"
           "using kiln::" +
           other +
           ";\n"
           "#define " +
           name + " " + other +
           "\n"
           "#else\n"
           "using " +
           name + " = kiln::" + type +
           ";\n"
           "#endif\n";
}

}  // namespace

std::string_view type_of_word(std::string_view word) {
    const auto found = std::ranges::find(kTypeWords, word, &TypeWord::word);
    return found == kTypeWords.end() ? std::string_view() : found->type;
}

std::string type_word_declarations(std::string_view text, const std::vector<Header>& own_headers) {
    std::vector<std::string_view> texts = {text};
    for (const Header& header : own_headers) texts.emplace_back(header.text);
    if (std::ranges::none_of(texts, may_use)) return {};
    for (const std::string_view one : texts)
        for (const std::string_view header : kVendorHeaders)
            if (one.find(header) != std::string_view::npos) return {};
    Words words;
    for (const std::string_view one : texts) Scan(one, words).run();
    std::string declarations;
    for (std::size_t i = 0; i < words.size(); ++i)
        if (words[i].is_used && !words[i].is_declared) declarations += declaration(kTypeWords[i]);
    return declarations;
}

}  // namespace kiln
