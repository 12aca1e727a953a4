// SPDX-License-Identifier: Apache-2.0
//
// Where the names of headers lead in directories on the disk, as compilers search them, and what must stay as it is for that to
// stay true.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln {

class IncludeDirectories {
  public:
    /// A file: the number of its directory, and its name from there, without "." and "..".
    struct Place {
        std::size_t directory;
        std::string relative;
        auto operator<=>(const Place&) const = default;
    };

    /// In their order, absolute; they need not exist. One that is an earlier one under another name is left out.
    explicit IncludeDirectories(const std::vector<std::filesystem::path>& directories);

    /// The first file of that name from directory number `first` on. Throws BuildError where a link makes ".." lead to another
    /// file than the names say.
    std::optional<Place> find(std::size_t first, std::string_view name);
    /// The file of that name seen from the directory in which another one lies. Throws likewise.
    std::optional<Place> find_from(const Place& file, std::string_view name);

    std::filesystem::path path_of(const Place& place) const;
    /// Files and directories whose change may change an answer that was given.
    std::vector<std::filesystem::path> watched() const { return {watched_.begin(), watched_.end()}; }

  private:
    std::optional<Place> search(std::size_t first, std::string_view name);
    std::optional<Place> at(std::size_t directory, const std::filesystem::path& written);
    bool exists_by_links(const std::filesystem::path& written, const std::filesystem::path& path,
                         bool exists);
    bool is_file(const std::filesystem::path& path);
    void watch_missing(const std::filesystem::path& path, bool is_link, int most_links);
    const std::filesystem::path& nearest_directory(const std::filesystem::path& path);

    std::vector<std::filesystem::path> directories_;
    std::unordered_map<std::string, std::optional<Place>> found_;  // by name, in all directories
    std::unordered_map<std::string, bool> is_file_;
    std::unordered_map<std::string, std::filesystem::path> nearest_;
    std::set<std::filesystem::path> watched_;
};

}  // namespace kiln
