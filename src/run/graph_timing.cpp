// SPDX-License-Identifier: Apache-2.0
//
// One replay first, untimed: a driver uploads a graph when it is launched for the first time.
#include "run/graph_timing.h"

#include <kiln/timing.h>

#include <algorithm>

namespace kiln {

std::vector<double> time_graph(const Device& device, const Stream& stream, int iterations,
                               const std::function<void()>& launch) {
    const int launches = std::clamp(iterations, 1, 20);
    const Graph graph = Graph::capture(stream, [&] {
        for (int i = 0; i < launches; ++i) launch();
    });
    const int replays = std::max(3, (iterations + launches - 1) / launches);
    std::vector<double> times_ms =
        time_launches(device, stream, 1, replays, [&] { graph.launch(stream); }, {});
    for (double& time_ms : times_ms) time_ms /= launches;
    return times_ms;
}

}  // namespace kiln
