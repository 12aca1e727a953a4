// SPDX-License-Identifier: Apache-2.0
//
// What the commands `kiln cache ...` share.
#pragma once

#include <kiln/cache.h>

#include "cli/kiln_command.h"

namespace kiln::cli {

/// The cache directory, with no remote: what is done here needs none, and a wrong one must not stand in the
/// way. Throws CacheError.
Cache open_cache(const KilnOptions& options);

}  // namespace kiln::cli
