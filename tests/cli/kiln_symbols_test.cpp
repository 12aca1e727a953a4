// SPDX-License-Identifier: Apache-2.0
//
// Variables of modules, cooperative launches and dynamic shared memory as CUDA declares it, on the host.
#include <kiln/kiln.h>

#include <cstdlib>
#include <numeric>
#include <vector>

#include "kiln_program.h"
#include "rejected.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

class KilnSymbols : public Kiln {
  protected:
    Service service() const {
        ServiceOptions options;
        options.backend = Backend::host;
        options.template_directories = {templates()};
        options.cache.directory = path("cache");
        return Service(options);
    }
    /// y = weights[i % 3] + bias + filter::offset
    void with_weights() const {
        (void)with_template(
            "weigh",
            "// weigh: for tests\n//@ kernel weigh\n//@ block 32\n//@ grid 1\n#include \"kiln/device.h\"\n"
            "__constant__ float weights[3];\nstatic __constant__ float bias;\n"
            "namespace filter { __device__ int offset; }\n"
            "extern \"C\" __global__ void weigh(float* y) {\n"
            "    y[threadIdx.x] = weights[threadIdx.x % 3] + bias + filter::offset;\n}\n");
    }
    Outcome run_example(Arguments arguments) const {
        for (const std::string& more :
             {std::string("--template-dir"),
              std::string(std::getenv("KILN_TEST_SOURCE_DIR")) + "/examples/templates",
              std::string("--backend"), std::string("host"), std::string("--no-time")})
            arguments.push_back(more);
        return run(std::move(arguments), usual_environment());
    }
    /// All blocks write, then each reads what the next one wrote. `line`: //@ lines more; `until`: in the kernel, first.
    void with_neighbours(const std::string& line, const std::string& until = "") const {
        (void)with_template(
            "neighbours",
            "// neighbours: for tests\n//@ kernel neighbours\n//@ block 32\n//@ grid n\n" + line +
                "#include \"kiln/grid.h\"\n"
                "extern \"C\" __global__ void neighbours(int n, int* x, int* y, unsigned* barrier) {\n" +
                until +
                "    for (int round = 1; round < 4; ++round) {\n"
                "        if (threadIdx.x == 0) x[blockIdx.x] = round * 100 + blockIdx.x;\n"
                "        kiln::sync_grid(barrier);\n"
                "        if (threadIdx.x == 0) y[blockIdx.x] = x[(blockIdx.x + 1) % n];\n"
                "        kiln::sync_grid(barrier);\n    }\n}\n");
    }
    /// y of `blocks` blocks.
    std::vector<int> neighbours(int blocks, std::uint32_t word = 0) const {
        Service here = service();
        const auto kernel = here.build<void(int, int*, int*, unsigned*)>(here.find("neighbours").variant());
        auto x = here.device().allocate(blocks * sizeof(int)),
             y = here.device().allocate(blocks * sizeof(int)), barrier = here.device().allocate(4);
        barrier.fill(word);
        kernel(here.stream(), blocks, x.as<int>(), y.as<int>(), barrier.as<unsigned>());
        std::vector<int> values(static_cast<std::size_t>(blocks));
        y.copy_to(std::as_writable_bytes(std::span(values)));
        return values;
    }
};

TEST_F(KilnSymbols, AreWrittenAndRead) {
    with_weights();
    Service here = service();
    const auto kernel = here.build<void(float*)>(here.find("weigh").variant());
    const std::vector<float> weights{1, 2, 4};
    auto symbol = kernel.symbol<float>("weights", 3);
    EXPECT_EQ(symbol.count(), 3u);
    symbol.copy_from(weights);
    const float bias = 16;
    kernel.symbol<float>("bias").copy_from_async({&bias, 1}, here.stream());
    const int offset = 32;
    kernel.symbol<int>("offset").copy_from({&offset, 1});
    auto y = here.device().allocate(32 * sizeof(float));
    kernel(here.stream(), y.as<float>());
    std::vector<float> values(32);
    y.copy_to(std::as_writable_bytes(std::span(values)));
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], weights[i % 3] + 48) << i;

    const float last = 8;
    symbol.copy_from({&last, 1}, 2);
    std::vector<float> back(2);
    kernel.symbol<float>("weights").copy_to(back, 1);
    EXPECT_EQ(back, (std::vector<float>{2, 8}));
}

TEST_F(KilnSymbols, AreCheckedForNameAndSize) {
    with_weights();
    Service here = service();
    const auto kernel = here.build<void(float*)>(here.find("weigh").variant());
    EXPECT_THAT(rejected([&] { (void)kernel.symbol<float>("weight"); }),
                HasSubstr("the module of weigh has no variable weight; did you mean weights?"));
    EXPECT_THAT(rejected([&] { (void)kernel.symbol<float>("something_else"); }),
                HasSubstr("there are bias, filter::offset, weights"));
    EXPECT_THAT(rejected([&] { (void)kernel.symbol<float>("weights", 4); }),
                HasSubstr("the variable weights has 12 bytes, which are not 4 elements of float but 3"));
    EXPECT_THAT(rejected([&] { (void)kernel.symbol<double>("weights"); }),
                HasSubstr("which are not a number of elements of double, of 8 bytes each"));
    EXPECT_THROW(kernel.symbol<float>("weights").copy_from(std::vector<float>(4)), UsageError);
}

TEST_F(KilnSymbols, TakeTensorsOfLaunches) {
    for (const char* radius : {"RADIUS=1", "RADIUS=3"}) {
        const Outcome outcome = run_example({"run", "stencil", radius, "--test-sizes", "--json"});
        EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    }
    (void)with_template(
        "scaled_by",
        "// scaled_by: for tests\n//@ kernel scaled_by\n//@ block 32\n//@ grid 1\n//@ size n = 2\n"
        "//@ input factor [n]\n#include \"kiln/device.h\"\n__constant__ float factor[2];\n"
        "extern \"C\" __global__ void scaled_by(int n, float* y) { y[threadIdx.x] = factor[threadIdx.x % n]; "
        "}\n");
    Service here = service();
    const auto kernel = here.build<void(int, float*, const float*)>(here.find("scaled_by").variant());
    auto y = here.device().allocate(32 * sizeof(float)), factor = here.device().allocate(3 * sizeof(float));
    std::vector<float> values(32);
    const auto launched = [&](int n) {
        kernel(here.stream(), n, y.as<float>(), factor.as<const float>());
        y.copy_to(std::as_writable_bytes(std::span(values)));
        return values[1];
    };
    const std::vector<float> first{3, 5, 0}, second{7, 9, 0};
    factor.copy_from(std::as_bytes(std::span(first)));
    EXPECT_EQ(launched(2), 5);
    const Graph graph = Graph::capture(
        here.stream(), [&] { kernel(here.stream(), 2, y.as<float>(), factor.as<const float>()); });
    factor.copy_from(std::as_bytes(std::span(second)));
    graph.launch(here.stream());
    y.copy_to(std::as_writable_bytes(std::span(values)));
    EXPECT_EQ(values[1], 9) << "a graph copies again";
    try {
        (void)launched(3);
        FAIL();
    } catch (const VariantError& error) {
        EXPECT_THAT(
            error.what(),
            HasSubstr("the tensor factor has 12 bytes, and the variable factor, to which it is copied, 8"));
    }
}

TEST_F(KilnSymbols, CooperativeBlocksMeet) {
    with_neighbours("//@ cooperative\n");
    for (const int blocks : {1, 2, 9, 128}) {
        std::vector<int> wanted(static_cast<std::size_t>(blocks));
        for (int i = 0; i < blocks; ++i) wanted[static_cast<std::size_t>(i)] = 300 + (i + 1) % blocks;
        EXPECT_EQ(neighbours(blocks), wanted);
    }
    const Outcome outcome = run_example({"run", "equalize", "--test-sizes", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
}

TEST_F(KilnSymbols, WhatKeepsBlocksFromMeetingIsReported) {
    const auto failure = [&](int blocks, std::uint32_t word = 0) -> std::string {
        try {
            (void)neighbours(blocks, word);
        } catch (const DeviceError& error) {
            return error.what();
        }
        ADD_FAILURE() << "no DeviceError";
        return {};
    };
    with_neighbours("//@ cooperative\n");
    EXPECT_THAT(failure(129), HasSubstr("of the 129 of its grid at most 128 run at once here"));
    EXPECT_THAT(failure(3, 5), HasSubstr("the word of kiln::sync_grid is not zero"));
    EXPECT_EQ(neighbours(3, 0x80000000u).front(), 301) << "as an earlier launch may leave it";
    with_neighbours("//@ cooperative\n", "    if (blockIdx.x == 1) return;\n");
    EXPECT_THAT(failure(3), HasSubstr("one of them has ended without coming there"));
    with_neighbours("//@ cooperative\n", "    if (blockIdx.x == 2) __trap();\n");
    EXPECT_THAT(failure(3), HasSubstr("block (2,0,0): thread (0,0,0): __trap() was called"));
    with_neighbours("");
    EXPECT_THAT(failure(3), HasSubstr("its template needs a line //@ cooperative"));
}

TEST_F(KilnSymbols, DynamicSharedMemoryIsDeclaredAsInCuda) {
    const auto reversed = [&](const std::string& outside, const std::string& inside) {
        (void)with_template(
            "reversed",
            "// reversed: for tests\n//@ kernel reversed\n//@ block 64\n//@ grid 1\n//@ shared 256\n" +
                outside + "extern \"C\" __global__ void reversed(int* y) {\n" + inside +
                "    tile[threadIdx.x] = threadIdx.x;\n    __syncthreads();\n"
                "    y[threadIdx.x] = tile[63 - threadIdx.x];\n}\n");
    };
    reversed("", "    extern __shared__ __align__(16) int tile[];\n");
    Service here = service();
    const auto kernel = here.build<void(int*)>(here.find("reversed").variant());
    auto y = here.device().allocate(64 * sizeof(int));
    kernel(here.stream(), y.as<int>());
    std::vector<int> values(64), wanted(64);
    y.copy_to(std::as_writable_bytes(std::span(values)));
    std::iota(wanted.rbegin(), wanted.rend(), 0);
    EXPECT_EQ(values, wanted);

    reversed("extern __shared__ int tile[];\n", "");
    const Outcome outcome = on_host({"build", "reversed"});
    EXPECT_EQ(outcome.status, 3);
    EXPECT_THAT(outcome.err, HasSubstr("reversed.cu:6"));
    EXPECT_THAT(outcome.err, HasSubstr("must be declared in the function that uses it"));
}

}  // namespace
}  // namespace kiln::test
