// SPDX-License-Identifier: Apache-2.0
//
// Files: whole reads, private files, temporary directories. Errors are FileError, with the path in the message.
// What a user names for writing is written by base/output_file.h.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

/// More than this is read of no file, unless another limit is given.
constexpr std::uint64_t kMostBytesOfAFile = std::uint64_t{1} << 30;

/// The whole file, or nullopt when there is none of that name. A regular file, a pipe or regular file that the caller
/// has open and names as a descriptor (/dev/stdin, /dev/fd/3), or /dev/null. Anything else, a FIFO or /dev/zero for
/// example, is not opened, so that nothing waits for a writer or never ends: it throws FileError, as does a file of
/// more than most_bytes.
std::optional<std::string> read_text_if_exists(const std::filesystem::path& path,
                                               std::uint64_t most_bytes = kMostBytesOfAFile);
std::optional<std::vector<std::byte>> read_bytes_if_exists(const std::filesystem::path& path,
                                                           std::uint64_t most_bytes = kMostBytesOfAFile);
/// What is left to read of an open one, whatever it is. name: for messages. Throws FileError.
std::string read_descriptor_text(int fd, const std::string& name,
                                 std::uint64_t most_bytes = kMostBytesOfAFile);

/// As long as it lives, a write of this thread beyond RLIMIT_FSIZE fails with EFBIG and one to a pipe that nobody reads
/// with EPIPE, and neither ends the process, as the signals SIGXFSZ and SIGPIPE would.
class WriteSignalBlock {
  public:
    WriteSignalBlock();
    WriteSignalBlock(const WriteSignalBlock&) = delete;
    WriteSignalBlock& operator=(const WriteSignalBlock&) = delete;
    ~WriteSignalBlock();  ///< leaves errno alone

  private:
    sigset_t before_;
    sigset_t were_pending_;
};

/// Writes all of it, however often it takes. False with errno set when that fails (never by a signal: see
/// above).
bool write_all(int fd, std::span<const std::byte> bytes);

/// Writes a plain file. For private places that nobody else reads.
void write_text(const std::filesystem::path& path, std::string_view text);

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

/// A private directory (mode 0700) below the system's temporary directory; removed with its content by the
/// destructor. Where a process was killed before that, a later one of the same user removes it: the constructor
/// looks for such directories, and takes away a few at a time. Move-only.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    TemporaryDirectory(TemporaryDirectory&& other) noexcept;
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    ~TemporaryDirectory();

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    FileDescriptor lock_;
};

}  // namespace kiln
