// SPDX-License-Identifier: Apache-2.0
//
// What a given name may refer to other than a regular file: a descriptor of this process (/dev/stdout, /dev/fd/3),
// a device, a FIFO, a socket, a directory. And the error of files, which says which of them it was.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace kiln {

/// A file that can't be read or written. what() is "can't read PATH: REASON"; code() is the system's where it gave one.
class FileError : public std::system_error {
  public:
    /// what: "can't read". The reason is the system's.
    FileError(int error, const std::string& what, const std::filesystem::path& path);
    FileError(int error, const std::string& what, const std::filesystem::path& path, std::string reason);

    const char* what() const noexcept override { return text_.c_str(); }
    const std::string& reason() const { return reason_; }

  private:
    std::string reason_, text_;
};

/// "a directory", "a FIFO", "a device", "a block device", "a socket", "a regular file".
std::string kind_text(const struct stat& status);

/// /dev/null, which as a file is an empty one.
bool is_null_device(const struct stat& status);

/// The descriptor of this process that a name means by itself: /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N, and N
/// in the `fd` folder of this process in /proc.
std::optional<int> named_descriptor(const std::filesystem::path& path);

}  // namespace kiln
