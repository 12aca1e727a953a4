// SPDX-License-Identifier: Apache-2.0
//
// Variables of modules and cooperative launches, as the real driver has them.
#include <gmock/gmock.h>
#include <kiln/error.h>

#include <span>
#include <vector>

#include "gpu_service.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

class SymbolsOnGpu : public GpuService {
  protected:
    template <class T>
    static std::vector<T> content(const Buffer& buffer) {
        std::vector<T> values(buffer.size_bytes() / sizeof(T));
        buffer.copy_to(std::as_writable_bytes(std::span(values)));
        return values;
    }
};

constexpr const char* kWeigh = R"(// weigh: y = weights[i % 3] + bias + filter::offset
//@ kernel weigh
//@ block 32
//@ grid 1
#include "kiln/device.h"
__constant__ float weights[3];
__constant__ float bias;
namespace filter { __device__ int offset; }
template <class T> __device__ T shift;
extern "C" __global__ void weigh(float* y) {
    y[threadIdx.x] = weights[threadIdx.x % 3] + bias + filter::offset + shift<int>;
}
)";

TEST_F(SymbolsOnGpu, AreWrittenAndRead) {
    const auto kernel = service_->build<void(float*)>(Template::parse(kWeigh, "weigh.cu").variant());
    const std::vector<float> weights{1, 2, 4};
    const float bias = 16;
    const int offset = 32, shift = 64;
    kernel.symbol<float>("weights", 3).copy_from(weights);
    kernel.symbol<float>("bias").copy_from_async({&bias, 1}, service_->stream());
    kernel.symbol<int>("offset").copy_from_async({&offset, 1}, service_->stream());
    kernel.symbol<int>("shift<int>").copy_from_async({&shift, 1}, service_->stream());
    auto y = service_->device().allocate(32 * sizeof(float));
    kernel(service_->stream(), y.as<float>());
    service_->stream().synchronize();
    const auto values = content<float>(y);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], weights[i % 3] + 112) << i;
    std::vector<float> back(2);
    kernel.symbol<float>("weights").copy_to(back, 1);
    EXPECT_EQ(back, (std::vector<float>{2, 4}));
    try {
        (void)kernel.symbol<float>("weight");
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("the module of weigh has no variable weight; did you mean weights?"));
    }
    EXPECT_THROW((void)kernel.symbol<float>("weights", 4), UsageError);
}

TEST_F(SymbolsOnGpu, TakeTensorsOfLaunchesInGraphsToo) {
    const auto kernel = service_->build<void(int, float*, const float*)>(
        Template::parse(
            "// scaled_by: for tests\n//@ kernel scaled_by\n//@ block 32\n//@ grid 1\n//@ size n = 2\n"
            "//@ input factor [n]\n#include \"kiln/device.h\"\n__constant__ float factor[2];\n"
            "extern \"C\" __global__ void scaled_by(int n, float* y) {\n"
            "    y[threadIdx.x] = factor[threadIdx.x % n];\n}\n",
            "scaled_by.cu")
            .variant());
    auto y = service_->device().allocate(32 * sizeof(float)),
         factor = service_->device().allocate(2 * sizeof(float));
    const std::vector<float> first{3, 5}, second{7, 9};
    factor.copy_from(std::as_bytes(std::span(first)));
    kernel(service_->stream(), 2, y.as<float>(), factor.as<const float>());
    EXPECT_EQ(content<float>(y)[31], 5);
    const Graph graph = Graph::capture(
        service_->stream(), [&] { kernel(service_->stream(), 2, y.as<float>(), factor.as<const float>()); });
    factor.copy_from(std::as_bytes(std::span(second)));
    graph.launch(service_->stream());
    EXPECT_EQ(content<float>(y)[31], 9);
}

// All blocks write, then each reads what the next one wrote, many times.
constexpr const char* kNeighbours = R"(// neighbours: for tests
//@ kernel neighbours
//@ block 256
//@ grid n
//@ cooperative
#include "kiln/grid.h"
extern "C" __global__ void neighbours(int n, int* x, int* wrong, unsigned* barrier) {
    for (int round = 1; round <= 100; ++round) {
        if (threadIdx.x == 0) x[blockIdx.x] = round;
        kiln::sync_grid(barrier);
        if (threadIdx.x == 255 && *static_cast<volatile int*>(x + (blockIdx.x + 1) % n) != round) atomicAdd(wrong, 1);
        kiln::sync_grid(barrier);
    }
}
)";

TEST_F(SymbolsOnGpu, CooperativeBlocksMeetAsManyAsFit) {
    const auto kernel = service_->build<void(int, int*, int*, unsigned*)>(
        Template::parse(kNeighbours, "neighbours.cu").variant());
    const int fit = *kernel.info().blocks_per_multiprocessor *
                    static_cast<int>(service_->device().info().limits.multiprocessors);
    auto x = service_->device().allocate(static_cast<std::size_t>(fit) * sizeof(int)),
         wrong = service_->device().allocate(sizeof(int)), barrier = service_->device().allocate(sizeof(int));
    barrier.fill(0);
    wrong.fill(0);
    for (const int blocks : {1, 7, fit / 2 + 1, fit, 3}) {
        kernel(service_->stream(), blocks, x.as<int>(), wrong.as<int>(), barrier.as<unsigned>());
        service_->stream().synchronize();
        EXPECT_EQ(content<int>(wrong)[0], 0) << blocks;
    }
    try {
        kernel(service_->stream(), fit + 1, x.as<int>(), wrong.as<int>(), barrier.as<unsigned>());
        FAIL();
    } catch (const VariantError& error) {
        EXPECT_THAT(error.what(), HasSubstr("at most " + std::to_string(fit) + " fit"));
    }
}

}  // namespace
}  // namespace kiln::test
