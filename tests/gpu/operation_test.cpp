// SPDX-License-Identifier: Apache-2.0
//
// Operation on a GPU: the application's streams and captures, templates with tensor maps, workspace from memory pools.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda_api.h"
#include "gpu_service.h"

namespace kiln {
namespace {

using GemmFn = void(int m, int n, int k, const half* a, const half* b, float* c);

class OperationOnGpu : public test::GpuService {
  protected:
    void SetUp() override {
        GpuService::SetUp();
        if (!service_) return;
        api_ = cuda::api();
        static_cast<void>(service_->device());
        api_->check(api_->stream_create(&native_, 1), "cuStreamCreate");
    }
    void TearDown() override {
        if (native_ != nullptr) api_->check(api_->stream_destroy(native_), "cuStreamDestroy");
    }
    StreamRef stream() const { return StreamRef(static_cast<void*>(native_)); }
    void wait() const { api_->check(api_->stream_synchronize(native_), "cuStreamSynchronize"); }

    /// Small integers in device memory, so that every order of additions gives the same result.
    struct Factors {
        Factors(const Device& device, int a_m, int a_n, int a_k) : m(a_m), n(a_n), k(a_k) {
            std::mt19937 random(static_cast<unsigned>(m + 31 * n + 997 * k));
            for (auto* values : {&a, &b}) {
                const int count = values == &a ? m * k : k * n;
                for (int i = 0; i < count; ++i)
                    values->emplace_back(static_cast<float>(static_cast<int>(random() % 7) - 3));
            }
            a_memory = device.allocate(a.size() * 2);
            b_memory = device.allocate(b.size() * 2);
            c_memory = device.allocate(static_cast<std::size_t>(m) * n * 4);
            a_memory.copy_from(std::as_bytes(std::span(a)));
            b_memory.copy_from(std::as_bytes(std::span(b)));
            poison();
        }
        void poison() { c_memory.fill(0x7fc00000); }
        void expect_right() const {
            std::vector<float> c(static_cast<std::size_t>(m) * n);
            c_memory.copy_to(std::as_writable_bytes(std::span(c)));
            for (int row = 0; row < m; ++row)
                for (int column = 0; column < n; ++column) {
                    float sum = 0;
                    for (int i = 0; i < k; ++i) sum += float(a[row * k + i]) * float(b[i * n + column]);
                    ASSERT_EQ(c[row * n + column], sum) << row << ", " << column;
                }
        }
        int m, n, k;
        std::vector<half> a, b;
        Buffer a_memory, b_memory, c_memory;
    };
    void launch(const TypedOperation<GemmFn>& gemm, const Factors& of, StreamRef on) const {
        gemm(on, of.m, of.n, of.k, of.a_memory.as<half>(), of.b_memory.as<half>(), of.c_memory.as<float>());
    }

    const cuda::Api* api_ = nullptr;
    cuda::StreamHandle native_ = nullptr;
};

TEST_F(OperationOnGpu, GemmOfManyShapesOnTheApplicationsStream) {
    const TypedOperation<GemmFn> gemm(*service_, "gemm", {{"T", "half"}});
    for (const auto& [m, n, k] : std::vector<std::array<int, 3>>{{1, 256, 512},
                                                                 {128, 256, 64},
                                                                 {256, 512, 256},
                                                                 {77, 131, 93},
                                                                 {16, 1024, 2048},
                                                                 {64, 64, 4096}}) {
        SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
        Factors of(service_->device(), m, n, k);
        for (int round = 0; round < 3; ++round) {
            of.poison();
            launch(gemm, of, stream());
            wait();
            of.expect_right();
        }
    }
    EXPECT_EQ(gemm.usage().shapes, 6u);
}

TEST_F(OperationOnGpu, WorkspaceIsZeroAgainForTheNextKernel) {
    const Operation sum(*service_, "sum", {{"T", "float"}});
    std::vector<float> x(1 << 20, 1.0F);
    Buffer memory = service_->device().allocate(x.size() * 4), result = service_->device().allocate(4);
    memory.copy_from(std::as_bytes(std::span(x)));
    for (const int n : {1 << 20, 1000, 1 << 18, 3, 1 << 20}) {
        result.fill(0x7fc00000);
        sum(stream(), {{"n", n}}, {{"x", memory.data()}, {"sum", result.data()}});
        wait();
        float found = 0;
        result.copy_to(std::as_writable_bytes(std::span(&found, 1)));
        EXPECT_EQ(found, static_cast<float>(n));
    }
    EXPECT_EQ(sum.usage().streams, 1u);
}

TEST_F(OperationOnGpu, TheApplicationsCapture) {
    const TypedOperation<GemmFn> gemm(*service_, "gemm", {{"T", "half"}});
    Factors of(service_->device(), 256, 384, 512);
    const Sizes sizes = {{"m", of.m}, {"n", of.n}, {"k", of.k}};
    const auto capture = [&] {
        cuda::GraphHandle graph = nullptr;
        api_->check(api_->stream_begin_capture(native_, cuda::kCaptureThreadLocal), "cuStreamBeginCapture");
        std::exception_ptr error;
        try {
            launch(gemm, of, stream());
        } catch (...) {
            error = std::current_exception();
        }
        api_->check(api_->stream_end_capture(native_, &graph), "cuStreamEndCapture");
        if (error) {
            api_->check(api_->graph_destroy(graph), "cuGraphDestroy");
            std::rethrow_exception(error);
        }
        return graph;
    };
    EXPECT_THROW(static_cast<void>(capture()), NotReadyError);
    gemm.prepare(std::span(&sizes, 1), stream());
    const auto compiles = service_->counters().compiles;
    const cuda::GraphHandle graph = capture();
    EXPECT_EQ(service_->counters().compiles, compiles);
    cuda::GraphExecHandle ready = nullptr;
    api_->check(api_->graph_instantiate(&ready, graph, 0), "cuGraphInstantiate");
    for (int replay = 0; replay < 2; ++replay) {
        of.poison();
        api_->check(api_->graph_launch(ready, native_), "cuGraphLaunch");
        wait();
        of.expect_right();
    }
    api_->check(api_->graph_exec_destroy(ready), "cuGraphExecDestroy");
    api_->check(api_->graph_destroy(graph), "cuGraphDestroy");
}

TEST_F(OperationOnGpu, EightThreadsWithUnknownShapes) {
    OperationOptions options;
    options.when_missing = WhenMissing::substitute;
    const TypedOperation<GemmFn> gemm(*service_, "gemm", {{"T", "half"}}, options);
    gemm.prepare({{"m", 64}, {"n", 64}, {"k", 64}});
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 8; ++thread)
        threads.emplace_back([&, thread] {
            const Stream own = service_->device().stream();
            for (int i = 0; i < 6; ++i) {
                Factors of(service_->device(), 8 * (1 + (thread + i) % 7), 64 + 8 * i, 32 * (1 + thread % 3));
                launch(gemm, of, own);
                own.synchronize();
                of.expect_right();
            }
        });
    for (std::thread& thread : threads) thread.join();
    gemm.wait();
    EXPECT_EQ(gemm.usage().substituted, 0u);
}

}  // namespace
}  // namespace kiln
