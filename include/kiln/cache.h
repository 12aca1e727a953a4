// SPDX-License-Identifier: Apache-2.0
//
// The cache: how it is set up (CacheOptions, part of ServiceOptions), and how an operator sees it (Cache:
// list, verify, prune, pack, exchange with the remote). Applications that only build need neither.
#pragma once

#include <kiln/build.h>
#include <kiln/trace.h>
#include <kiln/version.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// A Redis server that a fleet shares entries through. Passwords and keys are never part of a message.
struct RemoteOptions {
    /// redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE], with rediss:// for TLS.
    std::string url;
    std::filesystem::path password_file;  ///< its first line; instead of a password in the URL
    std::filesystem::path ca_file;        ///< TLS: certificates to trust (PEM); empty: the system's
    /// Its content (16 bytes or more) signs what is stored (HMAC-SHA-256); entries without a right signature
    /// are rejected.
    std::filesystem::path signature_key_file;
    bool read_only = false;  ///< entries are fetched and never stored
    /// Of one exchange, connecting included.
    std::chrono::milliseconds timeout{500};
};

/// Where entries are looked up and stored. Part of ServiceOptions, and what Cache is made of.
struct CacheOptions {
    /// Not set: KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln.
    std::optional<std::filesystem::path> directory;
    /// False: no tier but memory is read or written; every process compiles.
    bool enabled = true;
    /// Bytes of all entries on disk; the least recently used go first. Not set: KILN_CACHE_LIMIT, else 1 GiB.
    std::optional<std::uint64_t> limit_bytes;
    /// Let members of the directory's group share it: whoever can write to it can make the others run
    /// their code. Not set: KILN_CACHE_SHARE=group, else no.
    std::optional<bool> share_with_group;
    /// Read-only packs (made by `kiln cache pack`), looked into after the directory, in this order; then
    /// those of KILN_SEED_PACKS. An entry of the packs named here serves whichever compiler made it, and none need be
    /// on this machine, nor headers of include directories; one of KILN_SEED_PACKS serves its exact key (but see
    /// ServiceOptions::cached_only).
    std::vector<std::filesystem::path> seed_packs;
    /// Not set: KILN_REMOTE and the other KILN_REMOTE_* variables. An empty url: none.
    std::optional<RemoteOptions> remote;
    /// How long to wait for another process or machine that compiles the same, before compiling here.
    std::chrono::milliseconds wait_limit{120000};
};

/// What is known of one entry without running it.
struct CacheEntry {
    std::string key;                      ///< the digest
    std::string variant;                  ///< "gemm_tiled BM=64 BN=64 ...", read out of the source
    std::string kernel;                   ///< the kernel's name
    Backend backend = Backend::host;      ///< that can load it
    std::string arch;                     ///< that it was compiled for: "sm_90a"
    BinaryKind kind = BinaryKind::cubin;  ///< what its bytes are
    std::string compiler;                 ///< that made it, for people
    double compile_ms = 0;                ///< what compiling it took
    std::uint64_t bytes = 0;              ///< of the whole entry
    std::optional<std::chrono::system_clock::time_point> last_used;  ///< not known in a pack
};

/// Everything of one entry.
struct CacheEntryDetails {
    CacheEntry summary;  ///< what a list shows of it
    BuildKey key;        ///< with all ingredients
    std::string log;     ///< the compiler's
    std::string place;   ///< the file
};

/// How full a cache is.
struct CacheUsage {
    std::uint64_t entries = 0;      ///< on disk
    std::uint64_t bytes = 0;        ///< of all of them
    std::uint64_t limit_bytes = 0;  ///< CacheOptions::limit_bytes
    Counters counters;              ///< of all processes since the cache was cleared
};

/// A file of the cache that is damaged, or that does not belong there.
struct CacheDamage {
    std::filesystem::path file;  ///< which
    std::string reason;          ///< what is wrong with it
};
/// What Cache::verify() found.
struct CacheVerification {
    std::uint64_t sound = 0;           ///< entries without damage
    std::vector<CacheDamage> damaged;  ///< and what has no business there
};

/// How many entries went, came or were there already.
struct CacheTransfer {
    std::uint64_t entries = 0;         ///< that were moved
    std::uint64_t bytes = 0;           ///< of them
    std::uint64_t already_there = 0;   ///< entries that were not moved, since they were there
    std::vector<std::string> refused;  ///< why some were not taken
};

/// Called as work goes on: how much of how much; total is 0 while it is not known.
using CacheProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// The cache as an operator sees it. Thread-safe, and safe with any number of processes that use it.
/// Every call throws CacheError, with the file or server and the reason, where the cache can't do it, and UsageError for
/// one that was moved from.
class Cache {
  public:
    /// Throws CacheError when there is no directory or it can't be used; UsageError for a wrong remote.
    explicit Cache(CacheOptions options = {});
    ~Cache();
    Cache(Cache&&) noexcept;
    Cache& operator=(Cache&&) noexcept;

    /// Of the tier on disk.
    const std::filesystem::path& directory() const;
    /// Most recently used first. Damaged entries are left out.
    std::vector<CacheEntry> entries() const;
    /// key: the digest, or enough of its first digits, four at least. Throws UsageError: none, or several.
    CacheEntryDetails entry(std::string_view key) const;
    /// How full it is, and what was counted.
    CacheUsage usage() const;

    /// Reads everything; with `remove`, damaged files go.
    CacheVerification verify(bool remove = false);
    /// Down to limit_bytes; temporary files of dead writers go too. Returns what went.
    CacheTransfer prune(std::uint64_t limit_bytes);
    /// All entries and counters. Returns what went.
    CacheTransfer clear();

    /// Writes a seed pack of these entries (digests or their first digits; empty: all), the last used first. Nothing
    /// half written stays. Throws UsageError for an unknown key.
    CacheTransfer pack(const std::filesystem::path& file, const std::vector<std::string>& keys = {}) const;
    /// Stores a pack's entries here, each after a check. What comes in pushes nothing out: it ends where the
    /// cache is full, and `refused` says so.
    CacheTransfer unpack(const std::filesystem::path& file);
    /// To and from the remote, each entry after a check; the most recently used are sent first. A full cache
    /// ends a pull as it does unpack(). Throws CacheError without a remote, or when it fails; what was
    /// exchanged by then stays, as after a stop request.
    CacheTransfer push(const CacheProgress& progress = {}, std::stop_token stop = {});
    /// From the remote: see push().
    CacheTransfer pull(const CacheProgress& progress = {}, std::stop_token stop = {});

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// What a pack holds. Throws CacheError when the file is no sound pack.
std::vector<CacheEntry> list_pack(const std::filesystem::path& file);

}  // namespace KILN_ABI
}  // namespace kiln
