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
#include <utility>

#include "base/digest.h"
#include "base/file.h"
#include "base/file_name.h"
#include "base/parallel.h"
#include "base/words.h"
#include "compile/include_directories.h"
#include "compile/include_lines.h"
#include "compile/include_macros.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMostHeaders = 20'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{128} << 20;
constexpr std::int64_t kFilesAtOnce = 16;  // of a thread

template <class Work>
void for_each_in_parallel(std::size_t count, const Work& work) {
    parallel_for(static_cast<std::int64_t>(count), kFilesAtOnce, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) work(static_cast<std::size_t>(i));
    });
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
    Search(const Source& source, const std::vector<fs::path>& directories) : directories_(directories) {
        for (const Header& header : source.headers) taken_.insert(header.name);
        macros_.add(own_macros(source));
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
        found.watched = directories_.watched();
        return found;
    }

  private:
    using Place = IncludeDirectories::Place;
    struct File {
        Place place;
        std::string name;  // for the compiler
        std::string text;
        IncludeScan scan;                                 // views of the text
        std::vector<std::optional<std::size_t>> targets;  // of its lines
    };

    void add_root(const std::string& open) {
        const std::string name = open.substr(1, open.size() - 2);
        if (const auto place = directories_.find(0, name)) roots_.emplace(name, file_at(*place));
    }

    // What the line names, seen from that file.
    std::optional<Place> target(const File& file, IncludeForm form, std::string_view name, bool is_next) {
        if (name.starts_with('/')) return std::nullopt;
        if (form == IncludeForm::quoted && !is_next)
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
        for_each_in_parallel(files_.size() - first, [&](std::size_t i) {
            File& file = files_[first + i];
            try {
                file.text =
                    read_text_if_exists(directories_.path_of(file.place), kMostBytes).value_or(std::string());
            } catch (const FileError& failure) {
                throw BuildError("the header " + directories_.path_of(file.place).string() +
                                 " can't be read: " + failure.reason());
            }
            if (bytes_.fetch_add(file.text.size()) + file.text.size() > kMostBytes) throw too_much(file);
            file.scan = scan_includes(file.text);
        });
        for (std::size_t i = first; i < files_.size(); ++i) macros_.add(files_[i].scan);
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
            for (const std::string& inside : macros_.values_of_call(line))
                if (!taken_.contains(inside))
                    if (const auto place = directories_.find(0, inside))
                        roots_.emplace(inside, file_at(*place));
        for (const auto& [index, macro] : std::vector(by_macro_)) {
            if (const auto text = macros_.call_that_leads_elsewhere(macro))
                throw leads_away(index, macro, *text);
            for (const std::string& operand : macros_.values_of(macro)) {
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

    BuildError leads_away(std::size_t file, std::string_view macro, const std::string& operand) const {
        return BuildError(
            formatted("{}: #include {} may be {}, which is in no include directory, so that its content "
                      "can't be part of the build's key",
                      files_[file].name, macro, operand));
    }

    const std::string& name_of(std::size_t file) const { return files_[file].name; }

    bool is_unknown(const IncludeLine& line) {
        return (line.form == IncludeForm::call && macros_.values_of_call(line).empty()) ||
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

    IncludeDirectories directories_;
    IncludeMacros macros_;
    std::set<std::string, std::less<>> taken_;  // names of headers that the source brings
    std::deque<File> files_;                    // in the order in which they were found
    std::map<Place, std::size_t> by_place_;
    std::map<std::string, std::size_t> roots_;  // names that no file of ours spells out
    std::vector<std::pair<std::size_t, std::string_view>> by_macro_;
    std::vector<IncludeLine> by_call_;
    std::size_t next_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0;
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
