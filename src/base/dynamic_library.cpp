// SPDX-License-Identifier: Apache-2.0
//
// dlopen with an owner, and ELF identities read from the headers of a file.
#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

#include "base/digest.h"
#include "base/file.h"

namespace kiln {
namespace {

bool read_at(int fd, void* destination, std::size_t bytes, std::uint64_t offset) {
    return ::pread(fd, destination, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

// The GNU build ID among the notes of one section, as hexadecimal digits; empty when it is not there.
std::string build_id(const std::string& notes) {
    std::size_t position = 0;
    while (position + sizeof(Elf64_Nhdr) <= notes.size()) {
        Elf64_Nhdr note;
        std::memcpy(&note, notes.data() + position, sizeof(note));
        const std::size_t name = position + sizeof(note);
        const std::size_t description = name + (std::size_t{note.n_namesz} + 3) / 4 * 4;
        const std::size_t next = description + (std::size_t{note.n_descsz} + 3) / 4 * 4;
        if (next > notes.size() || next <= position) break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            std::memcmp(notes.data() + name, "GNU", 4) == 0) {
            std::string hex;
            for (std::size_t i = 0; i < note.n_descsz; ++i) {
                char digits[3];
                std::snprintf(digits, sizeof(digits), "%02x",
                              static_cast<unsigned char>(notes[description + i]));
                hex += digits;
            }
            return hex;
        }
        position = next;
    }
    return {};
}

}  // namespace

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), keep_(other.keep_) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(keep_, other.keep_);
    return *this;
}

DynamicLibrary::~DynamicLibrary() {
    if (handle_ != nullptr && !keep_) ::dlclose(handle_);
}

DynamicLibrary DynamicLibrary::open(const std::vector<std::string>& names, std::string* error) {
    DynamicLibrary library;
    for (const auto& name : names) {
        library.handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library.handle_ != nullptr) break;
        const char* words = ::dlerror();
        if (error != nullptr && words != nullptr) *error += (error->empty() ? "" : "; ") + std::string(words);
    }
    return library;
}

void* DynamicLibrary::symbol(const char* name) const {
    return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

std::filesystem::path DynamicLibrary::path() const {
    link_map* map = nullptr;
    if (handle_ == nullptr || ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0) return {};
    return map->l_name;
}

std::optional<std::string> elf_identity(const std::filesystem::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status;
    Elf64_Ehdr header;
    if (!file || ::fstat(file.value(), &status) != 0 || !read_at(file.value(), &header, sizeof(header), 0) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shentsize != sizeof(Elf64_Shdr)) {
        return std::nullopt;
    }
    std::string sections(std::size_t{header.e_shnum} * sizeof(Elf64_Shdr), '\0');
    if (!read_at(file.value(), sections.data(), sections.size(), header.e_shoff)) return std::nullopt;

    std::string id;
    for (std::size_t i = 0; i < header.e_shnum && id.empty(); ++i) {
        Elf64_Shdr section;
        std::memcpy(&section, sections.data() + i * sizeof(section), sizeof(section));
        if (section.sh_type != SHT_NOTE || section.sh_size > 65536) continue;
        std::string notes(section.sh_size, '\0');
        if (read_at(file.value(), notes.data(), notes.size(), section.sh_offset)) id = build_id(notes);
    }
    return "build " + (id.empty() ? "none" : id) + " size " + std::to_string(status.st_size) + " sections " +
           digest_hex(sections).substr(0, 16);
}

std::filesystem::path own_directory() {
    Dl_info info;
    if (::dladdr(reinterpret_cast<void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) return {};
    std::error_code error;
    // For code in the executable itself the loader gives argv[0], which may be relative to a
    // directory that is no longer the current one.
    std::filesystem::path file = info.dli_fname;
    if (link_map* main_map = nullptr; ::dladdr1(reinterpret_cast<void*>(&own_directory), &info,
                                                reinterpret_cast<void**>(&main_map), RTLD_DL_LINKMAP) != 0 &&
                                      main_map != nullptr && main_map->l_name[0] == '\0') {
        file = "/proc/self/exe";
    }
    const auto resolved = std::filesystem::canonical(file, error);
    return error ? file.parent_path() : resolved.parent_path();
}

}  // namespace kiln
