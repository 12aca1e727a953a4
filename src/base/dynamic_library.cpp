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

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/elf.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/parallel.h"
#include "format/format.h"

namespace kiln {
namespace {

ElfRead reader_of(int fd) {
    return [fd](void* to, std::size_t bytes, std::uint64_t offset) {
        return ::pread(fd, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
    };
}

std::optional<ElfHeaders> elf_headers(int fd) {
    struct stat status;
    if (fd < 0 || ::fstat(fd, &status) != 0) return std::nullopt;
    return read_elf_headers(static_cast<std::uint64_t>(status.st_size), reader_of(fd));
}

// The GNU build ID as hexadecimal digits; empty when there is none.
std::string build_id(int fd, const ElfHeaders& headers) {
    for (const ElfSection& section : headers.sections) {
        if (section.type != SHT_NOTE || section.size > 65536) continue;
        std::vector<std::byte> bytes(section.size);
        if (!reader_of(fd)(bytes.data(), bytes.size(), section.offset)) continue;
        for (const ElfNote& note : elf_notes(bytes))
            if (note.type == NT_GNU_BUILD_ID && note.name == "GNU") return hex_text(note.description);
    }
    return {};
}

constexpr std::int64_t kPiece = std::int64_t{8} << 20;  // of a file that several threads read
constexpr std::int64_t kToItsEnd = std::numeric_limits<std::int64_t>::max();

/// Empty where it can't be read. A file that has become shorter ends where it ends.
std::string checksum_of_part(int file, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kAtOnce = std::int64_t{1} << 20;
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kAtOnce);
    ChecksumStream stream;
    while (begin < end) {
        const ssize_t count =
            ::pread(file, buffer.get(), static_cast<std::size_t>(std::min(kAtOnce, end - begin)), begin);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return {};
        if (count == 0) break;
        stream.add({buffer.get(), static_cast<std::size_t>(count)});
        begin += count;
    }
    return stream.hex();
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
    if (handle_ == nullptr || keep_) return;
    const ForkDelay while_it_ends;
    ::dlclose(handle_);
}

DynamicLibrary DynamicLibrary::open(const std::vector<std::string>& names, std::string* error) {
    DynamicLibrary library;
    const ForkDelay while_it_begins;
    for (const auto& name : names) {
        library.handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library.handle_ != nullptr) break;
        const char* words = ::dlerror();
        if (error != nullptr && words != nullptr) *error += (error->empty() ? "" : "; ") + std::string(words);
    }
    return library;
}

DynamicLibrary DynamicLibrary::open_forever(const std::string& name, const std::string& purpose,
                                            const std::string& package, std::string& problem) {
    std::string error;
    DynamicLibrary library = open({name}, &error);
    library.keep_forever();
    if (!library) {
        const bool is_missing = error.find("No such file") != std::string::npos;
        problem = formatted("{}, {}, was not found{}; on Debian and Ubuntu: apt-get install {}", name,
                            purpose, is_missing ? "" : " (" + error + ")", package);
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
    const auto headers = file ? elf_headers(file.value()) : std::nullopt;
    if (!headers || ::fstat(file.value(), &status) != 0) return std::nullopt;
    const std::string build = build_id(file.value(), *headers);
    return formatted("build {} size {} sections {}", build.empty() ? "none" : build, status.st_size,
                     digest_hex(headers->section_table).substr(0, 16));
}

std::optional<std::string> content_identity(const std::filesystem::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status;
    if (!file || ::fstat(file.value(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    // As many as it has now; the last one goes on to the file's end.
    const std::int64_t pieces = std::max<std::int64_t>((status.st_size + kPiece - 1) / kPiece, 1);
    std::vector<std::string> checksums(static_cast<std::size_t>(pieces));
    parallel_for(pieces, 1, [&](std::int64_t piece, std::int64_t) {
        const std::int64_t end = piece + 1 < pieces ? (piece + 1) * kPiece : kToItsEnd;
        checksums[static_cast<std::size_t>(piece)] = checksum_of_part(file.value(), piece * kPiece, end);
    });
    std::string all;
    for (const std::string& one : checksums) {
        if (one.empty()) return std::nullopt;
        all += one;
    }
    const auto headers = elf_headers(file.value());
    const std::string build = headers ? build_id(file.value(), *headers) : std::string();
    return (build.empty() ? "" : "build " + build + " ") + "content " + checksum_hex(all);
}

std::optional<ElfNeeds> elf_needs(const std::filesystem::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const auto headers = file ? elf_headers(file.value()) : std::nullopt;
    if (!headers) return std::nullopt;
    constexpr std::uint64_t kMostBytes = 1 << 20;
    const auto part = [&](std::uint64_t offset, std::uint64_t size) {
        std::string bytes(static_cast<std::size_t>(std::min(size, kMostBytes)), '\0');
        const ssize_t count = ::pread(file.value(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        return bytes;
    };
    ElfNeeds needs;
    std::string dynamic;
    for (const ElfSegment& segment : headers->segments) {
        if (segment.type == PT_INTERP) needs.interpreter = part(segment.offset, segment.file_bytes).c_str();
        if (segment.type == PT_DYNAMIC) dynamic = part(segment.offset, segment.file_bytes);
    }
    std::vector<Elf64_Dyn> entries(dynamic.size() / sizeof(Elf64_Dyn));
    if (!entries.empty()) std::memcpy(entries.data(), dynamic.data(), entries.size() * sizeof(Elf64_Dyn));
    std::string strings;
    for (const auto& entry : entries) {
        if (entry.d_tag != DT_STRTAB) continue;
        for (const ElfSegment& segment : headers->segments) {
            if (segment.type == PT_LOAD && entry.d_un.d_ptr >= segment.address &&
                entry.d_un.d_ptr - segment.address < segment.file_bytes)
                strings = part(entry.d_un.d_ptr - segment.address + segment.offset, kMostBytes);
        }
    }
    const auto text = [&](std::uint64_t at) {
        return at < strings.size() ? std::string(strings.c_str() + at) : std::string();
    };
    std::error_code error;
    const std::string origin = std::filesystem::canonical(path, error).parent_path().string();
    for (const auto& entry : entries) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_NEEDED) needs.libraries.push_back(text(entry.d_un.d_val));
        if (entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH) continue;
        std::string paths = text(entry.d_un.d_val);
        for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
            for (std::size_t at = 0; (at = paths.find(word, at)) != std::string::npos; at += origin.size())
                paths.replace(at, word.size(), origin);
        }
        for (std::size_t begin = 0; begin <= paths.size();) {
            const std::size_t end = std::min(paths.find(':', begin), paths.size());
            if (end > begin) needs.run_path.emplace_back(paths.substr(begin, end - begin));
            begin = end + 1;
        }
    }
    return needs;
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
