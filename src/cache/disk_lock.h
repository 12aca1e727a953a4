// SPDX-License-Identifier: Apache-2.0
//
// DiskLock: the right to change the state of a cache directory. The lock is on the directory v1 itself, so
// that all processes of this machine share it, in any container.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "base/file.h"

namespace kiln {

/// Move-only. The kernel drops it when its holder dies. In a forked child its copy does nothing when it is
/// destroyed.
class DiskLock {
  public:
    /// version: the open directory v1. Tries until the limit has passed. nullopt when another process holds
    /// it all the time, or when the file system has no locks.
    static std::optional<DiskLock> acquire(int version, std::chrono::milliseconds limit);

    DiskLock(DiskLock&&) noexcept = default;
    DiskLock& operator=(DiskLock&&) = delete;
    ~DiskLock();

  private:
    explicit DiskLock(FileDescriptor directory);

    FileDescriptor directory_;  // opened only for the lock, which belongs to the open file description
    pid_t process_;             ///< that got it
};

}  // namespace kiln
