// SPDX-License-Identifier: Apache-2.0
//
// Launches captured by the HIP runtime into a graph.
#pragma once

#include <memory>
#include <vector>

#include "device/driver.h"
#include "device/hip_context.h"

namespace kiln::hip {

/// Throws DeviceError.
void begin_capture(const Context& context, void* stream);
/// nullptr: nothing was launched. modules: of the launches, to be kept. Throws DeviceError.
std::unique_ptr<DeviceGraph> end_capture(std::shared_ptr<const Context> context, void* stream,
                                         std::vector<std::shared_ptr<const Module>> modules);

}  // namespace kiln::hip
