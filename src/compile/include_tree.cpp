// SPDX-License-Identifier: Apache-2.0
//
// A work list of files; each is read and scanned once, and those that are found together by several threads.
#include "compile/include_tree.h"

#include <kiln/error.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/characters.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/file_name.h"
#include "base/parallel.h"
#include "base/words.h"
#include "compile/include_lines.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostHeaders = 20'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{128} << 20;
constexpr int kMostNesting = 8;          // of macros in macros
constexpr std::size_t kMostValues = 64;  // of one macro
constexpr std::size_t kMostExpansions = 100'000;
constexpr std::int64_t kFilesAtOnce = 16;  // of a thread
constexpr int kMostLinks = 40;             // to links, as many as Linux follows

template <class Work>
void for_each_in_parallel(std::size_t count, const Work& work) {
    parallel_for(static_cast<std::int64_t>(count), kFilesAtOnce, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) work(static_cast<std::size_t>(i));
    });
}

/// Absolute, or with "..": where it leads depends on more than names and include directories.
bool leads_elsewhere(std::string_view name) {
    const fs::path path(name);
    return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

/// As it is written, but from the root and without "." and a slash at the end. ".." stays: behind a link it is another directory
/// than the link's.
fs::path absolute_directory(const fs::path& directory) {
    std::error_code error;
    const fs::path absolute = fs::absolute(directory, error);
    fs::path plain;
    for (const fs::path& part : error ? directory : absolute)
        if (!part.empty() && part != ".") plain /= part;
    return plain;
}

/// Of the text that a macro stands for, a call of another macro for example: whether a path in it begins at the root or has
/// "..".
bool has_path_elsewhere(std::string_view text) {
    for (std::size_t at = text.find('/'); at != std::string_view::npos; at = text.find('/', at + 1)) {
        std::size_t begin = at;
        while (begin > 0 && is_of_path(text[begin - 1])) --begin;
        std::size_t end = at;
        while (end < text.size() && is_of_path(text[end])) ++end;
        if (leads_elsewhere(text.substr(begin, end - begin))) return true;
    }
    return false;
}

/// Those of the template and of its own headers, which an #include of another header may name.
IncludeScan own_macros(const Source& source) {
    IncludeScan own = scan_includes(source.text);
    for (const Header& header : source.headers) {
        if (header.name.starts_with("kiln/")) continue;
        const IncludeScan more = scan_includes(header.text);
        own.macros.insert(own.macros.end(), more.macros.begin(), more.macros.end());
        own.calls.insert(own.calls.end(), more.calls.begin(), more.calls.end());
        own.functions.insert(own.functions.end(), more.functions.begin(), more.functions.end());
    }
    return own;
}

class Search {
  public:
    Search(const Source& source, const std::vector<fs::path>& directories) {
        for (const fs::path& directory : directories) {
            fs::path plain = absolute_directory(directory);
            const auto is_same = [&](const fs::path& known) {
                std::error_code error;
                return known == plain || fs::equivalent(known, plain, error);
            };
            if (std::ranges::none_of(directories_, is_same))
                directories_.push_back(std::move(plain));
            else
                watched_.insert(std::move(plain));  // a link may lead elsewhere later
        }
        for (const Header& header : source.headers) taken_.insert(header.name);
        add_macros(own_macros(source));
        for (const std::string& open : source.open_includes) add_root(open);
    }

    FoundIncludes run() {
        do {
            while (next_ < files_.size()) {
                const std::size_t end = files_.size();
                read_from(next_);
                for (; next_ < end; ++next_) follow(next_);
            }
        } while (follow_macros());
        std::vector<std::optional<std::string>> changed;
        for (std::size_t i = 0; i < files_.size(); ++i) changed.push_back(rewritten(i));
        // Macros are views of the texts, which may move only now.
        FoundIncludes found;
        for (std::size_t i = 0; i < files_.size(); ++i)
            found.headers.push_back(
                {name_of(i), changed[i] ? std::move(*changed[i]) : std::move(files_[i].text)});
        for (const auto& [spelled, file] : roots_)
            if (spelled != name_of(file))
                found.headers.push_back({spelled, "#include <" + name_of(file) + ">\n"});
        std::ranges::sort(found.headers, {}, &Header::name);
        found.watched.assign(watched_.begin(), watched_.end());
        return found;
    }

  private:
    struct Place {
        std::size_t directory;
        std::string relative;
        auto operator<=>(const Place&) const = default;
    };
    struct File {
        Place place;
        std::string name;  // for the compiler
        std::string text;
        IncludeScan scan;                                 // views of the text
        std::vector<std::optional<std::size_t>> targets;  // of its lines
    };

    void add_root(const std::string& open) {
        const std::string name = open.substr(1, open.size() - 2);
        if (const auto place = find(0, name)) roots_.emplace(name, file_at(*place));
    }

    // What the line names, seen from that file.
    std::optional<Place> target(const File& file, IncludeForm form, std::string_view name, bool is_next) {
        if (name.starts_with('/')) return std::nullopt;
        if (form == IncludeForm::quoted && !is_next) {
            if (auto place = at(file.place.directory, fs::path(file.place.relative).parent_path() / name))
                return place;
        }
        return find(is_next ? file.place.directory + 1 : 0, name);
    }

    std::optional<Place> find(std::size_t first, std::string_view name) {
        if (first != 0) return search(first, name);
        const auto [known, is_new] = found_.try_emplace(std::string(name));
        if (is_new) known->second = search(0, name);
        return known->second;
    }

    std::optional<Place> search(std::size_t first, std::string_view name) {
        for (std::size_t i = first; i < directories_.size(); ++i)
            if (auto place = at(i, name)) return place;
        return std::nullopt;
    }

    std::optional<Place> at(std::size_t directory, const fs::path& written) {
        const fs::path relative = written.lexically_normal();
        if (relative.empty() || relative.is_absolute() || *relative.begin() == "..") return std::nullopt;
        const fs::path path = directories_[directory] / relative;
        bool exists = is_file(path);
        if (std::find(written.begin(), written.end(), "..") != written.end())
            exists = exists_by_links(directories_[directory] / written, path, exists);
        return exists ? std::optional(Place{directory, relative.string()}) : std::nullopt;
    }
    // A compiler follows each ".." on the disk, so that what stands before it must be there. Where links make that another file
    // than the names say, it would read something else than is found here.
    bool exists_by_links(const fs::path& written, const fs::path& path, bool exists) {
        std::error_code error;
        if (!is_file(written)) return false;
        if (exists && fs::equivalent(written, path, error)) return true;
        throw BuildError(
            formatted("an #include leads to {}, where \"..\" follows a link, so that it is not {}; "
                      "include the header by a name without \"..\"",
                      written.string(), path.string()));
    }

    bool is_file(const fs::path& path) {
        const auto [known, is_new] = is_file_.try_emplace(path.string(), false);
        if (!is_new) return known->second;
        std::error_code error;
        const fs::file_type type = fs::symlink_status(path, error).type();
        known->second = type == fs::file_type::symlink ? fs::is_regular_file(path, error)
                                                       : type == fs::file_type::regular;
        if (known->second)
            watched_.insert(path);
        else
            watch_missing(path, type == fs::file_type::symlink, kMostLinks);
        return known->second;
    }
    // A file that is to come there changes the nearest directory; where a link is there that leads nowhere, what comes there
    // changes a directory elsewhere.
    void watch_missing(const fs::path& path, bool is_link, int most_links) {
        const fs::path directory = path.parent_path(), &nearest = nearest_directory(directory);
        watched_.insert(nearest);
        fs::path link = path, rest;  // of the path, the part that the nearest directory has, and what follows
        std::error_code error;
        if (nearest != directory) {
            const auto parts = std::distance(nearest.begin(), nearest.end());
            const auto first = std::next(path.begin(), parts);
            link = nearest / *first;
            for (auto part = std::next(first); part != path.end(); ++part) rest /= *part;
            is_link = fs::is_symlink(link, error);
        }
        if (!is_link || most_links == 0) return;
        const fs::path target = nearest / fs::read_symlink(link, error);  // which may be absolute
        const fs::path there = rest.empty() ? target : target / rest;
        watch_missing(there, fs::is_symlink(there, error), most_links - 1);
    }
    const fs::path& nearest_directory(const fs::path& path) {
        const auto [known, is_new] = nearest_.try_emplace(path.string());
        if (!is_new) return known->second;
        std::error_code error;
        fs::path nearest = path;
        while (!fs::is_directory(nearest, error) && nearest.has_relative_path())
            nearest = nearest.parent_path();
        return known->second = std::move(nearest);
    }

    std::size_t file_at(const Place& place) {
        const auto [known, is_new] = by_place_.try_emplace(place, files_.size());
        if (!is_new) return known->second;
        File& file = files_.emplace_back();
        file.place = place;
        file.name = place.relative;
        if (taken_.contains(file.name) || find(0, place.relative) != place)
            file.name = formatted("directory-{}/{}", place.directory, place.relative);
        if (files_.size() > kMostHeaders) throw too_much(file);
        return files_.size() - 1;
    }

    fs::path path_of(const File& file) const {
        return directories_[file.place.directory] / file.place.relative;
    }
    BuildError too_much(const File& last) const {
        return BuildError(
            formatted("the include directories give more than {} headers or {} for one template; the "
                      "last is {}. Include a smaller header, or name a smaller directory.",
                      kMostHeaders, bytes_text(kMostBytes), path_of(last).string()));
    }

    /// The files from this one on, by several threads.
    void read_from(std::size_t first) {
        for_each_in_parallel(files_.size() - first, [&](std::size_t i) {
            File& file = files_[first + i];
            try {
                file.text = read_text_if_exists(path_of(file), kMostBytes).value_or(std::string());
            } catch (const FileError& failure) {
                throw BuildError("the header " + path_of(file).string() +
                                 " can't be read: " + failure.reason());
            }
            if (bytes_.fetch_add(file.text.size()) + file.text.size() > kMostBytes) throw too_much(file);
            file.scan = scan_includes(file.text);
        });
        for (std::size_t i = first; i < files_.size(); ++i) add_macros(files_[i].scan);
    }

    void add_macros(const IncludeScan& scan) {
        for (const auto& [macro, value] : scan.macros)
            if (auto& values = macros_[macro]; values.size() < kMostValues) values.insert(value);
        calls_.insert(scan.calls.begin(), scan.calls.end());
        for (const IncludeFunction& function : scan.functions)
            functions_[function.name].emplace(function.parameter, function.value);
    }

    void follow(std::size_t index) {
        for (std::size_t i = 0; i < files_[index].scan.lines.size(); ++i) {
            const File& file = files_[index];
            const IncludeLine line = file.scan.lines[i];
            std::optional<std::size_t> found;
            if (line.form == IncludeForm::macro) {
                by_macro_.emplace_back(index, line.name);
            } else if (line.form == IncludeForm::call) {
                by_call_.push_back(line);
            } else {
                if (const auto place = target(file, line.form, line.name, line.is_next()))
                    found = file_at(*place);
            }
            files_[index].targets.push_back(found);
        }
    }

    // Every value of every macro that an #include names, as far as files of that name are there. Whether there are new
    // files.
    bool follow_macros() {
        const std::size_t before = files_.size();
        for (const IncludeLine& line : std::vector(by_call_))
            for (const std::string& inside : values_of_call(line))
                if (!taken_.contains(inside))
                    if (const auto place = find(0, inside)) roots_.emplace(inside, file_at(*place));
        for (const auto& [index, macro] : std::vector(by_macro_)) {
            check_calls(index, macro, std::string(macro));
            for (const std::string& operand : values_of(macro, kMostNesting)) {
                check_calls(index, macro, operand);
                if (operand.size() < 3 || (operand.front() != '<' && operand.front() != '"')) continue;
                const auto form = operand.front() == '"' ? IncludeForm::quoted : IncludeForm::angled;
                const std::string inside = operand.substr(1, operand.size() - 2);
                // The compiler looks for it by the name that is written.
                if (taken_.contains(inside)) continue;
                if (const auto place = target(files_[index], form, inside, false))
                    roots_.emplace(inside, file_at(*place));
                else if (leads_elsewhere(inside))
                    throw leads_away(index, macro, operand);
            }
        }
        return files_.size() != before;
    }

    // A call makes an operand that is not followed here; of one that names another place a compiler would read it. value: of the
    // macro.
    void check_calls(std::size_t file, std::string_view macro, const std::string& value) {
        const auto [first, last] = calls_.equal_range(value);
        for (auto call = first; call != last; ++call)
            for (const std::string& one : expanded(call->second, kMostNesting))
                if (has_path_elsewhere(one)) throw leads_away(file, macro, one);
    }
    BuildError leads_away(std::size_t file, std::string_view macro, const std::string& operand) const {
        return BuildError(
            formatted("{}: #include {} may be {}, which is in no include directory, so that its content "
                      "can't be part of the build's key",
                      files_[file].name, macro, operand));
    }

    std::set<std::string> values_of(std::string_view macro, int nesting) {
        std::set<std::string> values;
        const auto found = macros_.find(macro);
        if (found == macros_.end() || nesting == 0 || ++expansions_ > kMostExpansions) return values;
        for (const std::string_view value : found->second) {
            if (value.starts_with('"')) {
                values.emplace(value);
                continue;
            }
            for (std::string& one : expanded(value, nesting)) values.insert(std::move(one));
            if (values.size() > kMostValues) break;
        }
        return values;
    }

    // The names, without brackets, that NAME(argument) may be. Empty where that is not sure or one leads elsewhere: then
    // the line is not followed.
    std::set<std::string> values_of_call(const IncludeLine& line) {
        std::set<std::string> names;
        const auto found = functions_.find(line.name);
        if (found == functions_.end() || line.is_question() || line.is_next() || line.argument.empty() ||
            !std::ranges::all_of(line.argument, is_of_path))
            return {};
        for (const auto& [parameter, value] : found->second) {
            if (parameter.empty() || value.empty()) return {};
            for (const std::string& one : expanded(value, kMostNesting, {parameter, line.argument})) {
                const auto [name, is_new] = names.insert(one.substr(1, one.size() - 2));
                // What is no path yet holds a further call, or pieces that the preprocessor joins.
                if (!std::ranges::all_of(*name, is_of_path) || leads_elsewhere(*name) ||
                    names.size() > kMostValues)
                    return {};
            }
        }
        return names;
    }

    // The text with each word that is a macro replaced by each of its values, and the parameter by its argument.
    std::vector<std::string> expanded(std::string_view text, int nesting,
                                      const std::pair<std::string_view, std::string_view>& parameter = {}) {
        std::vector<std::string> results = {std::string()};
        for (std::size_t at = 0; at < text.size();) {
            std::size_t end = at;
            while (end < text.size() && is_identifier_part(text[end]) == is_identifier_part(text[at])) ++end;
            const std::string_view part = text.substr(at, end - at);
            at = end;
            std::vector<std::string> next;
            std::set<std::string> values;
            if (part == parameter.first) {
                for (std::string& one : expanded(parameter.second, nesting - 1))
                    values.insert(std::move(one));
            } else if (is_identifier_part(part.front())) {
                values = values_of(part, nesting - 1);
            }
            for (const std::string& result : results) {
                if (values.empty()) next.push_back(result + std::string(part));
                for (const std::string& value : values) next.push_back(result + value);
            }
            if (next.size() > kMostValues) next.resize(kMostValues);
            results = std::move(next);
        }
        return results;
    }

    const std::string& name_of(std::size_t file) const { return files_[file].name; }

    bool is_unknown(const IncludeLine& line) {
        return (line.form == IncludeForm::call && values_of_call(line).empty()) ||
               (line.form != IncludeForm::macro && leads_elsewhere(line.name));
    }

    /// nullopt: the text stays as it is.
    std::optional<std::string> rewritten(std::size_t index) {
        const File& file = files_[index];
        std::string text;
        const char* copied = file.text.data();
        for (std::size_t i = 0; i < file.scan.lines.size(); ++i) {
            const IncludeLine& line = file.scan.lines[i];
            if (!file.targets[i]) {
                if (!is_unknown(line)) continue;
                // A compiler would look for it on the disk, past the key: so it gets a name that nothing has.
                text.append(copied, line.operand.data())
                    .append("<no-include-directory-has/")
                    .append(line.name)
                    .append(">");
                copied = line.operand.data() + line.operand.size();
                continue;
            }
            if (line.is_question()) continue;
            const std::string& name = name_of(*file.targets[i]);
            if (name == line.name && !line.is_next()) continue;
            text.append(copied, line.directive.data()).append("include <").append(name).append(">");
            copied = line.operand.data() + line.operand.size();
        }
        if (copied == file.text.data()) return std::nullopt;
        return text.append(copied, file.text.data() + file.text.size());
    }

    std::vector<fs::path> directories_;
    std::set<std::string, std::less<>> taken_;  // names of headers that the source brings
    std::deque<File> files_;                    // in the order in which they were found
    std::map<Place, std::size_t> by_place_;
    std::map<std::string, std::size_t> roots_;  // names that no file of ours spells out
    std::vector<std::pair<std::size_t, std::string_view>> by_macro_;
    std::vector<IncludeLine> by_call_;
    std::map<std::string_view, std::set<std::string_view>> macros_;
    std::unordered_multimap<std::string_view, std::string_view> calls_;
    std::map<std::string_view, std::set<std::pair<std::string_view, std::string_view>>> functions_;
    std::unordered_map<std::string, std::optional<Place>> found_;  // by name, in all directories
    std::unordered_map<std::string, bool> is_file_;
    std::unordered_map<std::string, fs::path> nearest_;
    std::set<fs::path> watched_;
    std::size_t next_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0;
    std::size_t expansions_ = 0;
};

std::string question_of(const Source& source, const std::vector<fs::path>& directories) {
    std::string question = "includes 3\n";
    for (const fs::path& directory : directories) question += "in " + directory.string() + "\n";
    for (const std::string& open : source.open_includes) question += "open " + open + "\n";
    for (const Header& header : source.headers) question += "taken " + header.name + "\n";
    const IncludeScan own = own_macros(source);
    for (const auto* values : {&own.macros, &own.calls})
        for (const auto& [macro, value] : *values)
            question.append("macro ").append(macro).append(" ").append(value).append("\n");
    for (const auto& [name, parameter, value] : own.functions)
        question.append("macro ")
            .append(name)
            .append("(")
            .append(parameter)
            .append(") ")
            .append(value)
            .append("\n");
    return question;
}

}  // namespace

FoundIncludes find_includes(const Source& source, const std::vector<fs::path>& directories) {
    return Search(source, directories).run();
}

std::string includes_digest(const std::vector<Header>& headers) {
    if (headers.empty()) return {};
    std::vector<std::string> digests(headers.size());
    for_each_in_parallel(headers.size(), [&](std::size_t i) { digests[i] = digest_hex(headers[i].text); });
    std::string text;
    for (std::size_t i = 0; i < headers.size(); ++i)
        text += formatted("{} {} {}\n", headers[i].name.size(), headers[i].name, digests[i]);
    return digest_hex(text);
}

std::vector<fs::path> IncludeTree::directories(const Source& source) const {
    std::vector<fs::path> all;
    const auto add = [&](const std::vector<fs::path>& some) {
        for (const fs::path& one : some) all.push_back(absolute_directory(one));
    };
    add(source.include_directories);
    add(directories_);
    if (platform_) add(platform_());
    return all;
}

void IncludeTree::identify(Source& source) const {
    source.include_digest.clear();
    if (source.open_includes.empty()) return;
    const auto searched = directories(source);
    if (searched.empty()) return;
    source.include_digest = memory_->ask(question_of(source, searched), [&]() -> IdentityMemory::Answer {
        const bool is_first = latest_->is_first.exchange(false);
        const auto meanwhile =
            is_first && meanwhile_ ? std::async(std::launch::async, meanwhile_) : std::future<void>();
        FoundIncludes found = find_includes(source, searched);
        const std::string digest = includes_digest(found.headers);
        keep(digest, std::move(found.headers));
        return {{digest}, std::move(found.watched)};
    })[0];
}

std::shared_ptr<const std::vector<Header>> IncludeTree::keep(const std::string& digest,
                                                             std::vector<Header> headers) const {
    auto kept = std::make_shared<const std::vector<Header>>(std::move(headers));
    const std::lock_guard lock(latest_->mutex);
    latest_->digest = digest;
    latest_->headers = kept;
    return kept;
}

Source IncludeTree::with_headers(const Source& source) const {
    Source complete = source;
    if (source.include_digest.empty()) return complete;
    const auto latest = [&]() -> std::shared_ptr<const std::vector<Header>> {
        const std::lock_guard lock(latest_->mutex);
        return latest_->digest == source.include_digest ? latest_->headers : nullptr;
    };
    auto headers = latest();
    if (!headers) {
        FoundIncludes found = find_includes(source, directories(source));
        if (includes_digest(found.headers) != source.include_digest)
            throw BuildError("a header in an include directory of " + source.file_name +
                             " was changed while it was built; build it again");
        headers = keep(source.include_digest, std::move(found.headers));
    }
    complete.found_headers = std::move(headers);
    return complete;
}

}  // namespace kiln
