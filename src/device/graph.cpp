// SPDX-License-Identifier: Apache-2.0
//
// Graph: the public handle of captured launches.
#include <kiln/device.h>
#include <kiln/error.h>

#include <string>
#include <utility>

#include "device/capture.h"
#include "device/driver.h"

namespace kiln {

Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;
Graph::~Graph() = default;

Graph Graph::capture(const Stream& stream, const std::function<void()>& record) {
    if (!stream.driver())
        throw UsageError(
            "Launches can't be captured on a stream that was default-constructed or moved from.");
    if (Capture::current() != nullptr)
        throw UsageError(
            "A capture can't begin within another in the same thread; capture one after the other.");
    Graph graph;
    graph.driver_ = stream.driver();
    Capture capture;
    graph.driver_->begin_capture(stream.handle());
    try {
        record();
    } catch (...) {
        try {
            static_cast<void>(graph.driver_->end_capture(stream.handle(), capture));
        } catch (const DeviceError&) {
            // What stopped the capture is told instead.
        }
        throw;
    }
    graph.launches_ = graph.driver_->end_capture(stream.handle(), capture);
    return graph;
}

void Graph::launch(StreamRef stream) const {
    if (!launches_)
        throw UsageError(
            "This graph has no launches: it was default-constructed, moved from, or nothing was "
            "launched on the stream while it was captured.");
    if (const char* const problem = stream_problem(stream, *driver_))
        throw UsageError(std::string("A graph can't be launched: the stream ") + problem + ".");
    if (Capture::current() != nullptr)
        throw UsageError("A graph can't be launched while launches are captured into another.");
    launches_->launch(stream.handle());
}

}  // namespace kiln
