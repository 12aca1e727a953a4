// SPDX-License-Identifier: Apache-2.0
//
// Shared by the parts of Cache: its state, and how an entry is read and displayed.
#pragma once

#include <kiln/cache.h>
#include <kiln/error.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/entry.h"
#include "service/cache_setup.h"

namespace kiln {

struct Cache::State {
    CacheOptions options;
    std::shared_ptr<DiskCache> disk;      ///< always there
    std::unique_ptr<RemoteCache> remote;  ///< nullptr: none
};

/// Of a Cache. Throws UsageError for one that was moved from.
template <class State>
State& state_of(const std::unique_ptr<State>& state) {
    if (!state) throw UsageError("this cache is empty: it was moved from");
    return *state;
}

struct ReadEntry {
    CacheEntry summary;
    Entry entry;
};
/// A sound entry of that digest, read; else nullopt, and `reason` says why.
std::optional<ReadEntry> read_entry(const std::string& digest, const Bytes& bytes, std::string& reason);

/// The one digest that starts so. Throws UsageError: none, several, or no digits of a key.
std::string resolve_key(const DiskCache& disk, std::string_view key,
                        const std::vector<DiskCache::Item>& items);

/// Most recently used first; of two with one time the smaller digest.
std::vector<DiskCache::Item> items_by_use(const DiskCache& disk);

}  // namespace kiln
