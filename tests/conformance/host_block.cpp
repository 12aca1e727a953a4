// SPDX-License-Identifier: Apache-2.0
//
// Blocks of the host backend: barriers, shared memory, indices, the order of threads, and failures.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <vector>

#include "format/format.h"
#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::Each;
using testing::HasSubstr;

TEST(HostBlock, CountsPredicatesAtBarriers) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(int* out) {
    const int t = threadIdx.x;
    if (t >= 90) return;
    for (int i = 0; i < 3; ++i) {
        out[t * 9 + 3 * i] = __syncthreads_count(t > 10 * i);
        out[t * 9 + 3 * i + 1] = __syncthreads_and(t >= i);
        out[t * 9 + 3 * i + 2] = __syncthreads_or(t == 88 + i);
    }
})");
    for (unsigned long long seed = 0; seed < 5; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<int> out(90 * 9, -1);
        kernel({}, {100, 1, 1}, 0, out.data());
        for (int t = 0; t < 90; ++t) {
            for (int i = 0; i < 3; ++i) {
                EXPECT_EQ(out[t * 9 + 3 * i], 89 - 10 * i);
                EXPECT_EQ(out[t * 9 + 3 * i + 1], i == 0);
                EXPECT_EQ(out[t * 9 + 3 * i + 2], i < 2);
            }
        }
    }
}

// Whatever blocks before it left there, and so that a missing initialisation shows.
TEST(HostBlock, SharedMemoryIsPoisonedWhereThereIsASeed) {
    const Binary binary = test::compile_for_host(R"(
__device__ __noinline__ int* counter() {
    static __shared__ int count;
    return &count;
}
extern "C" __global__ void kernel(int* out) {
    __shared__ float value;
    if (blockIdx.x == 0) value = 2;
    extern __shared__ int dynamic[];
    out[3 * blockIdx.x] = value == 2;
    out[3 * blockIdx.x + 1] = (*counter())++;
    out[3 * blockIdx.x + 2] = dynamic[8]++;
})");
    for (int threads = 1; threads <= 2; ++threads) {
        const HostKernel kernel(binary, test::open_host(1, threads));
        std::vector<int> out(3 * 50);
        for (int launch = 0; launch < 2; ++launch) {
            kernel({50, 1, 1}, {1, 1, 1}, 36, out.data());
            constexpr std::uint32_t kKinds[] = {0x7b7b7b7b, 0xfbfbfbfb, 0xffffffff, 0};
            for (std::size_t block = 0; block < 50; ++block) {
                EXPECT_EQ(out[3 * block], block == 0) << block;
                const int kind = static_cast<int>(kKinds[(block + 1) % std::size(kKinds)]);  // the seed is 1
                EXPECT_EQ(out[3 * block + 1], kind) << block;
                EXPECT_EQ(out[3 * block + 2], kind) << block;
            }
        }
    }
}

constexpr const char* kNeighbour = R"(
extern "C" __global__ void kernel(int rounds, int* out) {
    __shared__ int s[1024];
    const int t = threadIdx.x, n = blockDim.x;
    int v = t;
    for (int i = 0; i < rounds; ++i) {
        s[t] = v;
        FIRST_BARRIER
        v = s[t == 0 ? n - 1 : t - 1] + 1;
        SECOND_BARRIER
    }
    out[blockIdx.x * n + t] = v;
})";

std::string neighbour(const std::string& first, const std::string& second) {
    return "#define FIRST_BARRIER " + first + "\n#define SECOND_BARRIER " + second + "\n" + kNeighbour;
}

std::vector<int> run_neighbour(const Binary& binary, unsigned long long seed, unsigned threads, int rounds) {
    const HostKernel kernel(binary, test::open_host(seed));
    std::vector<int> out(7 * threads);
    kernel({7, 1, 1}, {threads, 1, 1}, 0, rounds, out.data());
    return out;
}

TEST(HostBlock, GivesTheSameUnderEveryOrder) {
    const Binary binary = test::compile_for_host(neighbour("__syncthreads();", "__syncthreads();"));
    for (const unsigned threads : {1u, 31u, 256u, 1024u}) {
        std::vector<int> expected(7 * threads);
        for (unsigned i = 0; i < expected.size(); ++i)
            expected[i] = static_cast<int>((i % threads + threads * 20 - 10) % threads) + 10;
        for (unsigned long long seed = 0; seed < 20; ++seed)
            ASSERT_EQ(run_neighbour(binary, seed, threads, 10), expected);
    }
}

TEST(HostBlock, ShowsAMissingBarrier) {
    const auto right =
        run_neighbour(test::compile_for_host(neighbour("__syncthreads();", "__syncthreads();")), 0, 64, 10);
    for (const auto& text : {neighbour("", "__syncthreads();"), neighbour("__syncthreads();", "")}) {
        const Binary binary = test::compile_for_host(text);
        int wrong = 0;
        for (unsigned long long seed = 0; seed < 5; ++seed)
            wrong += run_neighbour(binary, seed, 64, 10) != right;
        EXPECT_GE(wrong, 4);
    }
}

TEST(HostBlock, RunsAnOrderThatItsSeedAloneDecides) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(int* turn, int* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = turn[blockIdx.x]++; })");
    const auto order = [&](std::optional<unsigned long long> seed, int threads) {
        const HostKernel kernel(binary, test::open_host(seed, threads));
        std::vector<int> turn(5), out(5 * 100);
        kernel({5, 1, 1}, {100, 1, 1}, 0, turn.data(), out.data());
        return out;
    };
    std::vector<int> ascending(500);
    for (int i = 0; i < 500; ++i) ascending[i] = i % 100;
    EXPECT_EQ(order({}, 2), ascending);
    EXPECT_EQ(order(3, 1), order(3, 4));
    std::set<std::vector<int>> orders;
    for (unsigned long long seed = 0; seed < 10; ++seed) orders.insert(order(seed, 2));
    EXPECT_EQ(orders.size(), 10u);
}

TEST(HostBlock, HasStaticAndDynamicSharedMemory) {
    const HostKernel kernel(R"(
template <int N> __device__ float* scratch() {
    __shared__ float s[N];
    return s;
}
extern "C" __global__ void kernel(int n, unsigned long long* address, float* out) {
    __shared__ float tile[16][17];
    alignas(16) __shared__ kiln::half flags[64];
    float* dynamic = kiln::dynamic_shared<float>();
    const int x = threadIdx.x, y = threadIdx.y, t = y * 16 + x;
    tile[y][x] = t;
    if (t < 64) flags[t] = kiln::half(float(t));
    scratch<256>()[t] = 2 * t;
    for (int i = t; i < n; i += 256) dynamic[i] = i;
    __syncthreads();
    if (t == 0) address[blockIdx.x] = (unsigned long long)(dynamic);
    float sum = tile[x][y] + scratch<256>()[255 - t] + float(flags[63 - t % 64]);
    for (int i = 0; i < n; i += 256) sum += dynamic[i + (255 - t)];
    out[blockIdx.x * 256 + t] = sum;
})");
    EXPECT_EQ(kernel.module().info().static_shared_bytes, 16 * 17 * 4 + 64 * 2 + 256 * 4);
    constexpr int kBlocks = 40, kFloats = 50 * 1024;  // 200 KiB
    std::vector<unsigned long long> address(kBlocks);
    std::vector<float> out(kBlocks * 256);
    kernel({kBlocks, 1, 1}, {16, 16, 1}, kFloats * 4, kFloats, address.data(), out.data());
    for (const auto a : address) EXPECT_EQ(a % 1024, 0u);
    for (int i = 0; i < kBlocks * 256; ++i) {
        const int t = i % 256, x = t % 16, y = t / 16;
        float expected = static_cast<float>(x * 16 + y + 2 * (255 - t) + (63 - t % 64));
        for (int j = 0; j < kFloats; j += 256) expected += static_cast<float>(j + 255 - t);
        ASSERT_EQ(out[i], expected) << i;
    }
}

TEST(HostBlock, NumbersThreadsAndBlocksInThreeDimensions) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    const dim3 grid = gridDim, block = blockDim;
    const int b = (blockIdx.z * grid.y + blockIdx.y) * grid.x + blockIdx.x;
    const int t = (threadIdx.z * block.y + threadIdx.y) * block.x + threadIdx.x;
    out[b * block.x * block.y * block.z + t] += 1 + b * 1000 + t;
    __syncthreads();
    out[b * block.x * block.y * block.z + t] += __shfl_sync(0xffffffffu, t, 0) * 1000000;
})");
    const Dim3 grid{3, 5, 7}, block{5, 4, 6};
    std::vector<int> out(105 * 120);
    kernel(grid, block, 0, out.data());
    for (int b = 0; b < 105; ++b) {
        for (int t = 0; t < 120; ++t) ASSERT_EQ(out[b * 120 + t], 1 + b * 1000 + t + t / 32 * 32 * 1000000);
    }
}

TEST(HostBlock, RunsEachOfManyBlocksOnce) {
    const HostKernel kernel(
        R"(extern "C" __global__ void kernel(unsigned char* out) { ++out[blockIdx.y * gridDim.x + blockIdx.x]; })");
    std::vector<unsigned char> out(100'003 * 3);
    kernel({100'003, 3, 1}, {1, 1, 1}, 0, out.data());
    EXPECT_THAT(out, Each(1));
}

TEST(HostBlock, ReportsABarrierThatCanNotComplete) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(unsigned bad) {
    __shared__ int s;
    s = 0;
    if (blockIdx.x == bad && threadIdx.x == 40) __syncwarp(0xffffffffu);
    __syncthreads();
})");
    kernel({8, 1, 1}, {64, 1, 1}, 0, 99u);
    const auto message = test::rejected<DeviceError>([&] { kernel({8, 1, 1}, {64, 1, 1}, 0, 5u); });
    EXPECT_THAT(message, HasSubstr("block (5,0,0)"));
    EXPECT_THAT(message, HasSubstr("63 wait at __syncthreads() and 1 in a vote"));
    EXPECT_THAT(message, HasSubstr("thread (40,0,0), lane 8 of warp 1"));
    kernel({8, 1, 1}, {64, 1, 1}, 0, 99u);  // the device is none the worse for it
}

TEST(HostBlock, EndsTheLaunchAtATrap) {
    const HostKernel trap(R"(
extern "C" __global__ void kernel(int bad) {
    __syncthreads();
    if (int(blockIdx.x) == bad && threadIdx.x == 7) __trap();
    __syncthreads();
})");
    for (int i = 0; i < 20; ++i) {
        const auto message = test::rejected<DeviceError>([&] { trap({9, 1, 1}, {256, 1, 1}, 0, 4); });
        EXPECT_THAT(message, HasSubstr("block (4,0,0)"));
        EXPECT_THAT(message, HasSubstr("thread (7,0,0): __trap()"));
        trap({9, 1, 1}, {256, 1, 1}, 0, -1);
    }
    const HostKernel check(R"(extern "C" __global__ void kernel(int n) { assert(n > 1 && "too few"); })");
    check({}, {}, 0, 2);
    EXPECT_THAT(test::rejected<DeviceError>([&] { check({}, {}, 0, 1); }),
                HasSubstr("kernel.cu:2: assertion failed: n > 1"));
    const HostKernel throws(R"(extern "C" __global__ void kernel() { throw 1; })");
    EXPECT_THAT(test::rejected<DeviceError>([&] {
                    throws({}, {4, 1, 1}, 0);
                }),
                HasSubstr("thread (0,0,0) threw"));
}

TEST(HostBlock, HoldsLargeLocalArrays) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    volatile int local[16384];
    for (int i = 0; i < 16384; ++i) local[i] = i * int(threadIdx.x);
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < 16384; i += 1024) sum += local[i];
    out[threadIdx.x] = sum;
})");
    std::vector<int> out(1024);
    kernel({}, {1024, 1, 1}, 0, out.data());
    for (int t = 0; t < 1024; ++t) ASSERT_EQ(out[t], t * 1024 * 120);
}

// The message is that of the block that failed, whatever its number.
TEST(HostBlock, BlocksThatWaitForOneThatFailedEnd) {
    const Binary binary = test::compile_for_host(R"(
#include "kiln/first_block.h"
extern "C" __global__ void kernel(unsigned bad, unsigned* state, unsigned* waiting) {
    if (blockIdx.x != bad) {
        atomicAdd(waiting, 1u);
        kiln::await_first_block(state);
    }
    while (atomicAdd(waiting, 0u) != gridDim.x - 1) {
    }
    __trap();
})");
    for (const unsigned bad : {0U, 2U}) {
        const HostKernel kernel(binary, test::open_host({}, 3));
        unsigned state = 0, waiting = 0;
        const std::string message = test::rejected<DeviceError>([&] {
            kernel({3, 1, 1}, {1, 1, 1}, 0, bad, &state, &waiting);
        });
        EXPECT_THAT(message, HasSubstr(formatted("in block ({},0,0)", bad)));
        EXPECT_THAT(message, HasSubstr("__trap()"));
    }
}

// Numbers of any bits, zero and NaN among them. Their sum depends on the order.
TEST(HostBlock, TheLastAddsUpWhatTheOthersPublish) {
    const HostKernel kernel(test::compile_for_host(R"(
#include "kiln/flagged_float.h"
extern "C" __global__ void kernel(const float* numbers, unsigned long long* words, float* sums) {
    const unsigned last = gridDim.x - 1;
    if (blockIdx.x < last)
        kiln::publish(words + blockIdx.x, numbers[blockIdx.x]);
    else
        for (unsigned i = 0; i < 2; ++i) sums[i] = kiln::sum_published<4>(words + i, (last + 1 - i) / 2, 2);
})"),
                            test::open_host({}, 4));
    constexpr unsigned kBlocks = 24;
    constexpr float kRounded[] = {1e8F, 1.0F, -1e8F, 0.0F, 3.0F};
    std::vector<float> numbers(kBlocks);
    for (unsigned i = 0; i < kBlocks; ++i) numbers[i] = kRounded[i / 2 % 5] + (i % 2 == 0 ? 0.0F : 0.5F);
    std::vector<unsigned long long> words(kBlocks);
    for (const bool with_nan : {false, true}) {
        if (with_nan) numbers[5] = std::nanf("");
        float sums[2] = {-1, -1}, expected[2] = {0, 0};
        for (unsigned i = 0; i + 1 < kBlocks; ++i) expected[i % 2] += numbers[i];
        kernel({kBlocks, 1, 1}, {1, 1, 1}, 0, numbers.data(), words.data(), sums);
        EXPECT_EQ(sums[0], expected[0]);
        EXPECT_THAT(sums[1], testing::NanSensitiveFloatEq(expected[1]));
        EXPECT_THAT(words, testing::Each(0U)) << "for the next launch";
    }
}

TEST(HostBlock, OneThatWaitsForANumberEndsWhereAnotherFailed) {
    const HostKernel kernel(test::compile_for_host(R"(
#include "kiln/flagged_float.h"
extern "C" __global__ void kernel(unsigned long long* words, unsigned* waiting, float* sum) {
    if (blockIdx.x == 1) {
        atomicAdd(waiting, 1u);
        *sum = kiln::sum_published<1>(words, 1, 1);
    } else {
        while (atomicAdd(waiting, 0u) == 0) {
        }
        __trap();
    }
})"),
                            test::open_host({}, 2));
    unsigned long long word = 0;
    unsigned waiting = 0;
    float sum = 0;
    const std::string message = test::rejected<DeviceError>([&] {
        kernel({2, 1, 1}, {1, 1, 1}, 0, &word, &waiting, &sum);
    });
    EXPECT_THAT(message, HasSubstr("in block (0,0,0)"));
}

}  // namespace
}  // namespace kiln
