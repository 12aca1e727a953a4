// SPDX-License-Identifier: Apache-2.0
//
// The rules that no author has to write: what every launch needs, and what a device allows.
#pragma once

#include <vector>

#include "template/front_matter.h"

namespace kiln {

/// Rules for the block, the cluster and the shared memory of each kernel. After them every extent and size can be
/// computed without failing and fits its type.
std::vector<Rule> implicit_rules(const FrontMatter& front_matter);

}  // namespace kiln
