// SPDX-License-Identifier: Apache-2.0
//
// Streams that the application made: launches, captures that the application began, waits between its streams and
// Kiln's, asynchronous copies and fills.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/kiln.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "box_kernel.h"
#include "device/cuda_api.h"
#include "gpu_service.h"

namespace kiln {
namespace {

using testing::Each;
using testing::ElementsAre;

class StreamRefOnGpu : public test::GpuService {
  protected:
    void SetUp() override {
        GpuService::SetUp();
        if (!service_) return;
        static_cast<void>(service_->device());
        api_ = cuda::api();
        api_->check(api_->stream_create(&native_, 0),
                    "cuStreamCreate");  // a blocking one, as cudaStreamCreate's
    }
    void TearDown() override {
        if (native_ != nullptr) api_->check(api_->stream_destroy(native_), "cuStreamDestroy");
    }
    void wait_for_native() const { api_->check(api_->stream_synchronize(native_), "cuStreamSynchronize"); }
    Kernel<test::ScaleFn> scale(int factor) {
        return service_->build<test::ScaleFn>(test::scale_variant(*service_, factor));
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
    /// Replays what `record` queues on the application's stream while the application captures it.
    template <class Record>
    void capture_and_replay(int replays, Record record) {
        cuda::GraphHandle graph = nullptr;
        cuda::GraphExecHandle ready = nullptr;
        api_->check(api_->stream_begin_capture(native_, cuda::kCaptureThreadLocal), "cuStreamBeginCapture");
        record();
        api_->check(api_->stream_end_capture(native_, &graph), "cuStreamEndCapture");
        api_->check(api_->graph_instantiate(&ready, graph, 0), "cuGraphInstantiate");
        for (int i = 0; i < replays; ++i) api_->check(api_->graph_launch(ready, native_), "cuGraphLaunch");
        wait_for_native();
        api_->check(api_->graph_exec_destroy(ready), "cuGraphExecDestroy");
        api_->check(api_->graph_destroy(graph), "cuGraphDestroy");
    }

    const cuda::Api* api_ = nullptr;
    cuda::StreamHandle native_ = nullptr;
};

TEST_F(StreamRefOnGpu, LaunchesOnTheApplicationsStreams) {
    const auto triple = scale(3);
    Buffer x = buffer({1, 2, 3});
    const auto launch = [&](StreamRef stream) { triple(stream, 3, x.as<float>(), x.as<float>()); };
    launch(StreamRef(native_));
    EXPECT_THAT(values(x), ElementsAre(3, 6, 9));
    launch(StreamRef::legacy_default());
    launch(StreamRef::per_thread_default());
    EXPECT_THAT(values(x), ElementsAre(27, 54, 81));
    std::thread([&] { launch(StreamRef(native_)); }).join();  // no context is current there
    EXPECT_THAT(values(x), ElementsAre(81, 162, 243));
}

TEST_F(StreamRefOnGpu, IsCapturedByTheApplication) {
    const auto triple = scale(3);
    Buffer x = buffer({1, 2, 3});
    capture_and_replay(2, [&] {
        triple(StreamRef(native_), 3, x.as<float>(), x.as<float>());
        triple(StreamRef(native_), 2, x.as<float>(), x.as<float>());
    });
    EXPECT_THAT(values(x), ElementsAre(81, 162, 27));
}

TEST_F(StreamRefOnGpu, TensorMapsAreCapturedByTheApplication) {
    if (service_->target().arch != "sm_90a") GTEST_SKIP() << "the kernel is for sm_90a";
    const auto kernel = service_->build<test::BoxesFn>(service_->parse(test::kBoxes, "boxes.cu").variant());
    Buffer x = buffer(std::vector<float>(256, 5)), y = buffer(std::vector<float>(256));
    capture_and_replay(1, [&] { kernel(StreamRef(native_), 8, 32, x.as<float>(), y.as<float>()); });
    EXPECT_THAT(values(y), Each(5));
}

// Programmatic dependent launch: the second reads what the first wrote.
TEST_F(StreamRefOnGpu, OverlappingLaunchesAreCapturedByTheApplication) {
    const Template chain = service_->parse(R"(// chain: y = x + 1, waiting for the kernel before it
//@ kernel chain
//@ dependent true
//@ block 256
//@ grid ceil_div(n, 256)
#include "kiln/launch.h"
extern "C" __global__ void chain(int n, const float* x, float* y) {
    kiln::wait_for_previous_grid();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}
)",
                                           "chain.cu");
    const auto add = service_->build<test::ScaleFn>(chain.variant());
    const int n = 1 << 20;
    Buffer x = buffer(std::vector<float>(n, 0)), y = buffer(std::vector<float>(n, -1));
    capture_and_replay(10, [&] {
        add(StreamRef(native_), n, x.as<float>(), y.as<float>());
        add(StreamRef(native_), n, y.as<float>(), x.as<float>());
    });
    EXPECT_THAT(values(x), Each(20));
}

TEST_F(StreamRefOnGpu, WaitsForEventsOfKilnsStreams) {
    const auto twice = scale(2);
    const int n = 1 << 24;
    Buffer x = buffer(std::vector<float>(n, 1));
    const Stream own = service_->device().stream();
    Event done = service_->device().event();
    for (int i = 0; i < 10; ++i) {
        twice(own, n, x.as<float>(), x.as<float>());
        done.record(own);
        StreamRef(native_).wait(done);
        twice(StreamRef(native_), n, x.as<float>(), x.as<float>());
        done.record(StreamRef(native_));
        StreamRef(own).wait(done);
    }
    EXPECT_THAT(values(x), Each(1 << 20));
}

TEST_F(StreamRefOnGpu, CopiesAndFillsInOrder) {
    const auto twice = scale(2);
    const StreamRef stream(native_);
    Buffer x = service_->device().allocate(14);
    const std::vector<float> source{1, 2, 3};
    std::vector<float> found(3, -1);
    x.fill_async(0, stream);
    x.copy_from_async(std::as_bytes(std::span(source)), stream, 0);
    twice(stream, 3, x.as<float>(), x.as<float>());
    x.copy_to_async(std::as_writable_bytes(std::span(found)), stream);
    wait_for_native();
    EXPECT_THAT(found, ElementsAre(2, 4, 6));
    std::vector<unsigned char> bytes(14);
    x.fill_async(0x04030201, stream);
    x.copy_to_async(std::as_writable_bytes(std::span(bytes)), stream);
    wait_for_native();
    EXPECT_THAT(bytes, ElementsAre(1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2));
}

TEST_F(StreamRefOnGpu, AStreamOfAnotherDeviceIsRejected) {
    const auto twice = scale(2);
    Buffer x = buffer({1});
    const Stream elsewhere = Device::open(Backend::host).stream();
    EXPECT_THROW(twice(elsewhere, 1, x.as<float>(), x.as<float>()), UsageError);
    EXPECT_THROW(x.fill_async(0, elsewhere), UsageError);
    EXPECT_THROW(StreamRef(elsewhere).wait(service_->device().event()), UsageError);
}

}  // namespace
}  // namespace kiln
