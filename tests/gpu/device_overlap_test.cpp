// SPDX-License-Identifier: Apache-2.0
//
// Kernels that begin while the one before them still runs: they do, and a chain of them gives the right result,
// launched one by one and from a graph.
#include <gmock/gmock.h>
#include <kiln/kiln.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu_service.h"

namespace kiln {
namespace {

// Each element waits for a while before it is written, those of later blocks longer, so that what begins too
// early reads what is not there yet.
constexpr const char* kStep = R"(// step: y = 3 x + 1, modulo 2^32, slowly
//@ kernel step
//@ param  EARLY bool = true "begin while the kernel before it still runs"
//@ dependent EARLY
//@ block  64
//@ grid   ceil_div(n, 64)
#include "kiln/launch.h"
extern "C" __global__ void step(int n, const unsigned* __restrict__ x, unsigned* __restrict__ y) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    kiln::wait_for_previous_grid();
    kiln::let_next_grid_start();
    x = kiln::after_previous_grid(x);
    if (i >= n) return;
    const unsigned value = x[i];
    const long long start = clock64();
    while (clock64() - start < 2000 + 100 * int(blockIdx.x)) {}
    y[i] = 3 * value + 1;
}
)";
using StepFn = void(int n, const unsigned* x, unsigned* y);

// Role 0 lets the next kernel begin and watches for its sign, for a tenth of a second at most. Role 1 gives the
// sign before it waits.
constexpr const char* kSign = R"(// sign: seen = 1 where the next kernel begins before this one ends
//@ kernel sign
//@ param  EARLY bool = true
//@ dependent EARLY
//@ block  32
//@ grid   1
#include "kiln/launch.h"
extern "C" __global__ void sign(int role, unsigned* sign, unsigned* seen) {
    volatile unsigned* const watched = sign;
    if (role == 1) {
        if (threadIdx.x == 0) { *watched = 1; __threadfence(); }
        kiln::wait_for_previous_grid();
        return;
    }
    kiln::wait_for_previous_grid();
    kiln::let_next_grid_start();
    const long long start = clock64();
    while (*watched == 0 && clock64() - start < 150000000) {}
    if (threadIdx.x == 0) *seen = *watched;
}
)";
using SignFn = void(int role, unsigned* sign, unsigned* seen);

class OverlapOnGpu : public test::GpuService {
  protected:
    bool can_overlap() const { return std::stoi(service_->target().arch.substr(3)) >= 90; }
    static std::vector<unsigned> values(const Buffer& buffer) {
        std::vector<unsigned> result(buffer.size_bytes() / 4);
        buffer.copy_to(std::as_writable_bytes(std::span(result)));
        return result;
    }
    unsigned sign_seen(bool early) {
        const auto kernel =
            service_->build<SignFn>(service_->parse(kSign, "sign.cu").variant({{"EARLY", early}}));
        Buffer sign = service_->device().allocate(4), seen = service_->device().allocate(4);
        sign.fill(0);
        seen.fill(7);
        const Stream& stream = service_->stream();
        kernel(stream, 0, sign.as<unsigned>(), seen.as<unsigned>());
        kernel(stream, 1, sign.as<unsigned>(), seen.as<unsigned>());
        stream.synchronize();
        return values(seen)[0];
    }
};

TEST_F(OverlapOnGpu, TheNextKernelBeginsBeforeThisOneEnds) {
    EXPECT_EQ(sign_seen(false), 0u);
    EXPECT_EQ(sign_seen(true), can_overlap() ? 1u : 0u);
}

TEST_F(OverlapOnGpu, AChainGivesTheRightResult) {
    constexpr int kSize = 64 * 40 - 5, kSteps = 60;
    const auto kernel = service_->build<StepFn>(service_->parse(kStep, "step.cu").variant());
    std::vector<unsigned> first(kSize), expected(kSize);
    for (std::size_t i = 0; i < first.size(); ++i) {
        first[i] = static_cast<unsigned>(i);
        expected[i] = first[i];
        for (int step = 0; step < kSteps; ++step) expected[i] = 3 * expected[i] + 1;
    }
    Buffer a = service_->device().allocate(kSize * 4), b = service_->device().allocate(kSize * 4);
    const Stream& stream = service_->stream();
    const auto chain = [&] {
        for (int step = 0; step < kSteps; step += 2) {
            kernel(stream, kSize, a.as<unsigned>(), b.as<unsigned>());
            kernel(stream, kSize, b.as<unsigned>(), a.as<unsigned>());
        }
    };
    a.copy_from(std::as_bytes(std::span(first)));
    chain();
    stream.synchronize();
    EXPECT_EQ(values(a), expected);

    const Graph graph = Graph::capture(stream, chain);
    for (int replay = 0; replay < 3; ++replay) {
        a.copy_from(std::as_bytes(std::span(first)));
        graph.launch(stream);
        stream.synchronize();
        EXPECT_EQ(values(a), expected) << replay;
    }
}

// Lets the next kernel begin at once and writes a long time after that.
constexpr const char* kLate = R"(// late: a = small integers, after a while
//@ kernel late
//@ param  EARLY bool = true
//@ dependent EARLY
//@ block  128
//@ grid   ceil_div(n, 128)
#include "kiln/launch.h"
extern "C" __global__ void late(int n, kiln::half* a) {
    kiln::wait_for_previous_grid();
    kiln::let_next_grid_start();
    const long long start = clock64();
    while (clock64() - start < 200000) {}
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) a[i] = kiln::half(float(i % 7 - 3));
}
)";
using LateFn = void(int n, half* a);
using SoftmaxFn = void(long long rows, int cols, const half* x, half* y);
using NormFn = void(long long rows, int cols, const half* x, const half* weight, const half* bias, half* y);
using SumFn = void(long long, const half*, unsigned long long*, float*);
using SkinnyFn = void(int m, int n, int k, const half* a, const half* b, float* c, float* partial,
                      unsigned* tickets);

// The library's own kernels, each after one whose results it reads: the bits equal those of sequential
// launches.
TEST_F(OverlapOnGpu, TheLibrarysKernelsWaitForWhatTheyRead) {
    constexpr int kRows = 700;
    constexpr int kRowsA = 4, kColumns = 512, kDepth = 2048;
    if (std::stoi(service_->target().arch.substr(3)) < 80) GTEST_SKIP() << "gemm_skinny wants sm_80";
    const Stream& stream = service_->stream();
    const auto words = [&](std::size_t bytes) {
        Buffer buffer = service_->device().allocate((bytes + 3) / 4 * 4);
        buffer.fill(0);
        return buffer;
    };
    const auto late = service_->build<LateFn>(service_->parse(kLate, "late.cu").variant());
    for (const int cols : {1000, 1001}) {
        const int count = kRows * cols;
        std::vector<std::vector<unsigned>> found[2];
        for (const bool dependent : {false, true}) {
            const Values chosen = {{"PDL", dependent}};
            const auto softmax = service_->build<SoftmaxFn>(service_->find("softmax").variant(chosen));
            const auto norm = service_->build<NormFn>(service_->find("layer_norm").variant(chosen));
            const auto sum = service_->build<SumFn>(
                service_->find("sum_shuffle").variant({{"T", "half"}, {"VEC", 8}, {"PDL", dependent}}));
            const auto skinny = service_->build<SkinnyFn>(service_->find("gemm_skinny").variant(chosen));
            const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(half);
            Buffer x = words(bytes), y = words(bytes), z = words(bytes), weight = words(bytes),
                   bias = words(bytes);
            Buffer sums_of_blocks = words(20000 * 8), total = words(4);
            Buffer partial = words(20000 * 4), ticket = words(4);
            Buffer a = words(kRowsA * kDepth * 2), b = words(kColumns * kDepth * 2),
                   c = words(kRowsA * kColumns * 4);
            late(stream, cols, weight.as<half>());
            late(stream, cols, bias.as<half>());
            late(stream, kColumns * kDepth, b.as<half>());
            stream.synchronize();
            late(stream, count, x.as<half>());
            softmax(stream, kRows, cols, x.as<half>(), y.as<half>());
            norm(stream, kRows, cols, y.as<half>(), weight.as<half>(), bias.as<half>(), z.as<half>());
            softmax(stream, kRows, cols, z.as<half>(), y.as<half>());
            sum(stream, count, y.as<half>(), sums_of_blocks.as<unsigned long long>(), total.as<float>());
            late(stream, kRowsA * kDepth, a.as<half>());
            skinny(stream, kRowsA, kColumns, kDepth, a.as<half>(), b.as<half>(), c.as<float>(),
                   partial.as<float>(), ticket.as<unsigned>());
            stream.synchronize();
            found[dependent] = {values(z), values(y), values(total), values(c)};
        }
        EXPECT_TRUE(found[0] == found[1]) << "cols=" << cols;
        EXPECT_NE(found[0].back(), std::vector<unsigned>(found[0].back().size())) << "only zeros";
    }
}

}  // namespace
}  // namespace kiln
