// SPDX-License-Identifier: Apache-2.0
//
// CacheSetup: the tiers that the options of a cache, together with the environment, ask for.
#pragma once

#include <kiln/cache.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cache/disk_cache.h"
#include "cache/remote_cache.h"
#include "cache/seed_pack.h"

namespace kiln {

struct CacheSetup {
    std::shared_ptr<DiskCache> disk;      ///< nullptr: switched off, or no_directory
    std::vector<SeedPack> seeds;          ///< in the order of look-ups; each has a problem() of its own
    std::size_t named_seeds = 0;          ///< so many of them, the first, the application itself named
    std::unique_ptr<RemoteCache> remote;  ///< nullptr: none asked for
    std::string no_directory;             ///< why there is no disk tier though it was asked for; else empty
};

/// What else may serve a build than its exact key: entries that another compiler made, in all packs and on disk where
/// nothing may be compiled, else in the packs that the application named.
struct OpenLookup {
    BuildKey key;  ///< make_open_key
    bool everywhere = false;
    bool any_includes = false;  ///< where nothing has the same headers of include directories, others serve

    bool in_seed(const CacheSetup& setup, std::size_t index) const {
        return everywhere || index < setup.named_seeds;
    }
};

/// What an option leaves open the environment decides. Throws UsageError for a bad value in the environment,
/// and for a remote's wrong URL or unreadable files; storage that can't be used is a problem() of its tier.
CacheSetup open_cache(const CacheOptions& options);

// Its parts, each of which throws as above.
std::shared_ptr<DiskCache> open_disk(const CacheOptions& options);
std::vector<SeedPack> open_seeds(const CacheOptions& options);
std::unique_ptr<RemoteCache> open_remote(const CacheOptions& options);
/// Whom the options let be believed.
Trust trust_of(const CacheOptions& options);
/// The remote that is meant: the options' own, else the environment's. An empty url: none. Throws UsageError.
RemoteOptions remote_options(const CacheOptions& options);

}  // namespace kiln
