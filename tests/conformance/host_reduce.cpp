// SPDX-License-Identifier: Apache-2.0
//
// kiln/reduce.h on the host: reductions and scans of blocks of every shape, against plain loops.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "host_kernel.h"

namespace kiln {
namespace {

using test::HostKernel;

constexpr unsigned long long kSeeds = 6;

std::string with_threads(int threads, const std::string& text) {
    return "#include \"kiln/reduce.h\"\nconstexpr int THREADS = " + std::to_string(threads) + ";\n" + text;
}

std::vector<int> random_ints(std::size_t count) {
    std::mt19937 random(20261121);
    std::vector<int> values(count);
    for (int& value : values) value = static_cast<int>(random() % 20001) - 10000;
    return values;
}

struct Blocks : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Blocks, testing::Values(1, 2, 8, 16, 32, 64, 96, 160, 256, 1024));

// Calls follow each other without a barrier, with the same and with another op.
TEST_P(Blocks, ReduceToTheSameInEveryThread) {
    const int threads = GetParam();
    constexpr int kCalls = 4;
    const Binary binary = test::compile_for_host(with_threads(threads, R"(
extern "C" __global__ void kernel(int calls, const int* in, int* out) {
    const int t = kiln::thread_rank();
    for (int call = 0; call < calls; ++call) {
        const int mine = in[call * THREADS + t];
        int* const to = out + (call * THREADS + t) * 4;
        to[3] = kiln::block_reduce<THREADS>(-mine, kiln::Sum{});
        to[0] = kiln::block_reduce<THREADS>(mine, kiln::Sum{});
        to[1] = kiln::block_reduce<THREADS>(mine, kiln::Max{});
        to[2] = kiln::block_reduce<THREADS>(mine, kiln::Min{});
    }
})"));
    const std::vector<int> in = random_ints(static_cast<std::size_t>(kCalls * threads));
    for (unsigned long long seed = 0; seed < kSeeds; ++seed) {
        std::vector<int> out(in.size() * 4, -1);
        // Ranks go along x, then y.
        const auto y = threads % 4 == 0 ? 4u : 1u;
        HostKernel(binary, test::open_host(seed))({}, {static_cast<unsigned>(threads) / y, y, 1}, 0, kCalls,
                                                  in.data(), out.data());
        for (int call = 0; call < kCalls; ++call) {
            const auto first = in.begin() + call * threads, last = first + threads;
            for (int t = 0; t < threads; ++t) {
                const int* const found = &out[static_cast<std::size_t>(call * threads + t) * 4];
                ASSERT_EQ(found[0], std::accumulate(first, last, 0)) << "call " << call << " thread " << t;
                ASSERT_EQ(found[3], -found[0]) << "call " << call << " thread " << t;
                ASSERT_EQ(found[1], *std::max_element(first, last)) << "call " << call << " thread " << t;
                ASSERT_EQ(found[2], *std::min_element(first, last)) << "call " << call << " thread " << t;
            }
        }
    }
}

// The caller's memory takes the place of the header's own.
TEST_P(Blocks, ReduceInTheCallersMemory) {
    const int threads = GetParam();
    const HostKernel kernel(test::compile_for_host(with_threads(threads, R"(
extern "C" __global__ void kernel(const int* in, int* out) {
    int* const parts = kiln::dynamic_shared<int>();
    const int sum = kiln::block_reduce<THREADS>(in[threadIdx.x], kiln::Sum{}, parts);
    __syncthreads();
    out[threadIdx.x] = sum - kiln::block_scan<THREADS>(in[threadIdx.x], kiln::Sum{}, parts);
})")),
                            test::open_host(3));
    const std::vector<int> in = random_ints(static_cast<std::size_t>(threads));
    std::vector<int> out(in.size(), -1);
    kernel({}, {static_cast<unsigned>(threads), 1, 1},
           (static_cast<std::size_t>(threads) + 31) / 32 * sizeof(int), in.data(), out.data());
    for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], std::accumulate(in.begin() + static_cast<std::ptrdiff_t>(i) + 1, in.end(), 0)) << i;
}

// Composing x -> a x + b is associative and not commutative, so that a wrong order shows.
TEST_P(Blocks, ScanInTheOrderOfTheThreads) {
    const int threads = GetParam();
    const Binary binary = test::compile_for_host(with_threads(threads, R"(
struct Affine { unsigned a, b; };
struct Then {
    __device__ Affine operator()(Affine first, Affine second) const {
        return {first.a * second.a, first.b * second.a + second.b};
    }
};
extern "C" __global__ void kernel(int calls, const Affine* in, Affine* out) {
    for (int call = 0; call < calls; ++call) {
        const int i = call * THREADS + int(threadIdx.x);
        out[i] = kiln::block_scan<THREADS>(in[i], Then{});
    }
})"));
    constexpr int kCalls = 3;
    struct Affine {
        unsigned a, b;
    };
    std::mt19937 random(7);
    std::vector<Affine> in(static_cast<std::size_t>(kCalls * threads)), out(in.size());
    for (Affine& item : in) item = {static_cast<unsigned>(random()) | 1u, static_cast<unsigned>(random())};
    for (unsigned long long seed = 0; seed < kSeeds; ++seed) {
        HostKernel(binary, test::open_host(seed))({}, {static_cast<unsigned>(threads), 1, 1}, 0, kCalls,
                                                  in.data(), out.data());
        Affine all{1, 0};
        for (std::size_t i = 0; i < in.size(); ++i) {
            if (i % static_cast<std::size_t>(threads) == 0) all = {1, 0};
            all = {all.a * in[i].a, all.b * in[i].a + in[i].b};
            ASSERT_EQ(out[i].a, all.a) << i;
            ASSERT_EQ(out[i].b, all.b) << i;
        }
    }
}

TEST(HostReduce, ReducesGroupsOfLanes) {
    const HostKernel kernel(R"(
#include "kiln/reduce.h"
extern "C" __global__ void kernel(int* out) {
    const int lane = threadIdx.x, mine = 1 << lane % 32;
    out[0 * 64 + lane] = kiln::warp_reduce<1>(mine, kiln::Sum{});
    out[1 * 64 + lane] = kiln::warp_reduce<2>(mine, kiln::Sum{});
    out[2 * 64 + lane] = kiln::warp_reduce<4>(mine, kiln::Sum{});
    out[3 * 64 + lane] = kiln::warp_reduce<8>(mine, kiln::Sum{});
    out[4 * 64 + lane] = kiln::warp_reduce<16>(mine, kiln::Sum{});
    out[5 * 64 + lane] = kiln::warp_reduce(mine, kiln::Sum{});
})");
    std::vector<int> out(6 * 64);
    kernel({}, {64, 1, 1}, 0, out.data());
    for (int step = 0; step < 6; ++step) {
        const int lanes = 1 << step;
        for (int lane = 0; lane < 64; ++lane) {
            const auto group =
                static_cast<std::uint32_t>(((std::uint64_t{1} << lanes) - 1) << lane % 32 / lanes * lanes);
            EXPECT_EQ(static_cast<std::uint32_t>(out[static_cast<std::size_t>(step * 64 + lane)]), group)
                << lanes << " lanes, lane " << lane;
        }
    }
}

// The sum's order is that of a tree: neighbours at half the distance, lane with lane, then warp with warp.
TEST(HostReduce, SumsFloatsInTheDocumentedOrder) {
    const Binary binary = test::compile_for_host(with_threads(256, R"(
extern "C" __global__ void kernel(const float* in, float* out) {
    out[threadIdx.x] = kiln::block_reduce<THREADS>(in[threadIdx.x], kiln::Sum{});
})"));
    std::mt19937 random(11);
    std::vector<float> in(256), out(256);
    for (float& value : in)
        value = std::ldexp(static_cast<float>(random() >> 8), static_cast<int>(random() % 40) - 20);
    const auto tree = [](std::vector<float> values) {
        for (std::size_t half = values.size() / 2; half > 0; half /= 2)
            for (std::size_t i = 0; i < half; ++i) values[i] += values[i + half];
        return values[0];
    };
    std::vector<float> warps;
    for (std::size_t first = 0; first < in.size(); first += 32)
        warps.push_back(tree({in.begin() + static_cast<std::ptrdiff_t>(first),
                              in.begin() + static_cast<std::ptrdiff_t>(first) + 32}));
    for (unsigned long long seed = 0; seed < kSeeds; ++seed) {
        HostKernel(binary, test::open_host(seed))({}, {256, 1, 1}, 0, in.data(), out.data());
        EXPECT_THAT(out, testing::Each(tree(warps)));
    }
}

TEST(HostReduce, JoinsSoftmaxesOfTheSameBitsInEveryThread) {
    const Binary binary = test::compile_for_host(with_threads(96, R"(
extern "C" __global__ void kernel(const float* in, kiln::MaxAndSum* out) {
    const float x = in[threadIdx.x];
    out[threadIdx.x] = kiln::block_reduce<THREADS>(kiln::MaxAndSum{x, x < -1e30f ? 0.0f : 1.0f}, kiln::MaxSum{});
})"));
    struct MaxAndSum {
        float max, sum;
    };
    std::mt19937 random(13);
    std::uniform_real_distribution<float> uniform(-9.0f, 9.0f);
    for (const int present : {96, 50, 1, 0}) {
        std::vector<float> in(96, -INFINITY);
        for (int i = 0; i < present; ++i) in[static_cast<std::size_t>(i * 53 % 96)] = uniform(random);
        double sum = 0;
        const float max = *std::max_element(in.begin(), in.end());
        for (const float x : in) sum += std::isinf(x) ? 0 : std::exp2(static_cast<double>(x) - max);
        std::vector<MaxAndSum> out(96);
        HostKernel(binary, test::open_host(5))({}, {96, 1, 1}, 0, in.data(), out.data());
        for (const MaxAndSum& found : out) {
            EXPECT_EQ(found.max, max);
            EXPECT_NEAR(found.sum, sum, 1e-5 * sum);
            EXPECT_EQ(std::memcmp(&found, &out[0], sizeof found), 0);
        }
    }
}

TEST(HostReduce, MovesValuesOfEverySize) {
    const HostKernel kernel(R"(
#include "kiln/reduce.h"
struct Six { unsigned short v[3]; };
struct Forty { double a; int b[8]; };
struct Plus {
    __device__ kiln::half operator()(kiln::half a, kiln::half b) const { return kiln::half(float(a) + float(b)); }
    __device__ Six operator()(Six a, Six b) const {
        for (int i = 0; i < 3; ++i) a.v[i] += b.v[i];
        return a;
    }
    __device__ Forty operator()(Forty a, Forty b) const {
        a.a += b.a;
        for (int i = 0; i < 8; ++i) a.b[i] += b.b[i];
        return a;
    }
};
extern "C" __global__ void kernel(int* out) {
    const int t = threadIdx.x;
    const auto half = kiln::block_reduce<64>(kiln::half(float(t % 4)), Plus{});
    const auto six = kiln::block_reduce<64>(Six{{(unsigned short)t, 1, 2}}, Plus{});
    const auto forty = kiln::block_reduce<64>(Forty{0.5, {t, 0, 0, 0, 0, 0, 0, 1}}, Plus{});
    const auto wide = kiln::block_reduce<64>(1ll << 40, kiln::Sum{});
    out[t] = (float(half) == 96.0f) + 2 * (six.v[0] == 2016 && six.v[1] == 64 && six.v[2] == 128) +
             4 * (forty.a == 32 && forty.b[0] == 2016 && forty.b[7] == 64) + 8 * (wide == 1ll << 46);
})");
    std::vector<int> out(64);
    kernel({}, {64, 1, 1}, 0, out.data());
    EXPECT_THAT(out, testing::Each(15));
}

}  // namespace
}  // namespace kiln
