// SPDX-License-Identifier: Apache-2.0
//
// Graphs on a CUDA device: what is captured does not run, replays do, and the kernels stay loaded.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/kiln.h>

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "box_kernel.h"
#include "device/cuda_api.h"
#include "gpu_service.h"

namespace kiln {
namespace {

using test::kScale;
using test::ScaleFn;
using testing::Each;
using testing::ElementsAre;

class GraphOnGpu : public test::GpuService {
  protected:
    Kernel<ScaleFn> scale(int factor) {
        return service_->build<ScaleFn>(test::scale_variant(*service_, factor));
    }
    Buffer buffer(const std::vector<float>& values) {
        Buffer result = service_->device().allocate(values.size() * 4);
        result.copy_from(std::as_bytes(std::span(values)));
        return result;
    }
    static std::vector<float> values(const Buffer& buffer) {
        std::vector<float> result(buffer.size_bytes() / 4);
        buffer.copy_to(std::as_writable_bytes(std::span(result)));
        return result;
    }
};

TEST_F(GraphOnGpu, ReplaysWhatWasCaptured) {
    const auto triple = scale(3), fivefold = scale(5);
    Buffer a = buffer({1, 2, 3, 4}), b = buffer({0, 0, 0, 0});
    const Stream stream = service_->device().stream(), beside = service_->device().stream();
    const Graph graph = Graph::capture(stream, [&] {
        int n = 3;
        triple(stream, n, a.as<float>(), b.as<float>());
        n = 4;
        fivefold(stream, n, b.as<float>(), a.as<float>());
    });
    EXPECT_THAT(values(b), Each(0));
    graph.launch(stream);
    EXPECT_THAT(values(b), ElementsAre(3, 6, 9, 0));
    EXPECT_THAT(values(a), ElementsAre(15, 30, 45, 0));
    graph.launch(beside);
    EXPECT_THAT(values(a), ElementsAre(225, 450, 675, 0));
    // From a thread in which no context is current.
    std::thread([&] { graph.launch(stream); }).join();
    EXPECT_THAT(values(a), ElementsAre(3375, 6750, 10125, 0));
}

TEST_F(GraphOnGpu, KeepsItsKernels) {
    const Device device = service_->device();
    const Stream stream = device.stream();
    Buffer x = buffer(std::vector<float>(40, 2));
    Graph graph;
    {
        const auto kernel = scale(7);
        graph = Graph::capture(stream, [&] { kernel(stream, 40, x.as<float>(), x.as<float>()); });
    }
    service_.reset();
    const Graph moved(std::move(graph));
    moved.launch(stream);
    EXPECT_THAT(values(x), Each(14));
    EXPECT_THROW(graph.launch(stream), UsageError);
}

TEST_F(GraphOnGpu, KeepsTensorMaps) {
    if (service_->target().arch != "sm_90a") GTEST_SKIP() << "the kernel is for sm_90a";
    const auto kernel = service_->build<test::BoxesFn>(service_->parse(test::kBoxes, "boxes.cu").variant());
    Buffer x = buffer(std::vector<float>(256, 1)), z = buffer(std::vector<float>(256, 2));
    Buffer y = buffer(std::vector<float>(256));
    const Stream stream = service_->device().stream();
    const Graph graph = Graph::capture(stream, [&] { kernel(stream, 8, 32, x.as<float>(), y.as<float>()); });
    kernel(stream, 8, 32, z.as<float>(), y.as<float>());
    EXPECT_THAT(values(y), Each(2));
    graph.launch(stream);
    EXPECT_THAT(values(y), Each(1));
}

TEST_F(GraphOnGpu, ACaptureThatFailsHasEnded) {
    const auto kernel = scale(2);
    const Stream stream = service_->device().stream();
    Buffer x = buffer({1});
    const auto launch = [&] { kernel(stream, 1, x.as<float>(), x.as<float>()); };
    EXPECT_THROW(Graph::capture(stream,
                                [&] {
                                    launch();
                                    throw std::runtime_error("enough");
                                }),
                 std::runtime_error);
    EXPECT_THROW(Graph::capture(stream, [&] { x.fill(0); }), UsageError);
    // Past Kiln's own checks: the driver gives the capture up, and says so when it ends.
    EXPECT_THROW(
        Graph::capture(stream,
                       [&] {
                           launch();
                           cuda::api()->stream_synchronize(static_cast<cuda::StreamHandle>(stream.handle()));
                       }),
        DeviceError);
    EXPECT_THAT(values(x), ElementsAre(1));
    launch();
    EXPECT_THAT(values(x), ElementsAre(2));
    Graph::capture(stream, launch).launch(stream);
    EXPECT_THAT(values(x), ElementsAre(4));
}

TEST_F(GraphOnGpu, AnEmptyOneIsRejected) {
    const Stream stream = service_->device().stream();
    EXPECT_THROW(Graph::capture(stream, [] {}).launch(stream), UsageError);
    const Stream elsewhere = Device::open(Backend::host).stream();
    const auto kernel = scale(2);
    Buffer x = buffer({1});
    const Graph graph = Graph::capture(stream, [&] { kernel(stream, 1, x.as<float>(), x.as<float>()); });
    EXPECT_THROW(graph.launch(elsewhere), UsageError);
}

}  // namespace
}  // namespace kiln
