// SPDX-License-Identifier: Apache-2.0
//
// What the commands `kiln cache ...` share.
#pragma once

#include <kiln/cache.h>

#include "cli/kiln_command.h"

namespace kiln::cli {

/// The cache directory without a remote: these commands need none, and a wrong remote must not prevent them.
/// Throws CacheError.
Cache open_cache(const KilnOptions& options);

/// "3 entries (12.5 KiB) removed"
std::string amount_text(const CacheTransfer& transfer, const std::string& verb);
/// "3 entries (12.5 KiB) sent; 2 were there already". Returns the exit status: a rejected entry makes the answer no.
int report_transfer(const Call& call, const CacheTransfer& transfer, const std::string& verb);

}  // namespace kiln::cli
