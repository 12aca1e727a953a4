// SPDX-License-Identifier: Apache-2.0
//
// An installation is PREFIX/lib/gcc/TARGET/VERSION (or lib64, lib32; or gcc-cross), and counts when crtbegin.o is in it.
// Which names of targets Clang tries is its own affair: all directories below PREFIX/lib/gcc are watched.
#include "compile/gcc_installations.h"

#include <algorithm>

namespace kiln {
namespace fs = std::filesystem;
namespace {

constexpr const char* kToolsets = "/opt/rh";  // Red Hat's: gcc-toolset-13/root/usr/lib/gcc

std::vector<fs::path> directories_in(const fs::path& directory) {
    std::vector<fs::path> found;
    std::error_code error, ignored;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
        if (entry->is_directory(ignored)) found.push_back(entry->path());
    return found;
}

std::vector<fs::path> prefixes_of(const DriverAnswer& clang) {
    std::vector<fs::path> prefixes = {"/usr"};
    if (!clang.installed_in.empty()) prefixes.push_back(clang.installed_in / "..");
    for (const auto& toolset : directories_in(kToolsets)) prefixes.push_back(toolset / "root/usr");
    // Of --gcc-toolchain, for example. By names: the directory of a version may be a link to elsewhere.
    for (const auto& installation : clang.gcc_installations) {
        const auto libraries =
            installation.parent_path().parent_path().parent_path();  // lib/gcc/TARGET/VERSION
        prefixes.push_back(libraries.parent_path());
    }
    return prefixes;
}

}  // namespace

std::vector<fs::path> places_of_gcc(const DriverAnswer& clang) {
    std::vector<fs::path> places = {kToolsets};
    for (const auto& prefix : prefixes_of(clang)) {
        for (const char* name :
             {"lib/gcc", "lib64/gcc", "lib32/gcc", "lib/gcc-cross", "lib64/gcc-cross", "lib32/gcc-cross"}) {
            places.push_back(prefix / name);
            for (const auto& target : directories_in(prefix / name)) {
                places.push_back(target);
                for (auto& version : directories_in(target)) places.push_back(std::move(version));
            }
        }
    }
    return places;
}

}  // namespace kiln
