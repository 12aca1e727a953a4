// SPDX-License-Identifier: Apache-2.0
//
// Manifest: reading the text. A line is cut into words at blanks outside of quotes; each word has its column, so that
// every error points at what it is about.
#include <kiln/error.h>
#include <kiln/manifest.h>

#include <algorithm>

#include "base/file.h"
#include "base/file_name.h"
#include "base/words.h"
#include "template/lexer.h"

namespace kiln {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kMostShownBytes = 60;
constexpr std::uint64_t kMostManifestBytes = 64u << 20;

struct Word {
    std::string_view text;
    std::size_t begin = 0;  ///< bytes from the start of the line

    Word part(std::size_t offset, std::size_t count = std::string_view::npos) const {
        return {text.substr(offset, count), begin + offset};
    }
};

/// In quotes, and not longer than a reader wants it.
std::string in_quotes(std::string_view text) {
    const bool is_long = text.size() > kMostShownBytes;
    return "\"" + std::string(text.substr(0, kMostShownBytes)) + (is_long ? "...\"" : "\"");
}

bool is_identifier(std::string_view text) {
    return !text.empty() && is_identifier_start(text.front()) &&
           std::ranges::all_of(text, is_identifier_part);
}

/// Behind a value in quotes that begins here, as Code::text() writes it; the end of the text where the quote is missing.
std::size_t end_of_quoted(std::string_view text, std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
}

/// The first of `ends` from here on that is not in quotes.
std::size_t find_unquoted(std::string_view text, std::string_view ends, std::size_t begin) {
    for (std::size_t at = begin; at < text.size();) {
        const bool is_quoted = text[at] == '"' && at > 0 && (text[at - 1] == '=' || text[at - 1] == ',');
        if (is_quoted) {
            at = end_of_quoted(text, at);
        } else {
            if (ends.find(text[at]) != ends.npos) return at;
            ++at;
        }
    }
    return text.npos;
}

class LineParser {
  public:
    LineParser(std::string_view text, int number, const std::string& file) : file_(file), number_(number) {
        split(text);
    }

    bool empty() const { return words_.empty(); }

    ManifestLine parse() {
        ManifestLine line;
        line.line = number_;
        line.template_name = template_name(words_.front());
        for (std::size_t i = 1; i < words_.size(); ++i) {
            if (words_[i].text.starts_with('@'))
                add_target(words_[i], line);
            else
                add_values(words_[i], line);
        }
        return line;
    }

  private:
    [[noreturn]] void fail(const Word& at, const std::string& message) const {
        throw TemplateError(file_, number_, static_cast<int>(at.begin) + 1, message);
    }

    void split(std::string_view text) {
        constexpr std::string_view kBlanks = " \t";
        std::size_t begin = 0;
        while ((begin = text.find_first_not_of(kBlanks, begin)) != text.npos && text[begin] != '#') {
            const std::size_t end = std::min(find_unquoted(text, kBlanks, begin), text.size());
            words_.push_back({text.substr(begin, end - begin), begin});
            check_characters(words_.back());
            begin = end;
        }
    }

    /// Names and values are ASCII. What looks like it (a typographic minus, a blank that does not break) is
    /// better reported here than parsed as a part of a name.
    void check_characters(const Word& word) const {
        const auto strange = std::ranges::find_if(word.text, [](char c) { return c < 0x20 || c >= 0x7f; });
        if (strange == word.text.end()) return;
        constexpr std::string_view kDigits = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(*strange);
        fail(word.part(static_cast<std::size_t>(strange - word.text.begin())),
             std::string("there is a byte 0x") + kDigits[byte >> 4] + kDigits[byte & 15] +
                 (byte < 0x80 ? ", a control character" : ", part of a character that is not ASCII") +
                 "; outside of comments a manifest is plain ASCII text");
    }

    std::string template_name(const Word& word) const {
        if (is_identifier(word.text)) return std::string(word.text);
        fail(word, "a line begins with the name of a template, as in \"gemm_tiled BM=64 @cuda:sm_90a\"; " +
                       in_quotes(word.text) + " is none");
    }

    void add_values(const Word& word, ManifestLine& line) const {
        const auto equals = word.text.find('=');
        const Word name = word.part(0, equals);
        if (equals == word.text.npos || !is_identifier(name.text)) fail(word, explain(word));
        const auto [place, is_new] = line.values.try_emplace(std::string(name.text));
        if (!is_new)
            fail(word, "the parameter " + in_quotes(name.text) +
                           " was given before in this line; write all its "
                           "values behind one =, as in BM=32,64");
        std::vector<std::string>& values = place->second;
        for (std::size_t begin = equals + 1;;) {
            const auto comma = find_unquoted(word.text, ",", begin);
            const Word value = word.part(begin, comma == word.text.npos ? comma : comma - begin);
            if (value.text.empty())
                fail(value, "a value of " + in_quotes(name.text) + " is missing in " + in_quotes(word.text) +
                                "; write one value, several with commas and no blanks between, or *");
            const bool is_quoted = value.text.starts_with('"');
            if (is_quoted && (value.text.size() == 1 || end_of_quoted(value.text, 0) != value.text.size() ||
                              !value.text.ends_with('"')))
                fail(value, "the value of " + in_quotes(name.text) + " has no closing quote at its end");
            if (!is_quoted && value.text.find_first_of("=@") != value.text.npos)
                fail(value, in_quotes(value.text) + " can't be a value of " + in_quotes(name.text) +
                                "; parameters and targets are set apart by blanks, as in BM=64 BN=32 @cuda");
            if (!is_quoted && value.text != "*" && value.text.find('*') != value.text.npos)
                fail(value, "* stands for all values of " + in_quotes(name.text) +
                                " and can't be part of one: " + in_quotes(value.text));
            values.emplace_back(value.text);
            if (comma == word.text.npos) break;
            begin = comma + 1;
        }
        if (values.size() > 1 && std::ranges::find(values, "*") != values.end())
            fail(name, in_quotes(word.text) +
                           " names values in addition to *, which is all of them; write one or the "
                           "other");
    }

    /// Why a word is no NAME=VALUE.
    std::string explain(const Word& word) const {
        std::string what = in_quotes(word.text) + " is neither NAME=VALUE nor a target, @BACKEND";
        if (is_identifier(word.text)) {
            const auto next = std::ranges::find(words_, word.begin, &Word::begin) + 1;
            const bool has_value =
                next != words_.end() && next->text.find_first_of("=@") == std::string_view::npos;
            if (has_value || (next != words_.end() && next->text == "="))
                return what + "; write " + std::string(word.text.substr(0, kMostShownBytes)) +
                       "=VALUE, without blanks";
            try {
                (void)parse_backend(word.text);
                return what + "; did you mean @" + std::string(word.text) + "?";
            } catch (const UsageError&) {
            }
        }
        return what;
    }

    void add_target(const Word& word, ManifestLine& line) const {
        const auto colon = word.text.find(':');
        const Word backend = word.part(1, colon == word.text.npos ? colon : colon - 1);
        ManifestTarget target{backend_of(word, backend), {}};
        if (colon != word.text.npos) {
            target.arch = word.text.substr(colon + 1);
            if (target.arch.empty())
                fail(word.part(colon), in_quotes(word.text) +
                                           " names no architecture behind its colon; write " +
                                           std::string(word.text.substr(0, colon)) +
                                           " for the device's own, or one as in @cuda:sm_90a");
        }
        if (const auto other = target.arch.find_first_of(",=@"); other != target.arch.npos)
            fail(word.part(colon + 1 + other),
                 in_quotes(target.arch) +
                     " is no architecture; targets are set apart by blanks, and each has one, "
                     "as in @cuda:sm_80 @cuda:sm_90a");
        if (std::ranges::find(line.targets, target) != line.targets.end())
            fail(word, "the target " + in_quotes(word.text) + " was given before in this line");
        line.targets.push_back(std::move(target));
    }

    Backend backend_of(const Word& word, const Word& backend) const {
        std::vector<std::string> names;
        for (const Backend one : {Backend::cuda, Backend::hip, Backend::host}) {
            if (backend.text == name(one)) return one;
            names.emplace_back(name(one));
        }
        if (backend.text.empty())
            fail(word, in_quotes(word.text) + " names no backend; there are @" + join(names, ", @"));
        // Measuring the distance to a long word costs time, and finds nothing.
        const bool is_short = backend.text.size() <= kMostShownBytes;
        fail(backend, in_quotes(backend.text) + " is no backend; there are " + enumerate(names) +
                          (is_short ? did_you_mean(backend.text, names) : ""));
    }

    const std::string& file_;
    int number_;
    std::vector<Word> words_;
};

}  // namespace

Manifest Manifest::parse(std::string_view text, std::string file) {
    Manifest manifest{std::move(file), {}};
    // Editors of some systems begin a file with it.
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        LineParser parser(line, number, manifest.file);
        if (!parser.empty()) manifest.lines.push_back(parser.parse());
    }
    return manifest;
}

Manifest Manifest::load(const std::filesystem::path& path) {
    const auto fail = [&](const std::string& message) { throw TemplateError(path.string(), 0, 0, message); };
    std::optional<std::string> text;
    try {
        text = read_text_if_exists(path, kMostManifestBytes);
    } catch (const FileError& failure) {
        fail("the manifest can't be read: " + failure.reason());
    }
    if (!text) fail("there is no such manifest");
    return parse(*text, path.string());
}

}  // namespace kiln
