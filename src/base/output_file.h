// SPDX-License-Identifier: Apache-2.0
//
// Output goes where a user says, and never destroys what is there. All that a user names for writing is written here.
//
// A regular file appears complete or not at all: symbolic links are followed, and their end need not exist yet; the
// new content is written next to that place, synced, and renamed to it, and the mode and owner of an old file stay.
// Anything else that is there (a device, a FIFO, a descriptor such as /dev/stdout or /dev/fd/3) is written to and stays.
// Directories, sockets and block devices are errors, as is a file that may not be written.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/file.h"

namespace kiln {

/// Where a name leads; nothing is made or changed yet. Throws FileError for what can't be output, "can't write NAME:
/// it is a directory".
class OutputPlace {
  public:
    explicit OutputPlace(std::filesystem::path name);

    /// It is written to and not replaced, nor can it be read back.
    bool is_stream() const { return descriptor_ >= 0 || is_special_; }
    bool is_standard_output() const { return descriptor_ == 1; }
    /// As it was given.
    const std::filesystem::path& name() const { return name_; }
    /// Where links end: what belongs next to the file, a lock for example, belongs next to this.
    const std::filesystem::path& path() const { return path_; }

  private:
    friend class OutputFile;

    void follow();
    void follow_once(std::filesystem::path& rest, bool& ended);
    [[noreturn]] void fail(int error) const;
    [[noreturn]] void fail(int error, const std::string& reason) const;

    std::filesystem::path name_, path_;
    int descriptor_ = -1;      ///< of this process, if the name means one
    bool is_special_ = false;  ///< a device, a FIFO, another process's descriptor
    bool exists_ = false;
    FileDescriptor directory_;  ///< where it lies
    std::string leaf_;          ///< its name in there
};

/// What is written becomes the output by publish(), or is gone with the object.
class OutputFile {
  public:
    /// mode: that of a new file, from which the umask takes. Throws FileError.
    explicit OutputFile(const std::filesystem::path& name, mode_t mode = 0666);
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    void write(std::span<const std::byte> bytes);
    /// What is written from now on replaces the beginning.
    void go_to_start();
    void publish();

  private:
    void copy_to_stream();
    FileDescriptor open_stream() const;
    void take_over_owner();

    OutputPlace place_;
    FileDescriptor file_;    ///< what is written: next to its place, or for streams in memory
    std::string temporary_;  ///< its name, until it is published
};

/// All of it at once.
void write_output_file(const std::filesystem::path& name, std::span<const std::byte> bytes);
void write_output_file(const std::filesystem::path& name, std::string_view text);

}  // namespace kiln
