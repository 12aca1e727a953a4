// SPDX-License-Identifier: Apache-2.0
//
// Which variants of a template the packs and the disk have.
#pragma once

#include <kiln/template.h>

#include <string>
#include <vector>

#include "service/cache_setup.h"

namespace kiln {

/// Architectures whose code serves this target where it has none of its own, the best first: PTX of this and older CUDA
/// architectures, lower levels of x86-64.
std::vector<std::string> serving_archs(const Target& target);

/// of: bound to its target. debug: ServiceOptions::debug. Each variant once; those of today's source, for this architecture, or as PTX that its driver
/// can compile. Reads the key of every entry; whether entries are sound, their use will show.
std::vector<Variant> stored_variants(const Template& of, const CacheSetup& setup, bool debug);

}  // namespace kiln
