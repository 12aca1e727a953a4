// SPDX-License-Identifier: Apache-2.0
//
// Files over POSIX calls, so that every error keeps its errno.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <utility>

namespace kiln {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
    throw std::system_error(errno, std::generic_category(), std::string(what) + " " + path.string());
}

template <class Container>
std::optional<Container> read_if_exists(const std::filesystem::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
        if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
        fail("can't open", path);
    }
    struct stat status;
    if (::fstat(file.value(), &status) != 0) fail("can't read", path);
    if (S_ISDIR(status.st_mode)) {
        errno = EISDIR;
        fail("can't read", path);
    }
    // One byte more than there should be, so that the end is found without growing.
    Container content(static_cast<std::size_t>(status.st_size) + 1, {});
    std::size_t filled = 0;
    for (;;) {
        if (filled == content.size()) content.resize(filled + 65536);
        const ssize_t count = ::read(file.value(), content.data() + filled, content.size() - filled);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail("can't read", path);
        if (count == 0) break;
        filled += static_cast<std::size_t>(count);
    }
    content.resize(filled);
    return content;
}

}  // namespace

FileSizeSignalBlock::FileSizeSignalBlock() {
    sigset_t signals, pending;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGXFSZ) == 1;
}

FileSizeSignalBlock::~FileSizeSignalBlock() {
    const int error = errno;
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGXFSZ);
    const timespec at_once{};
    while (!was_pending_ && ::sigtimedwait(&signals, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
    const FileSizeSignalBlock block;
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return true;
}

std::optional<std::string> read_text_if_exists(const std::filesystem::path& path) {
    return read_if_exists<std::string>(path);
}

std::optional<std::vector<std::byte>> read_bytes_if_exists(const std::filesystem::path& path) {
    return read_if_exists<std::vector<std::byte>>(path);
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
    std::string temporary = (path.parent_path() / (".tmp-" + path.filename().string() + "-XXXXXX")).string();
    FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (!file) fail("can't create a file in", path.parent_path());
    try {
        if (!write_all(file.value(), bytes) || ::fsync(file.value()) != 0) fail("can't write", temporary);
        file.reset();
        if (::rename(temporary.c_str(), path.c_str()) != 0) fail("can't rename to", path);
    } catch (...) {
        ::unlink(temporary.c_str());
        throw;
    }
    const FileDescriptor directory(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // The entry is visible and whole already; a directory that can't be synced only risks losing it
    // to a power failure.
    if (directory) (void)::fsync(directory.value());
}

void write_text(const std::filesystem::path& path, std::string_view text) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) fail("can't create", path);
    if (!write_all(file.value(), std::as_bytes(std::span(text)))) fail("can't write", path);
}

TemporaryDirectory::TemporaryDirectory() {
    std::error_code error;
    auto base = std::filesystem::temp_directory_path(error);
    if (error) base = "/tmp";
    std::string name = (base / "kiln-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("can't create a directory in", base);
    path_ = name;
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryDirectory::~TemporaryDirectory() {
    if (path_.empty()) return;
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
}

FileDescriptor::~FileDescriptor() { reset(); }

void FileDescriptor::reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace kiln
