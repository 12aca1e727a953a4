// SPDX-License-Identifier: Apache-2.0
//
// From the resources that a binary uses to its occupancy.
#pragma once

#include <kiln/occupancy.h>
#include <kiln/template.h>
#include <kiln/tools/resources.h>

#include <optional>

namespace kiln {

/// nullopt when the binary's registers are not known.
std::optional<BlockNeeds> block_needs(const Variant& variant, const Resources& resources,
                                      const Target& target);
/// nullopt also for an unknown architecture.
std::optional<Occupancy> occupancy_of(const Variant& variant, const Resources& resources,
                                      const Target& target);

}  // namespace kiln
