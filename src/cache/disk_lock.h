// SPDX-License-Identifier: Apache-2.0
//
// DiskLock: who may change the state of a cache directory. It is on the directory v1 itself, so that all who
// reach that directory on this machine have one lock, whatever container they live in.
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
    /// version: the open directory v1. Tried until the limit has passed. nullopt when somebody else holds it
    /// all the time, or when the file system has no locks.
    static std::optional<DiskLock> acquire(int version, std::chrono::milliseconds limit);

    DiskLock(DiskLock&&) noexcept = default;
    DiskLock& operator=(DiskLock&&) = delete;
    ~DiskLock();

  private:
    explicit DiskLock(FileDescriptor directory);

    FileDescriptor directory_;  // opened for the lock alone: it belongs to the open directory
    pid_t process_;             ///< that got it
};

}  // namespace kiln
