// SPDX-License-Identifier: Apache-2.0
//
// What belongs to one call and no other: the memory that an operation's kernels work in, also behind a failed call, in a
// graph and where another variant than the best is launched; and the variables of a module.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rejected.h"
#include "scale_kernel.h"

namespace kiln {
namespace {

// The last block to finish writes the sum; both parts of the scratch memory are zero between launches. A negative element ends
// the launch by an error, when other blocks have added theirs.
constexpr const char* kTotal = R"(// total: the sum of x
//@ kernel  total
//@ param   BLOCK int in 32, 64, 256 = 64
//@ size    n = 640
//@ input   x [n]
//@ output  y [1]
//@ scratch part [1] = 0
//@ scratch done [1] = 0
//@ scratch more [n * BLOCK]
//@ block   BLOCK
//@ grid    ceil_div(n, BLOCK)
#include "kiln/device.h"
extern "C" __global__ void total(int n, const float* x, float* y, float* part, unsigned* done, float* more) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        if (x[i] < 0) __trap();
        more[i * BLOCK] = x[i];
        atomicAdd(part, more[i * BLOCK]);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(done, 1u) + 1 == gridDim.x) {
        y[0] = *part;
        *part = 0;
        *done = 0;
    }
}
)";

struct WorkspaceOnHost : test::ServiceFixture {
    Service service{options()};

    Template total() const { return service.parse(kTotal, "total.cu"); }
    static float sum(const Operation& operation, const std::vector<float>& x,
                     StreamRef stream = StreamRef::legacy_default()) {
        float y = -7;
        operation(stream, {{"n", std::ssize(x)}}, {{"x", x.data()}, {"y", &y}});
        return y;
    }
    static LaunchOptions with(std::vector<std::byte>& memory) {
        LaunchOptions options;
        void* place = memory.data();
        std::size_t bytes = memory.size();
        options.workspace = std::align(256, memory.size() - 256, place, bytes);
        options.workspace_bytes = memory.size() - 256;
        return options;
    }
    OperationOptions knowing(const std::vector<std::pair<std::int64_t, int>>& blocks_of) const {
        OperationOptions result;
        result.wisdom.emplace();
        for (const auto& [n, block] : blocks_of) {
            WisdomEntry entry;
            entry.template_name = "total";
            entry.values = {{"BLOCK", block}};
            entry.sizes = {{"n", n}};
            entry.device = as_field(service.device().info().name);
            entry.arch = service.target().arch;
            entry.median_ms = 1;
            entry.digest = template_digest(total());
            entry.date = "2026-01-01T00:00:00Z";
            result.wisdom->merge(std::vector<WisdomEntry>{entry});
        }
        return result;
    }
};

TEST_F(WorkspaceOnHost, IsZeroAgainAfterALaunchThatFailed) {
    const Operation operation(service, total());
    std::vector<float> bad(640, 1);
    bad[639] = -1;
    EXPECT_THROW(sum(operation, bad), DeviceError);
    for (const float value : {1.0F, 2.0F, 3.0F})
        EXPECT_EQ(sum(operation, std::vector<float>(640, value)), 640 * value);
}

TEST_F(WorkspaceOnHost, IsZeroAgainAfterAReplayThatFailed) {
    const Operation operation(service, total());
    const Stream stream = service.device().stream();
    const std::vector<Sizes> shapes = {{{"n", 640}}};
    operation.prepare(shapes, stream);
    std::vector<float> x(640, 1);
    float y = -7;
    const Graph graph = Graph::capture(stream, [&] {
        operation(stream, {{"n", 640}}, {{"x", x.data()}, {"y", &y}});
    });
    x[639] = -1;
    EXPECT_THROW(graph.launch(stream), DeviceError);
    x[639] = 1;
    EXPECT_EQ(sum(operation, x, stream), 640);
    EXPECT_THROW((x[639] = -1, graph.launch(stream)), DeviceError);
    x[639] = 1;
    graph.launch(stream);
    EXPECT_EQ(y, 640);
}

TEST_F(WorkspaceOnHost, OfTheCallerIsMadeZeroByEachReplayOfAGraph) {
    const Operation operation(service, total());
    const Stream stream = service.device().stream();
    const std::vector<float> x(640, 3);
    operation.prepare({{"n", 640}});
    std::vector<std::byte> memory(operation.workspace_bytes({{"n", 640}}) + 256, std::byte{0x55});
    const LaunchOptions options = with(memory);
    float y = -7;
    const Graph graph = Graph::capture(stream, [&] {
        operation(StreamRef(stream).with(options), {{"n", 640}}, {{"x", x.data()}, {"y", &y}});
    });
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte one) { return one == std::byte{0x55}; }))
        << "nothing of a capture runs";
    for (int replay = 0; replay < 3; ++replay) {
        y = -7;
        graph.launch(stream);
        EXPECT_EQ(y, 640 * 3);
        std::ranges::fill(memory, std::byte{0x55});
    }
}

TEST_F(WorkspaceOnHost, OfTheCallerThatTheBestVariantNeedsIsEnough) {
    OperationOptions options = knowing({{1000, 256}, {2000, 32}});
    options.when_missing = WhenMissing::substitute;
    const Operation operation(service, total(), {}, options);
    operation.prepare({{"n", 1000}});
    std::vector<std::byte> memory(operation.workspace_bytes({{"n", 2000}}) + 256);
    const LaunchOptions given = with(memory);
    const std::vector<float> x(2000, 2);
    // First by the variant that was built for 1000 elements, which takes more.
    EXPECT_EQ(sum(operation, x, StreamRef::legacy_default().with(given)), 4000);
    operation.wait();
    EXPECT_TRUE(operation.explain({{"n", 2000}}).built);
    EXPECT_EQ(sum(operation, x, StreamRef::legacy_default().with(given)), 4000);
    std::vector<std::byte> little(memory.size() - 1);
    EXPECT_THAT(test::rejected<UsageError>(
                    [&] { sum(operation, x, StreamRef::legacy_default().with(with(little))); }),
                testing::HasSubstr("Operation::workspace_bytes() says how many"));
}

TEST_F(WorkspaceOnHost, IsToldOfTheVariantThatIsLaunchedInstead) {
    static_cast<void>(service.compile(total().variant({{"BLOCK", 256}})));
    ServiceOptions cached = this->options();
    cached.cached_only = true;
    Service packed(cached);
    const Operation operation(packed, packed.parse(kTotal, "total.cu"), {}, knowing({{1000, 32}}));
    const std::size_t of_best = operation.workspace_bytes({{"n", 1000}});
    const std::vector<float> x(1000, 2);
    EXPECT_EQ(sum(operation, x), 2000);
    const std::size_t bytes = operation.workspace_bytes({{"n", 1000}});
    EXPECT_GT(bytes, of_best);
    operation.release();
    EXPECT_EQ(operation.usage().workspace_bytes, 0U);
    std::vector<std::byte> memory(bytes + 256);
    EXPECT_EQ(sum(operation, x, StreamRef::legacy_default().with(with(memory))), 2000);
    EXPECT_EQ(operation.usage().workspace_bytes, 0U) << "the caller's was enough";
}

// y = weights[0] + ... + weights[3] of each call, by way of a variable of the module.
constexpr const char* kWeights = R"(// weigh: y = x times the sum of the weights
//@ kernel weigh
//@ block  64
//@ grid   ceil_div(n, 64)
//@ size   n = 640
//@ input  x [n]
//@ input  weights [4]
//@ output y [n]
#include "kiln/device.h"
__constant__ float weights[4];
extern "C" __global__ void weigh(int n, const float* x, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * (weights[0] + weights[1] + weights[2] + weights[3]);
}
)";
// The first kernel leaves for the second what it found.
constexpr const char* kHandOver = R"(// hand_over: y = x, by way of a variable
//@ size   n = 640
//@ input  x [n]
//@ output y [n]
//@ kernel hand_over
//@ block  64
//@ grid   ceil_div(n, 64)
//@ kernel take
//@ block  64
//@ grid   ceil_div(n, 64)
#include "kiln/device.h"
__device__ float found[640];
extern "C" __global__ void hand_over(int n, const float* x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) found[i] = x[i];
}
extern "C" __global__ void take(int n, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = found[i];
}
)";

struct VariablesOnHost : test::ServiceFixture {
    static constexpr std::int64_t kCount = 640;
    static constexpr int kRounds = 300;

    /// How many of the calls of two threads at once gave other results than they should. call: with a value of each thread's own.
    template <class Call>
    static int wrong_calls(const Call& call) {
        std::atomic<int> wrong = 0;
        std::vector<std::thread> threads;
        for (const float value : {1.0F, 10.0F})
            threads.emplace_back([&, value] {
                std::vector<float> y(kCount);
                for (int round = 0; round < kRounds; ++round) {
                    std::ranges::fill(y, -7.0F);
                    call(value, y);
                    if (y != std::vector<float>(kCount, 4 * value)) ++wrong;
                }
            });
        for (std::thread& thread : threads) thread.join();
        return wrong;
    }
};

TEST_F(VariablesOnHost, OfACallAreNotThoseOfAnotherThreads) {
    Service service(options());
    const Operation weigh(service, service.parse(kWeights, "weigh.cu"));
    const std::vector<float> ones(kCount, 1);
    EXPECT_EQ(wrong_calls([&](float value, std::vector<float>& y) {
                  const std::vector<float> weights(4, value);
                  weigh(service.stream(), {{"n", kCount}},
                        {{"x", ones.data()}, {"weights", weights.data()}, {"y", y.data()}});
              }),
              0);
    const Operation hand_over(service, service.parse(kHandOver, "hand_over.cu"));
    EXPECT_EQ(wrong_calls([&](float value, std::vector<float>& y) {
                  const std::vector<float> x(kCount, 4 * value);
                  hand_over(service.stream(), {{"n", kCount}}, {{"x", x.data()}, {"y", y.data()}});
              }),
              0);
}

TEST_F(VariablesOnHost, OfAGraphsReplayAreNotThoseOfACall) {
    Service service(options());
    const Operation weigh(service, service.parse(kWeights, "weigh.cu"));
    const std::vector<float> ones(kCount, 1);
    weigh.prepare({{"n", kCount}});
    EXPECT_EQ(wrong_calls([&](float value, std::vector<float>& y) {
                  const std::vector<float> weights(4, value);
                  const auto launch = [&](StreamRef stream) {
                      weigh(stream, {{"n", kCount}},
                            {{"x", ones.data()}, {"weights", weights.data()}, {"y", y.data()}});
                  };
                  if (value == 1) return launch(service.stream());
                  const Stream stream = service.device().stream();
                  Graph::capture(stream, [&] { launch(stream); }).launch(stream);
              }),
              0);
}

}  // namespace
}  // namespace kiln
