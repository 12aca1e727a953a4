// SPDX-License-Identifier: Apache-2.0
//
// Whether a problem fits the memory there is, before any of it is taken.
#pragma once

#include <kiln/device.h>
#include <kiln/run.h>

#include <set>
#include <string>

namespace kiln {

/// copied: the tensors whose data references read in host memory. Throws UsageError naming what is needed and
/// what there is.
void check_fits(const Device& device, const Problem& problem, const RunOptions& options, bool checking,
                const std::set<std::string>& copied);

}  // namespace kiln
