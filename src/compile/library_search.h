// SPDX-License-Identifier: Apache-2.0
//
// Finds a vendor's library on disk without opening it, since a key needs its identity on every start
// and the loader would read a hundred megabytes for that.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct LibrarySearch {
    std::string product;                          ///< "NVRTC"
    std::string variable;                         ///< the environment variable that overrules the search
    std::optional<std::filesystem::path> chosen;  ///< its value: a file, or a directory to search alone
    std::vector<std::filesystem::path> directories;
    std::vector<std::string> names;  ///< in order of preference within one directory
    std::string remedy;              ///< how to get it, a whole sentence

    /// The first file found. Throws BuildError when `chosen` is set and leads to nothing.
    std::optional<std::filesystem::path> find() const;
    /// What was looked for, where, and the remedy.
    std::string not_found_message() const;
};

/// The directories parent/prefix<version>, newest version first: /usr/local, "cuda-" -> cuda-13.0, cuda-12.4.
std::vector<std::filesystem::path> versioned_directories(const std::filesystem::path& parent,
                                                         std::string_view prefix);

/// The part of elf_identity() that people know a build by: the first 8 digits of the build ID.
std::string short_build(std::string_view elf_identity);

}  // namespace kiln
