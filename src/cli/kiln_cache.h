// SPDX-License-Identifier: Apache-2.0
//
// What the commands `kiln cache ...` share.
#pragma once

#include <kiln/cache.h>

#include <cstddef>
#include <set>
#include <string>

#include "cli/kiln_command.h"

namespace kiln::cli {

/// The cache directory without a remote: these commands need none, and a wrong remote must not prevent them.
/// Throws CacheError.
Cache open_cache(const KilnOptions& options);

/// How many of these entries (digests) a cache lacks. Reads every entry.
std::size_t count_missing(const Cache& cache, std::set<std::string> keys);
/// "the cache kept 2 of 5 entries: its limit is 300 KiB (KILN_CACHE_LIMIT)"
std::string over_limit_text(const Cache& cache, std::size_t missing, std::size_t all);

/// "3 entries (12.5 KiB) removed"
std::string amount_text(const CacheTransfer& transfer, const std::string& verb);
/// "3 entries (12.5 KiB) sent; 2 were there already". Returns the exit status: a rejected entry makes the answer no.
int report_transfer(const Call& call, const CacheTransfer& transfer, const std::string& verb);

}  // namespace kiln::cli
