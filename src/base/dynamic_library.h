// SPDX-License-Identifier: Apache-2.0
//
// A shared library opened at run time, the identity of one on disk, and where this program lies.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Owns a dlopen handle. Move-only. Thread-safe once open.
class DynamicLibrary {
  public:
    DynamicLibrary() = default;
    DynamicLibrary(DynamicLibrary&& other) noexcept;
    DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
    ~DynamicLibrary();

    /// Opens the first of these names or paths that opens (RTLD_NOW | RTLD_LOCAL). An empty library
    /// when none does; `error` then receives the loader's words for each.
    static DynamicLibrary open(const std::vector<std::string>& names, std::string* error = nullptr);

    /// Opens the library of this name for the rest of the process. An empty one where that fails; `problem` then receives
    /// why, as the end of a sentence: "libdw.so.1, which reads debug information, was not found; on Debian and Ubuntu:
    /// apt-get install libdw1".
    static DynamicLibrary open_forever(const std::string& name, const std::string& purpose,
                                       const std::string& package, std::string& problem);

    explicit operator bool() const { return handle_ != nullptr; }
    /// nullptr when there is no such symbol.
    void* symbol(const char* name) const;
    /// Sets the function pointer; leaves it null and returns false when there is no such symbol.
    template <class Function>
    bool resolve(Function*& function, const char* name) const {
        function = reinterpret_cast<Function*>(symbol(name));
        return function != nullptr;
    }
    /// The file that was opened, from the loader.
    std::filesystem::path path() const;
    void* handle() const { return handle_; }
    /// Never unload: for drivers, which do not survive it.
    void keep_forever() { keep_ = true; }

  private:
    void* handle_ = nullptr;
    bool keep_ = false;
};

/// An identity of an ELF file that changes with every build of it, from its headers alone (a few
/// kilobytes are read): the GNU build ID if it has one, the size, and a digest of the section table.
/// nullopt when it can't be read or is no ELF file. The same bytes at another path give the same.
std::optional<std::string> elf_identity(const std::filesystem::path& path);

/// The identity of any file by its complete content, with the build ID in front where it has one, which people know
/// a build by: "build 65be0db3... content 0123...". nullopt when it can't be read. The same bytes at another path
/// give the same.
std::optional<std::string> content_identity(const std::filesystem::path& path);

/// What an ELF file tells the loader.
struct ElfNeeds {
    std::filesystem::path interpreter;   ///< of a program; empty: it is a library, or linked statically
    std::vector<std::string> libraries;  ///< DT_NEEDED
    std::vector<std::filesystem::path> run_path;  ///< DT_RPATH and DT_RUNPATH, with $ORIGIN filled in
};
/// nullopt when it is no ELF file of this kind of machine.
std::optional<ElfNeeds> elf_needs(const std::filesystem::path& path);

/// The directory of the executable or shared library that holds Kiln's code.
std::filesystem::path own_directory();

}  // namespace kiln
