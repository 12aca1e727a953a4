// SPDX-License-Identifier: Apache-2.0
//
// Tiers: the disk, the seed packs and the remote as one cache, with everything counted and traced. What the
// remote has is written to the disk as well.
#pragma once

#include <kiln/build.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "service/cache_setup.h"
#include "service/service_events.h"

namespace kiln {

/// Thread-safe. Nothing throws: what is wrong with a tier is told once, and the others go on.
class Tiers {
  public:
    Tiers(CacheSetup setup, ServiceEvents& events);

    struct Wanted {
        const BuildKey& key;       ///< exact, unless there is no compiler to complete it; then that of `open`
        std::string_view variant;  ///< for traces
        const Bytes* refused =
            nullptr;         ///< a binary that the driver did not take: who has just that has nothing
        bool again = false;  ///< not the first look: what is rejected was counted and told
        const OpenLookup* open = nullptr;  ///< what else may serve
        bool has_compiler = true;
    };
    struct Hit {
        Binary binary;
        Origin origin = Origin::disk;
        BuildKey key;  ///< of the entry where it is another than the one that was looked for; else empty
    };
    std::optional<Hit> find(const Wanted& wanted);
    /// After find() and where wanted.open has any_includes: what was made with other headers of include directories.
    std::optional<Hit> find_with_any_includes(const Wanted& wanted);
    std::optional<Hit> find_on_disk(const Wanted& wanted);
    std::optional<Hit> find_remotely(const Wanted& wanted);

    /// To the disk and the remote. True when others on this machine will find it.
    bool store(const Wanted& wanted, const Binary& binary);

    /// The locks of the disk; nullptr when nothing could be handed over by it.
    LocalLocks* locks();
    /// nullptr when it has no leases to give.
    RemoteCache* leases() const;

    /// What events_ counted, and the remote for itself.
    Counters counters() const;
    /// Adds what was counted since the last time to the counters of the directory.
    void flush();

    const CacheSetup& setup() const { return setup_; }

  private:
    std::optional<Hit> find_open_in_seed(const Wanted& wanted, std::size_t seed, Includes includes);
    std::optional<Hit> find_open_on_disk(const Wanted& wanted, Includes includes);
    std::optional<Hit> accept(const Wanted& wanted, Lookup lookup, Origin origin, double elapsed_ms);
    bool store_on_disk(const Wanted& wanted, const Bytes& entry);
    void tell_of(Origin tier, const std::string& problem, const std::string& consequence);

    CacheSetup setup_;
    ServiceEvents& events_;
};

}  // namespace kiln
