// SPDX-License-Identifier: Apache-2.0
//
// Files over POSIX calls, so that every error keeps its errno.
#include "base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/file_name.h"
#include "base/words.h"

namespace kiln {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
    throw FileError(errno, what, path);
}

[[noreturn]] void fail_to_read(const std::filesystem::path& path, const std::string& reason) {
    throw FileError(EINVAL, "can't read", path, reason);
}

std::string limit_text(std::uint64_t most_bytes) { return "at most " + bytes_text(most_bytes); }

/// Only what can be read to an end is opened.
void check_kind(const std::filesystem::path& path, const struct stat& status, bool may_be_pipe,
                std::uint64_t most_bytes) {
    const bool is_pipe = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode);
    if (S_ISREG(status.st_mode) || is_null_device(status) || (may_be_pipe && is_pipe)) return;
    fail_to_read(path, "it is " + kind_text(status) + "; what is read here is a regular file of " +
                           limit_text(most_bytes));
}

template <class Container>
Container read_to_end(int fd, const std::filesystem::path& path, std::uint64_t size, std::uint64_t most_bytes,
                      bool from_start = false) {
    const auto too_large = [&] {
        fail_to_read(path, "it is larger than what is read here, a file of " + limit_text(most_bytes));
    };
    if (size > most_bytes) too_large();
    // One byte more than there should be, so that the end is found without growing.
    Container content(static_cast<std::size_t>(size) + 1, {});
    std::size_t filled = 0;
    for (;;) {
        if (filled == content.size()) content.resize(filled + std::max<std::size_t>(65536, filled / 2));
        char* const place = reinterpret_cast<char*>(content.data()) + filled;
        const ssize_t count = from_start
                                  ? ::pread(fd, place, content.size() - filled, static_cast<off_t>(filled))
                                  : ::read(fd, place, content.size() - filled);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {
            pollfd readable{fd, POLLIN, 0};
            (void)::poll(&readable, 1, -1);
            continue;
        }
        if (count < 0) fail("can't read", path);
        if (count == 0) break;
        filled += static_cast<std::size_t>(count);
        if (filled > most_bytes) too_large();
    }
    content.resize(filled);
    return content;
}

std::uint64_t size_of(const struct stat& status) {
    return S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
}

template <class Container>
std::optional<Container> read_if_exists(const std::filesystem::path& path, std::uint64_t most_bytes) {
    struct stat status;
    if (const auto descriptor = named_descriptor(path)) {
        if (::fstat(*descriptor, &status) != 0) fail("can't read", path);
        check_kind(path, status, true, most_bytes);
        // A file that is open may be read by this name again and again, wherever its position is.
        return read_to_end<Container>(*descriptor, path, size_of(status), most_bytes,
                                      S_ISREG(status.st_mode));
    }
    // Looked at before it is opened: opening alone does something to many devices.
    if (::stat(path.c_str(), &status) == 0) check_kind(path, status, false, most_bytes);
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) {
        if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
        fail("can't open", path);
    }
    if (::fstat(file.value(), &status) != 0) fail("can't read", path);
    check_kind(path, status, false, most_bytes);
    return read_to_end<Container>(file.value(), path, size_of(status), most_bytes);
}

}  // namespace

WriteSignalBlock::WriteSignalBlock() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGXFSZ);
    ::sigaddset(&signals, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    ::sigpending(&were_pending_);
}

WriteSignalBlock::~WriteSignalBlock() {
    const int error = errno;
    const timespec at_once{};
    sigset_t caused;
    ::sigemptyset(&caused);
    for (const int signal : {SIGXFSZ, SIGPIPE})
        if (::sigismember(&were_pending_, signal) != 1) ::sigaddset(&caused, signal);
    for (;;)
        if (::sigtimedwait(&caused, nullptr, &at_once) < 0 && errno != EINTR) break;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
    const WriteSignalBlock block;
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {
            pollfd writable{fd, POLLOUT, 0};
            (void)::poll(&writable, 1, -1);
            continue;
        }
        if (count < 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return true;
}

std::optional<std::string> read_text_if_exists(const std::filesystem::path& path, std::uint64_t most_bytes) {
    return read_if_exists<std::string>(path, most_bytes);
}

std::optional<std::vector<std::byte>> read_bytes_if_exists(const std::filesystem::path& path,
                                                           std::uint64_t most_bytes) {
    return read_if_exists<std::vector<std::byte>>(path, most_bytes);
}

std::string read_descriptor_text(int fd, const std::string& name, std::uint64_t most_bytes) {
    struct stat status;
    if (::fstat(fd, &status) != 0) fail("can't read", name);
    return read_to_end<std::string>(fd, name, size_of(status), most_bytes);
}

void write_text(const std::filesystem::path& path, std::string_view text) {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) fail("can't create", path);
    if (!write_all(file.value(), std::as_bytes(std::span(text)))) fail("can't write", path);
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
