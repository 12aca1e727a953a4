// SPDX-License-Identifier: Apache-2.0
//
// FileLock: an exclusive lock between processes (and between threads of one), on a file of its own. The
// kernel drops it when its holder dies, however it dies.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"

namespace kiln {

/// Move-only. For local file systems: the file is unlinked on release, and a new holder checks that its file
/// is still the one of that name.
///
/// A lock belongs to the process that got it. In a forked child its copy does nothing when it is destroyed,
/// and the parent's release is a release though the child still has the file open. Only when the parent dies
/// without one does the lock last until such children end or exec.
class FileLock {
  public:
    /// Creates the file (mode 0600, or 0660 when shared) where it is missing, and tries once. nullopt when it
    /// is held. Throws std::system_error when the file can't be made or is no regular file of this user's or
    /// root's (symbolic links are not followed). Shared, its directory decides whose files are good.
    static std::optional<FileLock> try_acquire(const std::filesystem::path& path,
                                               bool shared_with_group = false);

    /// The lock of those who write `file`, whose name is that file's with ".lock" behind it. nullopt when it is held so
    /// long. Throws also where a file of that name holds anything: it is no lock, and would be unlinked.
    static std::optional<FileLock> acquire_for(const std::filesystem::path& file,
                                               std::chrono::milliseconds patience);
    /// Its name, for messages.
    static std::filesystem::path place_for(const std::filesystem::path& file);

    FileLock(FileLock&&) noexcept = default;
    FileLock& operator=(FileLock&&) noexcept;
    /// Unlinks the file and releases.
    ~FileLock();

    /// The open file, for what the holder leaves there for those who wait.
    int descriptor() const { return file_.value(); }

  private:
    FileLock(FileDescriptor file, std::filesystem::path path);
    static std::optional<FileLock> try_acquire(const std::filesystem::path& path, bool shared_with_group,
                                               bool must_be_empty);
    void release();

    FileDescriptor file_;
    std::filesystem::path path_;
    pid_t process_;  ///< that got it
};

}  // namespace kiln
