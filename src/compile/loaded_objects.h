// SPDX-License-Identifier: Apache-2.0
//
// What a compiler consists of: its programs and libraries, every library that the loader takes for them, and what they
// are by content. The loader itself is asked (its option --list), in the environment of the compiler's process, so
// that LD_LIBRARY_PATH, run paths and /etc/ld.so.cache count as they do there. The C library's own objects are left
// out: an update of it makes no other binaries.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/compiler_environment.h"

namespace kiln {

class CompilerObjects {
  public:
    explicit CompilerObjects(CompilerKind kind) : kind_(kind) {}

    /// A program, library, object file or script, and, where it is a program or library, all that the loader takes
    /// for it. Nothing for the C library's own files, and for what was added before.
    void add(const std::filesystem::path& file);
    /// A library, all that the loader takes for it, and all that it takes for these names, which the library opens
    /// by itself; those that are not there are left out.
    void add(const std::filesystem::path& file, const std::vector<std::string>& opened_by_name);
    /// The file alone.
    void add_alone(const std::filesystem::path& file);
    /// What the loader takes for these names when that library opens them, and not what those need themselves.
    void add_opened_alone(const std::filesystem::path& library, const std::vector<std::string>& names);

    /// "build ... content ..." of each, with its name, ordered by that; holds no path.
    std::string identity() const;
    /// What a change of may change the identity: the files, and the places where the loader looks.
    std::vector<std::filesystem::path> watched() const;

  private:
    struct Library {
        std::string name;
        std::filesystem::path file;  ///< empty: not found
    };
    void watch_search(const std::filesystem::path& file);
    std::vector<Library> ask_loader(const std::filesystem::path& file,
                                    const std::vector<std::string>& opened_by_name) const;
    static std::optional<Library> library_of_line(std::string_view line);

    const CompilerKind kind_;
    std::vector<std::filesystem::path> files_;
    std::vector<std::filesystem::path> places_;
    std::vector<std::string> missing_;  ///< libraries that the loader does not find
};

/// Whether a file of that name is the C library's own: libc.so.6, ld-linux-x86-64.so.2, crti.o.
bool is_of_c_library(const std::string& name);

}  // namespace kiln
