// SPDX-License-Identifier: Apache-2.0
//
// Of a missing file the nearest existing directory is watched, which changes when it comes.
#include "compile/include_directories.h"

#include <kiln/error.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "format/format.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr int kMostLinks = 40;  // to links, as many as Linux follows

}  // namespace

IncludeDirectories::IncludeDirectories(const std::vector<fs::path>& directories) {
    for (const fs::path& one : directories) {
        const auto is_same = [&](const fs::path& known) {
            std::error_code error;
            return fs::equivalent(known, one, error);
        };
        if (std::ranges::find(directories_, one) != directories_.end()) continue;
        if (std::ranges::none_of(directories_, is_same))
            directories_.push_back(one);
        else
            watched_.insert(one);  // a link may lead elsewhere later
    }
}

std::optional<IncludeDirectories::Place> IncludeDirectories::find_from(const Place& file,
                                                                       std::string_view name) {
    return at(file.directory, fs::path(file.relative).parent_path() / name);
}

fs::path IncludeDirectories::path_of(const Place& place) const {
    return directories_[place.directory] / place.relative;
}

std::optional<IncludeDirectories::Place> IncludeDirectories::find(std::size_t first, std::string_view name) {
    if (first != 0) return search(first, name);
    const auto [known, is_new] = found_.try_emplace(std::string(name));
    if (is_new) known->second = search(0, name);
    return known->second;
}

std::optional<IncludeDirectories::Place> IncludeDirectories::search(std::size_t first,
                                                                    std::string_view name) {
    for (std::size_t i = first; i < directories_.size(); ++i)
        if (auto place = at(i, name)) return place;
    return std::nullopt;
}

std::optional<IncludeDirectories::Place> IncludeDirectories::at(std::size_t directory,
                                                                const fs::path& written) {
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
bool IncludeDirectories::exists_by_links(const fs::path& written, const fs::path& path, bool exists) {
    std::error_code error;
    if (!is_file(written)) return false;
    if (exists && fs::equivalent(written, path, error)) return true;
    throw BuildError(
        formatted("an #include leads to {}, where \"..\" follows a link, so that it is not {}; "
                  "include the header by a name without \"..\"",
                  written.string(), path.string()));
}

bool IncludeDirectories::is_file(const fs::path& path) {
    const auto [known, is_new] = is_file_.try_emplace(path.string(), false);
    if (!is_new) return known->second;
    std::error_code error;
    const fs::file_type type = fs::symlink_status(path, error).type();
    known->second =
        type == fs::file_type::symlink ? fs::is_regular_file(path, error) : type == fs::file_type::regular;
    if (known->second)
        watched_.insert(path);
    else
        watch_missing(path, type == fs::file_type::symlink, kMostLinks);
    return known->second;
}

// A file that is to come there changes the nearest directory; where a link is there that leads nowhere, what comes there
// changes a directory elsewhere.
void IncludeDirectories::watch_missing(const fs::path& path, bool is_link, int most_links) {
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

const fs::path& IncludeDirectories::nearest_directory(const fs::path& path) {
    const auto [known, is_new] = nearest_.try_emplace(path.string());
    if (!is_new) return known->second;
    std::error_code error;
    fs::path nearest = path;
    while (!fs::is_directory(nearest, error) && nearest.has_relative_path()) nearest = nearest.parent_path();
    return known->second = std::move(nearest);
}

}  // namespace kiln
