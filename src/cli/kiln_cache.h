// SPDX-License-Identifier: Apache-2.0
//
// What the commands `kiln cache ...` share.
#pragma once

#include <kiln/cache.h>

#include "cli/kiln_command.h"

namespace kiln::cli {

/// Throws CacheError; UsageError with --no-cache.
Cache open_cache(const Call& call);

}  // namespace kiln::cli
