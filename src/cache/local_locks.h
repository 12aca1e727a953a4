// SPDX-License-Identifier: Apache-2.0
//
// LocalLocks: the locks of a cache directory. They are on this machine (/dev/shm/kiln-<user id>, else
// /tmp/kiln-<user id>; of a shared cache kiln-g<group id>), not next to the entries, which may be on NFS.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "cache/trust.h"

namespace kiln {

/// Thread-safe. Does not throw: without a trusted directory there are no locks.
class LocalLocks {
  public:
    /// cache: the directory whose locks these are; two spellings of one directory have the same locks. For
    /// locks shared with its group it should already exist. places: possible parents of the directory of the
    /// locks; the first usable one is taken. $TMPDIR and $XDG_RUNTIME_DIR are not used, since they differ
    /// between a user's sessions.
    LocalLocks(const std::filesystem::path& cache, Trust trust,
               const std::vector<std::filesystem::path>& places = {"/dev/shm", "/tmp"});

    /// Why there are no locks at the moment; empty when there are.
    std::string problem() const;
    /// Their location, for messages.
    std::filesystem::path directory() const { return directory_; }

    /// Tries once to take the lock of that name (letters, digits, dots). nullopt when it is held, or when there
    /// are no locks (problem() then says why). The first call also removes what killed holders left in the
    /// directory more than a day ago.
    std::optional<FileLock> try_acquire(const std::string& name);

    /// The file of a lock.
    std::filesystem::path file(const std::string& name) const;

  private:
    void note_problem(std::string text);
    std::string make_directory() const;
    void sweep() const;

    Trust trust_;
    gid_t group_;  ///< of the cache directory
    std::filesystem::path directory_;
    std::string prefix_;  ///< of names: a digest of the cache directory
    std::atomic<bool> swept_{false};
    mutable std::mutex mutex_;
    std::string problem_;
};

}  // namespace kiln
