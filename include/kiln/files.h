// SPDX-License-Identifier: Apache-2.0
//
// Files that a user names: how Kiln writes and reads them, for programs that write what the library made (a report, a
// binary, a picture) and want the same care.
//
// Output never destroys what it is pointed at. A regular file appears whole or not at all: symbolic links are followed
// to their end, which need not exist yet; the new content is written next to that place, synced and renamed to it; mode
// and owner of an existing file stay. Anything else that is there, a device, a FIFO or a descriptor such as /dev/stdout
// or /dev/fd/3, is written to and stays. Directories, sockets and block devices are errors, as is a file that may not be
// written.
#pragma once

#include <kiln/version.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kiln {
inline namespace KILN_ABI {

/// Where a name for output leads.
struct OutputTarget {
    std::filesystem::path path;  ///< where symbolic links end
    bool is_stream = false;      ///< a device, a FIFO, a descriptor: written to, not replaced, not read back
    bool is_standard_output = false;  ///< /dev/stdout or another name of it
};

/// Nothing is made or changed. Throws UsageError for what can't be written: "can't write PATH: it is a directory".
OutputTarget output_target(const std::filesystem::path& name);

/// The lock of those who read a file and write it again: NAME.lock, where NAME's links end. It is held until what is returned
/// is destroyed, or the process ends; null: another process or thread holds it. On local file systems. Throws UsageError,
/// also where NAME is no regular file.
std::shared_ptr<void> lock_output(const std::filesystem::path& name);

/// Writes the whole of it. Throws UsageError; what was there is then as it was.
void write_output(const std::filesystem::path& name, std::string_view content);
/// Several files that belong together, by name and content: none is there before all are written. Throws the same; only if
/// a file that was written can't get its name, others may have theirs.
void write_outputs(std::span<const std::pair<std::filesystem::path, std::string_view>> files);

/// The whole of a regular file, of /dev/null, or of a pipe or file that this process has open and that is named as a
/// descriptor (/dev/stdin, /dev/fd/3). Anything else, and more than most_bytes, is not read: a FIFO or a device would
/// hold up who reads it. Throws UsageError, also where there is no such file.
std::string read_input(const std::filesystem::path& name, std::uint64_t most_bytes);

/// The rest of standard input. Throws UsageError.
std::string read_standard_input(std::uint64_t most_bytes);

}  // namespace KILN_ABI
}  // namespace kiln
