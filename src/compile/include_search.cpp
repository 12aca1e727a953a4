// SPDX-License-Identifier: Apache-2.0
//
// A work list of files; each is read and scanned once, and those that are found together by several threads. A file is scanned
// again where it may use a macro that turned out to ask for files.
#include "compile/include_search.h"

#include <kiln/error.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/file_name.h"
#include "base/parallel.h"
#include "base/preprocessor_reader.h"
#include "base/preprocessor_scan.h"
#include "base/words.h"
#include "compile/compile_options.h"
#include "compile/include_directories.h"
#include "compile/include_macros.h"
#include "compile/include_rewrite.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

using Item = PreprocessorItem;

constexpr std::size_t kMostHeaders = 20'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{128} << 20;
constexpr std::int64_t kReadsAtOnce = 16;  // of a thread

bool is_of_embed(const Item& item) { return item.word.ends_with("embed"); }

/// The macro that asks as the item does: of `#define NAME(x) __has_include(x)`, of `#define NAME __has_include`.
std::optional<std::string_view> asking_macro(const PreprocessorScan& scan, const Item& item) {
    if (item.definition == Item::kNone || item.is_next() || is_of_embed(item)) return std::nullopt;
    const MacroDefinition& in = scan.definitions[item.definition];
    if (item.kind == Item::Kind::mention)
        return !in.has_parameters && in.value == item.word ? std::optional(in.name) : std::nullopt;
    const std::string_view given = in.parameters == "..." ? "__VA_ARGS__" : in.parameters;
    const bool asks = item.kind == Item::Kind::question && item.file.form == NamedFile::Form::tokens &&
                      in.has_parameters && !given.empty() && item.file.name == given;
    return asks ? std::optional(in.name) : std::nullopt;
}

/// Whether a word of the text is one of the parameters.
bool names_a_parameter(std::string_view text, std::string_view parameters) {
    for (std::string_view rest = parameters; !rest.empty();) {
        const std::string_view word = leading_word(rest);
        rest.remove_prefix(std::max<std::size_t>(word.size(), 1));
        if (word.empty()) continue;
        for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
            if ((at == 0 || !is_word_part(text[at - 1])) && leading_word(text.substr(at)) == word)
                return true;
    }
    return false;
}

class Search {
  public:
    Search(const Source& source, const std::vector<fs::path>& directories) : directories_(directories) {
        for (const Header& header : source.headers) taken_.insert(header.name);
        for (std::string& definition : macro_definitions(source))
            add_own("an option -D", own_definitions_.emplace_back(std::move(definition)));
        add_own(source.file_name, source.text);
        for (const Header& header : source.headers) add_own(header.name, header.text);
        for (const std::string& open : source.open_includes) add_root(open.substr(1, open.size() - 2));
    }

    FoundIncludes run() {
        do {
            while (next_ < files_.size()) {
                const std::size_t end = files_.size();
                read_from(next_);
                for (; next_ < end; ++next_) follow(next_);
            }
        } while (follow_tokens() || scan_for_asking_macros());
        check_own();
        check_roots();
        std::vector<std::optional<std::string>> changed;
        for (std::size_t i = 0; i < files_.size(); ++i)
            changed.push_back(rewritten(files_[i].text, replacements(i)));
        // Scans are views of the texts, which may move only now.
        FoundIncludes found;
        for (std::size_t i = 0; i < files_.size(); ++i)
            found.headers.push_back(
                {name_of(i), changed[i] ? std::move(*changed[i]) : std::move(files_[i].text)});
        for (const auto& [spelled, file] : roots_)
            if (spelled != name_of(file))
                found.headers.push_back({spelled, "#include <" + name_of(file) + ">\n"});
        std::ranges::sort(found.headers, {}, &Header::name);
        found.watched = directories_.watched();
        return found;
    }

  private:
    using Place = IncludeDirectories::Place;
    struct File {
        Place place;
        std::string name;  // for the compiler
        std::string text;
        PreprocessorScan scan;                            // views of the text
        std::vector<std::optional<std::size_t>> targets;  // of its items
    };
    /// The template and its own headers, which are not rewritten.
    struct Own {
        std::string_view name, text;
        PreprocessorScan scan;
    };

    void add_own(std::string_view name, std::string_view text) {
        Own& own = own_.emplace_back(Own{name, text, scan_preprocessor(text)});
        macros_.add(own.scan);
    }

    void add_root(const std::string& name) {
        if (taken_.contains(name)) return;  // the compiler looks for it by the name that is written
        if (const auto place = directories_.find(0, name)) add_root(name, file_at(*place));
    }

    /// A name that the compiler will look for itself, so that it can stand for one file only.
    void add_root(const std::string& name, std::size_t file) {
        const std::size_t known = roots_.emplace(name, file).first->second;
        if (known != file) throw two_files(name, known, file);
    }

    BuildError two_files(const std::string& name, std::size_t one, std::size_t other) const {
        return BuildError(
            formatted("{} and {} are both included as {} by a macro, which can be one of them only; write "
                      "one of the names without a macro",
                      directories_.path_of(files_[one].place).string(),
                      directories_.path_of(files_[other].place).string(), name));
    }

    void check_roots() const {
        for (std::size_t i = 0; i < files_.size(); ++i)
            if (const auto root = roots_.find(name_of(i)); root != roots_.end() && root->second != i)
                throw two_files(root->first, root->second, i);
    }

    // What the name leads to, seen from that file.
    std::optional<Place> target(const File& file, bool is_quoted, std::string_view name, bool is_next) {
        if (name.starts_with('/')) return std::nullopt;
        if (is_quoted && !is_next)
            if (auto place = directories_.find_from(file.place, name)) return place;
        return directories_.find(is_next ? file.place.directory + 1 : 0, name);
    }

    std::size_t file_at(const Place& place) {
        const auto [known, is_new] = by_place_.try_emplace(place, files_.size());
        if (!is_new) return known->second;
        File& file = files_.emplace_back();
        file.place = place;
        file.name = place.relative;
        if (taken_.contains(file.name) || directories_.find(0, place.relative) != place)
            file.name = formatted("directory-{}/{}", place.directory, place.relative);
        if (files_.size() > kMostHeaders) throw too_much(file);
        return files_.size() - 1;
    }

    BuildError too_much(const File& last) const {
        return BuildError(
            formatted("the include directories give more than {} headers or {} for one template; the "
                      "last is {}. Include a smaller header, or name a smaller directory.",
                      kMostHeaders, bytes_text(kMostBytes), directories_.path_of(last.place).string()));
    }

    /// The files from this one on, by several threads.
    void read_from(std::size_t first) {
        const auto count = static_cast<std::int64_t>(files_.size() - first);
        parallel_for(count, kReadsAtOnce, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) read(files_[first + static_cast<std::size_t>(i)]);
        });
        for (std::size_t i = first; i < files_.size(); ++i) macros_.add(files_[i].scan);
    }

    void read(File& file) {
        try {
            file.text =
                read_text_if_exists(directories_.path_of(file.place), kMostBytes).value_or(std::string());
        } catch (const FileError& failure) {
            throw BuildError("the header " + directories_.path_of(file.place).string() +
                             " can't be read: " + failure.reason());
        }
        // So that it is the end of a line for each compiler, as it is for the scan.
        for (std::size_t at = 0; (at = find_lone_return(file.text, at)) != file.text.npos;)
            file.text[at] = '\n';
        if (bytes_.fetch_add(file.text.size()) + file.text.size() > kMostBytes) throw too_much(file);
        file.scan = scan_preprocessor(file.text, asking_);
        for (const Item& item : file.scan.items)
            if (item.kind == Item::Kind::assembler)
                throw BuildError(formatted(
                    "{}:{}: the assembler's {} reads a file that is not part of the build's key",
                    directories_.path_of(file.place).string(),
                    1 + std::count(file.text.begin(),
                                   file.text.begin() + static_cast<std::ptrdiff_t>(item.start), '\n'),
                    item.word));
    }

    void follow(std::size_t index) {
        files_[index].targets.clear();
        for (std::size_t i = 0; i < files_[index].scan.items.size(); ++i) {
            const File& file = files_[index];
            const Item& item = file.scan.items[i];
            std::optional<std::size_t> found;
            const bool names = item.kind == Item::Kind::include || item.kind == Item::Kind::question;
            if (names && !is_of_embed(item)) {
                const bool is_quoted = item.file.form == NamedFile::Form::quoted;
                if (!tokens_of(item).empty())
                    by_tokens_.emplace_back(index, i);
                else if (const auto place = target(file, is_quoted, item.file.name, item.is_next()))
                    found = file_at(*place);
            }
            files_[index].targets.push_back(found);
        }
    }

    /// What a preprocessor expands to get the operand; empty: the operand stands there as it is. Brackets in a macro are no more than
    /// tokens.
    std::string tokens_of(const Item& item) const {
        if (item.file.form == NamedFile::Form::tokens) return std::string(item.file.name);
        const bool is_expanded = item.definition != Item::kNone || asking_.contains(item.word);
        if (item.file.form == NamedFile::Form::quoted || !is_expanded) return {};
        return formatted("<{}>", item.file.name);
    }

    /// What the tokens of the item may be; nullopt: not sure.
    std::optional<std::set<std::string>> operands(const PreprocessorScan& scan, const Item& item) {
        const std::string tokens = tokens_of(item);
        if (item.is_next()) return std::nullopt;
        if (item.definition != Item::kNone &&
            names_a_parameter(tokens, scan.definitions[item.definition].parameters))
            return std::nullopt;
        return macros_.operands(tokens);
    }

    // Every value of every macro that an #include or a question names, as far as files of that name are there. Whether there are
    // new files.
    bool follow_tokens() {
        const std::size_t before = files_.size();
        for (const auto& [index, i] : std::vector(by_tokens_)) {
            const auto all = operands(files_[index].scan, files_[index].scan.items[i]);
            if (!all) continue;
            for (const std::string& operand : *all) {
                const std::string inside = operand.substr(1, operand.size() - 2);
                if (taken_.contains(inside)) continue;
                const auto place = target(files_[index], operand.front() == '"', inside, false);
                if (place) add_root(inside, file_at(*place));
            }
        }
        for (const Own& own : own_)
            for (const Item& item : own.scan.items)
                for (const std::string& operand : own_operands(own, item).value_or(std::set<std::string>()))
                    add_root(operand.substr(1, operand.size() - 2));
        return files_.size() != before;
    }

    /// What a text that is not rewritten asks for by a macro; nullopt: not sure.
    std::optional<std::set<std::string>> own_operands(const Own& own, const Item& item) {
        if (!asking_.contains(item.word) || asking_macro(own.scan, item)) return std::set<std::string>();
        if (item.kind != Item::Kind::question) return std::nullopt;
        if (!tokens_of(item).empty()) return operands(own.scan, item);
        if (leads_elsewhere(item.file.name)) return std::nullopt;
        return std::set{formatted("\"{}\"", item.file.name)};
    }

    /// A template's own __has_include is checked when the template is read.
    void check_own() {
        for (const Own& own : own_)
            for (const Item& item : own.scan.items)
                if (!own_operands(own, item))
                    throw BuildError(
                        formatted("{}: {} asks for a file as __has_include does, and which one it is can't "
                                  "be part of the "
                                  "build's key; write a name without \"..\" below an include directory",
                                  own.name, item.word));
    }

    // Whether there are new macros that ask for files; then what may use them is scanned again.
    bool scan_for_asking_macros() {
        std::set<std::string_view> fresh;
        const auto collect = [&](const PreprocessorScan& scan) {
            for (const Item& item : scan.items)
                if (const auto macro = asking_macro(scan, item))
                    if (asking_.emplace(*macro).second) fresh.insert(*macro);
        };
        for (const Own& own : own_) collect(own.scan);
        for (const File& file : files_) collect(file.scan);
        if (fresh.empty()) return false;
        const auto scan_again = [&](std::string_view text, PreprocessorScan& scan) {
            // A name that goes on in another line is found by the scan only.
            const bool may_use = std::ranges::any_of(
                fresh, [&](std::string_view name) { return text.find(name) != text.npos; });
            if (!may_use && text.find("\\\n") == text.npos) return false;
            former_.push_back(std::exchange(scan, scan_preprocessor(text, asking_)));
            return true;
        };
        for (Own& own : own_) scan_again(own.text, own.scan);
        for (std::size_t i = 0; i < files_.size(); ++i) {
            if (!scan_again(files_[i].text, files_[i].scan)) continue;
            std::erase_if(by_tokens_, [&](const auto& one) { return one.first == i; });
            follow(i);
        }
        return true;
    }

    const std::string& name_of(std::size_t file) const { return files_[file].name; }

    std::vector<Replacement> replacements(std::size_t index) {
        const File& file = files_[index];
        std::vector<Replacement> all;
        for (std::size_t i = 0; i < file.scan.items.size(); ++i)
            if (auto one = replacement(file.scan, file.scan.items[i], file.targets[i]))
                all.push_back(std::move(*one));
        return all;
    }

    std::optional<Replacement> replacement(const PreprocessorScan& scan, const Item& item,
                                           std::optional<std::size_t> target) {
        const bool is_mention = item.kind == Item::Kind::mention;
        if ((!is_mention && item.file.name.empty()) || item.kind == Item::Kind::clock ||
            asking_macro(scan, item))
            return std::nullopt;
        if (is_mention) return Replacement{item.file.begin, item.file.end, "no_include_directory_has"};
        if (target) return named(item, name_of(*target));
        const bool is_expanded = !tokens_of(item).empty();
        const bool is_sure = !is_of_embed(item) && (is_expanded ? operands(scan, item).has_value()
                                                                : !leads_elsewhere(item.file.name));
        if (is_sure) return std::nullopt;
        const bool is_tokens = item.file.form == NamedFile::Form::tokens;
        return Replacement{
            item.file.begin, item.file.end,
            operand(item, name_of_nothing(is_tokens ? leading_word(item.file.name) : item.file.name))};
    }

    std::optional<Replacement> named(const Item& item, const std::string& name) const {
        if (name == item.file.name && !item.is_next()) return std::nullopt;
        const bool is_question = item.kind == Item::Kind::question;
        std::string word(item.word);
        if (item.is_next()) word = is_question ? "__has_include" : "include";
        return Replacement{item.word_begin, item.file.end,
                           word + (is_question ? "(" : " ") + operand(item, name)};
    }

    // In a macro and as its argument a word between brackets may be a macro.
    std::string operand(const Item& item, const std::string& name) const {
        const bool is_expanded = item.definition != Item::kNone || asking_.contains(item.word);
        return is_expanded ? formatted("\"{}\"", name) : formatted("<{}>", name);
    }

    IncludeDirectories directories_;
    IncludeMacros macros_;
    std::set<std::string, std::less<>> taken_;   // names of headers that the source brings
    std::set<std::string, std::less<>> asking_;  // macros that ask as __has_include does
    std::deque<std::string> own_definitions_;    // of options
    std::deque<Own> own_;
    std::deque<File> files_;               // in the order in which they were found
    std::deque<PreprocessorScan> former_;  // of which macros_ has views
    std::map<Place, std::size_t> by_place_;
    std::map<std::string, std::size_t> roots_;                    // names that no file of ours spells out
    std::vector<std::pair<std::size_t, std::size_t>> by_tokens_;  // a file and one of its items
    std::size_t next_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace

FoundIncludes find_includes(const Source& source, const std::vector<fs::path>& directories) {
    return Search(source, directories).run();
}

}  // namespace kiln
