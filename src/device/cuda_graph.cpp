// SPDX-License-Identifier: Apache-2.0
//
// Capturing in thread-local mode: other threads may go on using the device.
#include "device/cuda_graph.h"

#include <kiln/error.h>

#include <utility>

namespace kiln::cuda {
namespace {

// The graph as it was captured, which only instantiating needs.
class CapturedGraph {
  public:
    CapturedGraph(const Api& api, StreamHandle stream) : api_(api) {
        if (const Result result = api_.stream_end_capture(stream, &graph_); result != kSuccess)
            api_.fail(result, "cuStreamEndCapture",
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
        if (graph_ != nullptr) api_.check(api_.graph_get_nodes(graph_, nullptr, &nodes), "cuGraphGetNodes");
        return nodes == 0;
    }

  private:
    const Api& api_;
    GraphHandle graph_ = nullptr;
};

class CudaGraph final : public DeviceGraph {
  public:
    CudaGraph(std::shared_ptr<const Context> context, GraphHandle captured,
              std::vector<std::shared_ptr<const Module>> modules);
    // Ends before its modules do.
    ~CudaGraph() override {
        if (context_->try_make_current()) static_cast<void>(context_->api().graph_exec_destroy(graph_));
    }
    CudaGraph(const CudaGraph&) = delete;
    CudaGraph& operator=(const CudaGraph&) = delete;

    void launch(void* stream) override {
        const Api& api = context_->api();
        context_->make_current();
        const Result result = api.graph_launch(graph_, static_cast<StreamHandle>(stream));
        if (result != kSuccess) [[unlikely]]
            api.fail(result, "cuGraphLaunch", "launching a graph " + context_->place());
    }

  private:
    const std::shared_ptr<const Context> context_;
    const std::vector<std::shared_ptr<const Module>> modules_;
    GraphExecHandle graph_ = nullptr;
};

CudaGraph::CudaGraph(std::shared_ptr<const Context> context, GraphHandle captured,
                     std::vector<std::shared_ptr<const Module>> modules)
    : context_(std::move(context)), modules_(std::move(modules)) {
    const Api& api = context_->api();
    if (api.graph_instantiate == nullptr) {
        throw DeviceError(
            "a graph needs a driver of CUDA 11.4 or newer; " + context_->info().name + " has " + api.version,
            "cuGraphInstantiateWithFlags");
    }
    api.check(api.graph_instantiate(&graph_, captured, 0), "cuGraphInstantiateWithFlags");
}

}  // namespace

void begin_capture(const Context& context, void* stream) {
    context.make_current();
    const Api& api = context.api();
    api.check(api.stream_begin_capture(static_cast<StreamHandle>(stream), kCaptureThreadLocal),
              "cuStreamBeginCapture");
}

std::unique_ptr<DeviceGraph> end_capture(std::shared_ptr<const Context> context, void* stream,
                                         std::vector<std::shared_ptr<const Module>> modules) {
    context->make_current();
    const CapturedGraph captured(context->api(), static_cast<StreamHandle>(stream));
    if (captured.is_empty()) return nullptr;
    return std::make_unique<CudaGraph>(std::move(context), captured.handle(), std::move(modules));
}

}  // namespace kiln::cuda
