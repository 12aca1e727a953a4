// SPDX-License-Identifier: Apache-2.0
//
// A search by plain file look-ups.
#include "compile/library_search.h"

#include <kiln/error.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/words.h"

namespace kiln {
namespace fs = std::filesystem;
namespace {

bool is_file(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error);
}

std::optional<fs::path> find_in(const fs::path& directory, const std::vector<std::string>& names) {
    for (const auto& name : names) {
        if (const auto path = directory / name; is_file(path)) return fs::absolute(path);
    }
    return std::nullopt;
}

}  // namespace

std::optional<fs::path> LibrarySearch::find() const {
    if (chosen) {
        if (is_file(*chosen)) return fs::absolute(*chosen);
        if (auto path = find_in(*chosen, names)) return path;
        throw BuildError(variable + " is set to \"" + chosen->string() + "\", which is neither the " +
                         product + " library nor a directory that holds one (" + enumerate(names) +
                         "). Correct it, or unset it so that the usual places are searched.");
    }
    for (const auto& directory : directories) {
        if (auto path = find_in(directory, names)) return path;
    }
    return std::nullopt;
}

std::string LibrarySearch::not_found_message() const {
    std::vector<std::string> places;
    for (const auto& directory : directories) {
        std::error_code error;
        if (fs::is_directory(directory, error)) places.push_back(directory.string());
    }
    if (places.empty()) places.push_back("any of the usual directories");
    return product + " was not found: none of " + enumerate(names) + " is in " + enumerate(places) + ". " +
           remedy;
}

std::vector<fs::path> versioned_directories(const fs::path& parent, std::string_view prefix) {
    std::vector<std::pair<std::pair<long, long>, fs::path>> found;
    std::error_code error;
    for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(prefix)) continue;
        char* rest = nullptr;
        const long major = std::strtol(name.c_str() + prefix.size(), &rest, 10);
        const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
        found.push_back({{major, minor}, entry->path()});
    }
    std::sort(found.rbegin(), found.rend());
    std::vector<fs::path> directories;
    for (auto& [version, path] : found) directories.push_back(std::move(path));
    return directories;
}

std::string short_build(std::string_view elf_identity) {
    constexpr std::string_view kLabel = "build ";
    if (!elf_identity.starts_with(kLabel)) return "unknown";
    elf_identity.remove_prefix(kLabel.size());
    return std::string(elf_identity.substr(0, std::min<std::size_t>(8, elf_identity.find(' '))));
}

}  // namespace kiln
