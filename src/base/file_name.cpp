// SPDX-License-Identifier: Apache-2.0
//
// Names of descriptors are known by their text alone: opening such a name again would give another position in the
// file, and fails for sockets.
#include "base/file_name.h"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <utility>

namespace kiln {
namespace {

constexpr unsigned kNullMajor = 1, kNullMinor = 3;

std::string system_text(int error) { return std::generic_category().message(error); }

std::optional<int> number(std::string_view text) {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
    return value;
}

/// Whose folder in /proc it is: "self", "thread-self", or the number of this process there.
bool is_this_process(std::string_view name) {
    if (name == "self" || name == "thread-self") return true;
    char own[32];
    const ssize_t length = ::readlink("/proc/self", own, sizeof own);
    return length > 0 && name == std::string_view(own, static_cast<std::size_t>(length));
}

}  // namespace

FileError::FileError(int error, const std::string& what, const std::filesystem::path& path)
    : FileError(error, what, path, system_text(error)) {}

FileError::FileError(int error, const std::string& what, const std::filesystem::path& path,
                     std::string reason)
    : std::system_error(error, std::generic_category()),
      reason_(std::move(reason)),
      text_(what + " " + path.string() + ": " + reason_) {}

std::string kind_text(const struct stat& status) {
    switch (status.st_mode & S_IFMT) {
        case S_IFDIR:
            return "a directory";
        case S_IFIFO:
            return "a FIFO";
        case S_IFCHR:
            return "a device";
        case S_IFBLK:
            return "a block device";
        case S_IFSOCK:
            return "a socket";
        case S_IFLNK:
            return "a symbolic link";
        default:
            return "a regular file";
    }
}

bool is_null_device(const struct stat& status) {
    return S_ISCHR(status.st_mode) && major(status.st_rdev) == kNullMajor &&
           minor(status.st_rdev) == kNullMinor;
}

std::optional<int> named_descriptor(const std::filesystem::path& path) {
    const std::string normal = path.lexically_normal().string();
    const std::string_view name = normal;
    if (name == "/dev/stdin") return STDIN_FILENO;
    if (name == "/dev/stdout") return STDOUT_FILENO;
    if (name == "/dev/stderr") return STDERR_FILENO;
    constexpr std::string_view kDevice = "/dev/fd/", kProcess = "/proc/", kFolder = "/fd/";
    if (name.starts_with(kDevice)) return number(name.substr(kDevice.size()));
    if (!name.starts_with(kProcess)) return std::nullopt;
    const std::size_t at = name.rfind(kFolder);
    if (at == std::string_view::npos || at < kProcess.size()) return std::nullopt;
    std::string_view owner = name.substr(kProcess.size(), at - kProcess.size());
    // Threads share their descriptors: /proc/PID/task/TID/fd/N.
    if (const std::size_t task = owner.find("/task/"); task != std::string_view::npos)
        owner = owner.substr(0, task);
    if (!is_this_process(owner)) return std::nullopt;
    return number(name.substr(at + kFolder.size()));
}

}  // namespace kiln
