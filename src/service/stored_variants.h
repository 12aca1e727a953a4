// SPDX-License-Identifier: Apache-2.0
//
// Which variants of a template the packs and the disk have.
#pragma once

#include <kiln/template.h>

#include <vector>

#include "service/cache_setup.h"

namespace kiln {

/// of: bound to its target. Each variant once; those of today's source, for this architecture, or as PTX that its driver
/// can compile. Reads the key of every entry; whether entries are sound, their use will show.
std::vector<Variant> stored_variants(const Template& of, const CacheSetup& setup);

}  // namespace kiln
