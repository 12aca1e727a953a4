// SPDX-License-Identifier: Apache-2.0
//
// Launches captured into a graph by CUDA or HIP, in thread-local mode: other threads may go on using the device.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "device/driver.h"
#include "device/gpu_context.h"

namespace kiln::gpu {

/// The graph as it was captured, which only instantiating needs.
template <class Vendor>
class CapturedGraph {
  public:
    /// Ends the stream's capture. Throws DeviceError.
    CapturedGraph(const typename Vendor::Api& api, StreamHandle stream) : api_(api) {
        if (const Result result = api_.stream_end_capture(stream, &graph_); result != kSuccess)
            api_.fail(result, Call::stream_end_capture,
                      "something else than a launch may have happened during the capture");
    }
    ~CapturedGraph() {
        if (graph_ != nullptr) static_cast<void>(api_.graph_destroy(graph_));
    }
    CapturedGraph(const CapturedGraph&) = delete;
    CapturedGraph& operator=(const CapturedGraph&) = delete;

    GraphHandle handle() const { return graph_; }
    bool is_empty() const {
        std::size_t nodes = 0;
        if (graph_ != nullptr)
            api_.check(api_.graph_get_nodes(graph_, nullptr, &nodes), Call::graph_get_nodes);
        return nodes == 0;
    }

  private:
    using Call = typename Vendor::Api::Call;

    const typename Vendor::Api& api_;
    GraphHandle graph_ = nullptr;
};

/// A graph that is ready to launch. Keeps its modules and ends before they do.
template <class Vendor>
class InstantiatedGraph final : public DeviceGraph {
  public:
    /// Throws DeviceError.
    InstantiatedGraph(std::shared_ptr<const Context<Vendor>> context, const CapturedGraph<Vendor>& captured,
                      std::vector<std::shared_ptr<const Module>> modules)
        : context_(std::move(context)),
          modules_(std::move(modules)),
          graph_(Vendor::instantiate(*context_, captured.handle())) {}
    ~InstantiatedGraph() override {
        if (const auto scope = context_->try_make_current())
            static_cast<void>(context_->api().graph_exec_destroy(graph_));
    }
    InstantiatedGraph(const InstantiatedGraph&) = delete;
    InstantiatedGraph& operator=(const InstantiatedGraph&) = delete;

    void launch(void* stream) override {
        const auto& api = context_->api();
        const auto scope = context_->make_current();
        const Result result = api.graph_launch(graph_, static_cast<StreamHandle>(stream));
        if (result != kSuccess) [[unlikely]]
            api.fail(result, Vendor::Api::Call::graph_launch, "launching a graph " + context_->place());
    }

  private:
    const std::shared_ptr<const Context<Vendor>> context_;
    const std::vector<std::shared_ptr<const Module>> modules_;
    const GraphExecHandle graph_;
};

}  // namespace kiln::gpu
