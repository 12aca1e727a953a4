// SPDX-License-Identifier: Apache-2.0
//
// Options first, the environment for what they leave open, and the defaults last.
#include "service/cache_setup.h"

#include <utility>

#include "base/config.h"
#include "service/absolute_paths.h"

namespace kiln {

Trust trust_of(const CacheOptions& options) {
    return {options.share_with_group ? *options.share_with_group : config::cache_share_with_group()};
}

std::shared_ptr<DiskCache> open_disk(const CacheOptions& options) {
    DiskOptions disk;
    const auto directory = options.directory ? options.directory : config::cache_directory();
    const auto limit = options.limit_bytes ? options.limit_bytes : config::cache_limit_bytes();
    if (!directory) return nullptr;
    disk.directory = *directory;
    if (limit) disk.limit_bytes = *limit;
    disk.trust = trust_of(options);
    return std::make_shared<DiskCache>(std::move(disk));
}

std::vector<SeedPack> open_seeds(const CacheOptions& options) {
    const Trust trust = trust_of(options);
    auto files = options.seed_packs;
    for (auto& file : config::seed_packs()) files.push_back(std::move(file));
    std::vector<SeedPack> packs;
    for (auto& file : files) packs.emplace_back(std::move(file), trust);
    return packs;
}

RemoteOptions remote_options(const CacheOptions& options) {
    if (options.remote) return *options.remote;
    RemoteOptions remote;
    remote.url = config::remote_url().value_or("");
    // The others mean nothing without it, and so can't be wrong.
    if (remote.url.empty()) return remote;
    remote.password_file = config::remote_password_file().value_or("");
    remote.ca_file = config::remote_ca_file().value_or("");
    remote.signature_key_file = config::remote_key_file().value_or("");
    remote.read_only = config::remote_read_only();
    if (const auto limit = config::remote_timeout_ms()) remote.timeout = std::chrono::milliseconds(*limit);
    return remote;
}

std::unique_ptr<RemoteCache> open_remote(const CacheOptions& options) {
    auto remote = remote_options(options);
    remote.ca_file = absolute_path(remote.ca_file);  // is read at the first connection
    return remote.url.empty() ? nullptr : std::make_unique<RemoteCache>(std::move(remote));
}

CacheSetup open_cache(const CacheOptions& options) {
    CacheSetup setup;
    if (!options.enabled) return setup;
    setup.disk = open_disk(options);
    if (!setup.disk)
        setup.no_directory =
            "nothing is kept on disk: none of KILN_CACHE_DIR, XDG_CACHE_HOME and HOME is set";
    setup.seeds = open_seeds(options);
    setup.named_seeds = options.seed_packs.size();
    setup.remote = open_remote(options);
    return setup;
}

}  // namespace kiln
