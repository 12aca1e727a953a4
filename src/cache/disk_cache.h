// SPDX-License-Identifier: Apache-2.0
//
// DiskCache: BuildKey -> Binary in a directory, one file per entry, shared by any number of processes, within
// a byte limit. Look-ups and stores do not throw: damage is a miss, and problem() reports a directory that
// can't be used.
#pragma once

#include <kiln/build.h>
#include <kiln/cache.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cache/disk_files.h"
#include "cache/disk_scan.h"
#include "cache/key_text.h"
#include "cache/local_locks.h"
#include "cache/lookup.h"
#include "cache/trust.h"

namespace kiln {

struct DiskOptions {
    std::filesystem::path directory;
    std::uint64_t limit_bytes = std::uint64_t{1} << 30;
    Trust trust = {};
};

/// Thread-safe, and safe with other processes on the same directory. Keeps no file open between calls, so
/// that a directory that is removed or replaced in between is noticed.
class DiskCache {
  public:
    /// Creates the directory (mode 0700; 2770 when shared) if it is missing. problem() reports a directory
    /// that can't be used or trusted.
    explicit DiskCache(DiskOptions options);

    const std::filesystem::path& directory() const { return options_.directory; }
    std::uint64_t limit_bytes() const { return options_.limit_bytes; }
    /// Why entries can't be stored or read; empty: there is no problem. A copy, since it may change.
    std::string problem() const;
    /// False while look-ups and stores can't work: the directory can't be read, trusted or created. Checked
    /// again at each call in that state.
    bool readable() const;
    LocalLocks& locks() { return locks_; }

    /// Marks the entry as used now.
    Lookup find(const BuildKey& key) const;
    /// The same without marking, for listings and explanations.
    Lookup peek(const BuildKey& key) const;
    /// The most recently used entry of this open key (make_open_key), of any compiler. Reads the key of every
    /// entry.
    Lookup find_of_any_compiler(const BuildKey& open_key, Includes includes, bool mark) const;

    struct Stored {
        bool stored = false;  ///< else problem() or `reason` says why
        std::uint64_t pruned_entries = 0;
        std::uint64_t pruned_bytes = 0;
        std::string reason;
    };
    /// An encoded entry. The bytes of all entries stay within the limit: the least recently used are removed
    /// first. An entry above the limit is not stored.
    Stored store(const std::string& digest, const Bytes& entry);

    /// Adds to the directory's counters, which all processes share. Counts that can't be added are lost. Does
    /// not create a cache directory that has been removed.
    void add(const Counters& counters);

    /// The identities of compilers, and what is remembered of include directories (compile/identity_memory.h), stored
    /// next to the entries; empty when there is nothing, or nothing that is trusted. Does not throw; what can't be
    /// written is lost.
    enum class Memory { identities, includes };
    std::string read_memory(Memory which) const;
    void write_memory(Memory which, const std::string& text);

    // For operators. These throw CacheError.
    struct Item {
        std::string digest;
        std::filesystem::path file;
        std::uint64_t bytes = 0;
        std::chrono::system_clock::time_point last_used;
    };
    /// In no order; from names and sizes only.
    std::vector<Item> items() const;
    /// The complete file if it is a valid entry of that digest; else empty, and `reason` says why.
    Bytes read(const std::string& digest, std::string& reason) const;
    /// The key text of an entry, without reading or checking the rest; nullopt when it can't be read.
    std::optional<std::string> key_text(const std::string& digest) const;
    CacheUsage usage() const;
    CacheVerification verify(bool remove);
    CacheTransfer prune(std::uint64_t limit_bytes);
    CacheTransfer clear();

    std::filesystem::path entry_path(const std::string& digest) const;

  private:
    static constexpr const char* kVersion = "v1";

    enum class Make { nothing, version, all };
    /// The directory v1. Notes whether the cache can be read.
    Opened open_version(Make make) const;
    /// The same for operators: throws CacheError when it can't be used; not open when there is none.
    Opened version_for_operator() const;
    /// Calls work(v1, whether the lock is held) with the lock, or without it after a time limit; its errors
    /// become CacheError.
    void change(const std::function<void(int version, bool locked)>& work);
    /// The file of an entry. A rejection names what was rejected.
    Opened open_entry(const std::string& digest) const;
    bool probe() const;
    const std::filesystem::path& made_directory() const;
    void note_reading(std::string problem) const;
    void note_storing(std::string problem) const;

    Lookup look_up(const BuildKey& key, bool mark) const;
    Stored try_store(const std::string& digest, const Bytes& entry);
    Evicted make_room(int version, const std::string& digest, std::uint64_t bytes, bool locked) const;

    DiskOptions options_;
    mutable std::mutex mutex_;
    mutable std::string reading_problem_;
    mutable std::string storing_problem_;
    mutable std::atomic<bool> usable_{false};
    std::atomic<bool> swept_{false};
    LocalLocks locks_;  // last, since it needs the directory
};

}  // namespace kiln
