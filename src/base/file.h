// SPDX-License-Identifier: Apache-2.0
//
// Files: whole reads, atomic writes, temporary directories. Errors are std::system_error with the
// path in the message.
#pragma once

#include <signal.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

/// The whole file, or nullopt when there is none of that name. Throws std::system_error otherwise.
std::optional<std::string> read_text_if_exists(const std::filesystem::path& path);
std::optional<std::vector<std::byte>> read_bytes_if_exists(const std::filesystem::path& path);

/// As long as it lives, a write of this thread beyond RLIMIT_FSIZE fails with EFBIG and does not end the
/// process, as the signal SIGXFSZ would.
class FileSizeSignalBlock {
  public:
    FileSizeSignalBlock();
    FileSizeSignalBlock(const FileSizeSignalBlock&) = delete;
    FileSizeSignalBlock& operator=(const FileSizeSignalBlock&) = delete;
    ~FileSizeSignalBlock();  ///< leaves errno alone

  private:
    sigset_t before_;
    bool was_pending_;
};

/// Writes all of it, however often it takes. False with errno set when that fails (never by a signal: see
/// above).
bool write_all(int fd, std::span<const std::byte> bytes);

/// Writes a new file that readers see whole or not at all: a temporary file beside it (mode 0600),
/// fsync, rename, fsync of the directory. Nothing stays behind on failure.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Writes a plain file. For private places that nobody else reads.
void write_text(const std::filesystem::path& path, std::string_view text);

/// A private directory (mode 0700) below the system's temporary directory; removed with its content
/// by the destructor. Move-only.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    TemporaryDirectory(TemporaryDirectory&& other) noexcept;
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    ~TemporaryDirectory();

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

/// A file descriptor that is closed by the destructor. Move-only.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int fd) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept;
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    ~FileDescriptor();

    int value() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    void reset();
    /// Gives the descriptor up without closing it.
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_ = -1;
};

}  // namespace kiln
