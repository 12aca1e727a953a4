// SPDX-License-Identifier: Apache-2.0
//
// What a search found is remembered by what it depends on; the headers of the latest one are kept.
#include "compile/include_tree.h"

#include <kiln/error.h>

#include <cstdint>
#include <future>
#include <utility>

#include "base/digest.h"
#include "base/parallel.h"
#include "compile/compile_options.h"
#include "compile/include_search.h"
#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

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

std::string question_of(const Source& source, const std::vector<fs::path>& directories) {
    std::string question = "includes 4\n";
    for (const fs::path& directory : directories) question += "in " + directory.string() + "\n";
    for (const std::string& open : source.open_includes) question += "open " + open + "\n";
    // Their macros and what they ask for. Of the source only what its variants share: nothing before has a line for a preprocessor.
    const std::size_t own = own_text_begin(source.text);
    question += "text " +
                checksum_hex(std::string_view(source.text).substr(own == std::string::npos ? 0 : own)) + "\n";
    for (const Header& header : source.headers)
        question += "taken " + header.name + " " + checksum_hex(header.text) + "\n";
    for (const std::string& definition : macro_definitions(source)) question += definition + "\n";
    return question;
}

}  // namespace

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
