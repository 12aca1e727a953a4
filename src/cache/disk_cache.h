// SPDX-License-Identifier: Apache-2.0
//
// DiskCache: BuildKey -> Binary in a directory, one file per entry, shared by any number of processes.
// Nothing here throws: damage is a miss, a directory that can't be used is a problem told once.
#pragma once

#include <kiln/build.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

namespace kiln {

/// Thread-safe, and safe beside other processes on the same directory.
class DiskCache {
  public:
    struct Lookup {
        std::optional<Binary> binary;
        std::string rejected;  ///< why an entry that is there was not used; empty otherwise
    };

    /// Creates the directory (mode 0700) where it is missing. A directory that can't be used leaves
    /// problem() behind, and every later call does nothing.
    explicit DiskCache(std::filesystem::path directory);

    const std::filesystem::path& directory() const { return directory_; }
    /// Why entries can't be stored or read; empty while all is well. A copy: it may change.
    std::string problem() const;

    Lookup find(const BuildKey& key) const;
    /// False when it could not be stored; problem() then says why.
    bool store(const BuildKey& key, const Binary& binary);

    std::filesystem::path entry_path(const BuildKey& key) const;

  private:
    void note_problem(std::string text);

    std::filesystem::path directory_;
    bool usable_ = false;
    mutable std::mutex mutex_;
    std::string problem_;
};

}  // namespace kiln
