// SPDX-License-Identifier: Apache-2.0
//
// From what a binary uses to how many of its blocks fit.
#pragma once

#include <kiln/occupancy.h>
#include <kiln/template.h>
#include <kiln/tools/resources.h>

#include <optional>

namespace kiln {

/// nullopt where the binary's registers are not known.
std::optional<BlockNeeds> block_needs(const Variant& variant, const Resources& resources,
                                      const Target& target);
/// nullopt too for an architecture whose multiprocessors are not known here.
std::optional<Occupancy> occupancy_of(const Variant& variant, const Resources& resources,
                                      const Target& target);

}  // namespace kiln
