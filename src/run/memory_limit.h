// SPDX-License-Identifier: Apache-2.0
//
// Checks whether a problem fits the available memory, before any is allocated.
#pragma once

#include <kiln/device.h>
#include <kiln/run.h>

#include <set>
#include <string>

namespace kiln {

/// copied: the tensors whose data references read in host memory. Throws UsageError with the needed and the
/// available bytes.
void check_fits(const Device& device, const Problem& problem, const RunOptions& options, bool checking,
                const std::set<std::string>& copied);

}  // namespace kiln
