// SPDX-License-Identifier: Apache-2.0
//
// Launches replayed from a captured graph, timed.
#pragma once

#include <kiln/device.h>

#include <functional>
#include <vector>

namespace kiln {

/// Captures 20 launches (as many as `iterations`, if those are fewer) and replays them until there were at
/// least `iterations` and three replays. Each time is that of one replay divided by its launches.
std::vector<double> time_graph(const Device& device, const Stream& stream, int iterations,
                               const std::function<void()>& launch);

}  // namespace kiln
