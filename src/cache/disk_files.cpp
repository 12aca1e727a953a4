// SPDX-License-Identifier: Apache-2.0
//
// openat with O_NOFOLLOW at every level, and fstat of the open file, so that the file that is checked is the
// one that is used.
#include "cache/disk_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/words.h"

namespace kiln {
namespace {

constexpr mode_t kSharedMode = 02770;

mode_t new_mode(Trust trust) { return trust.group ? 0770 : 0700; }

// The message for an error of open(). A name that is a link gives ELOOP, or ENOTDIR where a directory is
// asked for.
Opened refused(int error, int parent, const char* name) {
    Opened result;
    struct stat status;
    if (has_vanished(error)) return result;
    result.error = error;
    if ((error == ELOOP || error == ENOTDIR) && ::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(status.st_mode))
        result.refusal = "it is a symbolic link";
    else if (error == ENOTDIR)
        result.refusal = "it is not a directory";
    else if (error == ENXIO)
        result.refusal = "it is not a regular file";
    else
        result.refusal = std::strerror(error);
    return result;
}

// Opens a file, and rejects it for its type or owner.
Opened checked(int fd, Trust trust) {
    Opened result;
    result.descriptor = FileDescriptor(fd);
    if (::fstat(fd, &result.status) != 0) {
        if (!has_vanished(errno)) result.refusal = std::strerror(errno);
    } else {
        result.refusal = distrust(result.status, trust);
        if (result.refusal.empty()) return result;
    }
    result.descriptor.reset();
    return result;
}

Opened open_directory_with(int flags, int parent, const char* name, Trust trust) {
    const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    return fd >= 0 ? checked(fd, trust) : refused(errno, parent, name);
}

// Like mkdirat(), but this user's permissions do not depend on the umask.
bool make_usable(int parent, const char* name, Trust trust) {
    if (::mkdirat(parent, name, new_mode(trust)) != 0) return errno == EEXIST;
    struct stat status;
    if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode) &&
        (status.st_mode & S_IRWXU) != S_IRWXU)
        return ::fchmodat(parent, name, new_mode(trust), 0) == 0;
    return true;
}

// The umask may have cleared the group's bits, or the process that created the directory died before this.
Opened shared_as_asked(Opened opened, Trust trust) {
    if (opened && trust.group && opened.status.st_uid == ::geteuid() &&
        (opened.status.st_mode & 07777) != kSharedMode)
        (void)::fchmod(opened.fd(), kSharedMode);
    return opened;
}

}  // namespace

bool has_vanished(int error) { return error == ENOENT || error == ESTALE; }

Opened open_root(const std::filesystem::path& path, Trust trust) {
    return open_directory_with(0, AT_FDCWD, path.c_str(), trust);
}

Opened make_root(const std::filesystem::path& path, Trust trust) {
    Opened opened = open_root(path, trust);
    if (opened || !opened.refusal.empty()) return opened;
    std::filesystem::path built;
    for (const auto& part : path) {
        built /= part;
        struct stat status;
        if (part.empty() || ::stat(built.c_str(), &status) == 0) continue;
        if (!make_usable(AT_FDCWD, built.c_str(), trust)) {
            opened.refusal = built.string() + " can't be made: " + std::strerror(errno);
            return opened;
        }
    }
    opened = shared_as_asked(open_root(path, trust), trust);
    if (!opened && opened.refusal.empty()) opened.refusal = std::strerror(ENOENT);
    return opened;
}

Opened open_directory(int parent, const std::string& name, Trust trust) {
    return open_directory_with(O_NOFOLLOW, parent, name.c_str(), trust);
}

Opened make_directory(int parent, const std::string& name, Trust trust) {
    Opened opened = open_directory(parent, name, trust);
    if (!opened && opened.refusal.empty()) {
        if (!make_usable(parent, name.c_str(), trust)) {
            if (!has_vanished(errno)) opened.refusal = std::strerror(errno);
            return opened;
        }
        opened = open_directory(parent, name, trust);
    }
    return shared_as_asked(std::move(opened), trust);
}

Opened open_file(int directory, const std::string& name, Trust trust, std::uint64_t max_bytes) {
    // O_NONBLOCK: opening a FIFO would wait for a writer.
    const int fd = ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return refused(errno, directory, name.c_str());
    Opened opened = checked(fd, trust);
    if (!opened) return opened;
    if (!S_ISREG(opened.status.st_mode))
        opened.refusal = "it is not a regular file";
    else if (static_cast<std::uint64_t>(opened.status.st_size) > max_bytes)
        opened.refusal = "it has " + bytes_text(static_cast<std::uint64_t>(opened.status.st_size)) +
                         ", and at most " + bytes_text(max_bytes) + " are read";
    if (!opened.refusal.empty()) opened.descriptor.reset();
    return opened;
}

Opened unless_short(Opened opened) {
    if (opened.error == EMFILE || opened.error == ENFILE || opened.error == ENOMEM)
        throw std::system_error(opened.error, std::generic_category());
    return opened;
}

std::optional<Bytes> read_all(const Opened& file) {
    const auto size = static_cast<std::size_t>(file.status.st_size);
    // Not a vector, which would write zeros first.
    const std::shared_ptr<std::byte[]> memory(new std::byte[size]);
    std::size_t filled = 0;
    while (filled < size) {
        const ssize_t count =
            ::pread(file.fd(), memory.get() + filled, size - filled, static_cast<off_t>(filled));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return std::nullopt;
        if (count == 0) break;
        filled += static_cast<std::size_t>(count);
    }
    return Bytes(memory, {memory.get(), filled});
}

std::vector<std::string> names_in(int directory) {
    const auto fail = [] {
        throw std::system_error(errno, std::generic_category(), "a directory can't be listed");
    };
    std::vector<std::string> names;
    // A separate descriptor, since the position is part of a descriptor.
    FileDescriptor own(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!own && has_vanished(errno)) return names;
    if (!own) fail();
    struct Close {
        void operator()(DIR* stream) const { ::closedir(stream); }
    };
    const std::unique_ptr<DIR, Close> stream(::fdopendir(own.value()));
    if (!stream) fail();
    own.release();
    for (;;) {
        errno = 0;
        const dirent* const item = ::readdir(stream.get());
        if (item == nullptr && errno != 0 && !has_vanished(errno)) fail();
        if (item == nullptr) return names;
        const std::string_view name = item->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
}

}  // namespace kiln
