// SPDX-License-Identifier: Apache-2.0
//
// RemoteCache: entries and leases on a Redis server that a fleet shares. Every exchange has a time limit;
// after a failure the server is not used for some time; an entry is used only after its checksum (and, with a
// key, its signature) was verified.
#pragma once

#include <kiln/build.h>
#include <kiln/cache.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cache/lookup.h"

namespace kiln {

/// Thread-safe, and usable in a child of fork(), which opens connections of its own. find, store and
/// try_lease never throw, and each takes RemoteOptions::timeout at most; during the pause after a failure (30
/// s, doubled after each further one, at most 5 minutes) they return at once. One thread finds out whether a
/// new server answers; the others wait for that.
class RemoteCache {
  public:
    /// Larger entries are neither stored nor fetched.
    static constexpr std::size_t kLargestEntry = std::size_t{64} << 20;

    /// Opens no connection yet. Throws UsageError for a wrong URL, or a password, key or certificate file
    /// that can't be read (never with its content).
    explicit RemoteCache(const RemoteOptions& options);
    ~RemoteCache();

    /// "redis://cache.example:6379/0": without user or password.
    const std::string& place() const;
    bool read_only() const;
    /// Why it is not used at the moment, or does not accept entries; empty: it works, or was not called yet.
    std::string problem() const;
    /// Calls that failed or ran out of time.
    std::uint64_t failures() const;

    Lookup find(const BuildKey& key);
    /// An encoded entry. False when it was not stored: read-only, failed, or too large (64 MiB).
    bool store(const std::string& digest, const Bytes& entry);

    /// The right to compile a key, among machines. It expires after 5 s unless its holder renews it, which a
    /// Lease does on its own thread. A lost lease is not reported: another machine may then compile the same.
    /// The destructor releases it: one round trip, at most one time-out.
    class Lease {
      public:
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;
        ~Lease();

      private:
        friend class RemoteCache;
        struct Held;
        explicit Lease(std::unique_ptr<Held> held);
        std::unique_ptr<Held> held_;
    };
    enum class Right {
        mine,        ///< compile; the others wait
        theirs,      ///< another machine has it
        unavailable  ///< the server can't tell: compile
    };
    struct Answer {
        Right right = Right::unavailable;
        std::unique_ptr<Lease> lease;  ///< when mine; its destructor releases it
    };
    /// Tries once. A read-only remote has no leases.
    Answer try_lease(const std::string& digest);

    // For operators. These throw CacheError, and call the server even during a pause.
    /// Round-trip time. Throws when it does not answer.
    std::chrono::microseconds ping();
    /// "7.0.15"
    std::string server_version();
    /// Calls `each` with every digest there is, in no order, until it returns false or a stop is requested: a
    /// server may hold many keys that are not Kiln's, for which `each` is not called.
    void for_each(const std::function<bool(const std::string& digest)>& each, std::stop_token stop = {});
    bool contains(const std::string& digest);
    /// The entry of that digest, checked; empty with a reason when it is missing or damaged.
    Bytes fetch(const std::string& digest, std::string& reason);
    void put(const std::string& digest, const Bytes& entry);

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace kiln
