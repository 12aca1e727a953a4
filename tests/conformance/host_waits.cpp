// SPDX-License-Identifier: Apache-2.0
//
// Waits of some threads of a block on the host: named barriers and conditions, and what is said of those
// that never come.
#include <gmock/gmock.h>

#include <cstring>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::AllOf;
using testing::HasSubstr;

// Warp 0 produces, the others consume, each side at its own pace: only `full` and `empty` order them.
constexpr const char* kRing = R"(
extern "C" __global__ void kernel(int rounds, int* out) {
    __shared__ int slot[2][32];
    const int t = threadIdx.x, n = blockDim.x;
    if (t < 32) {
        for (int i = 0; i < rounds; ++i) {
            if (i >= 2) kiln::named_barrier_sync(3 + i % 2, n);
            slot[i % 2][t] = 100 * i + t;
            kiln::named_barrier_arrive(1 + i % 2, n);
        }
        return;
    }
    int sum = 0;
    for (int i = 0; i < rounds; ++i) {
        kiln::named_barrier_sync(1 + i % 2, n);
        if (EARLY && i + 2 < rounds) kiln::named_barrier_arrive(3 + i % 2, n);
        sum += (i + 1) * slot[i % 2][(t + i) % 32];
        if (!EARLY && i + 2 < rounds) kiln::named_barrier_arrive(3 + i % 2, n);
    }
    out[blockIdx.x * n + t] = sum;
})";

// early: the others give a slot back before they read it.
Binary ring(bool early) {
    return test::compile_for_host("#define EARLY " + std::to_string(int{early}) + kRing);
}

std::vector<int> run_ring(const Binary& binary, std::optional<unsigned long long> seed, unsigned threads,
                          int rounds) {
    const HostKernel kernel(binary, test::open_host(seed));
    std::vector<int> out(3 * threads);
    kernel({3, 1, 1}, {threads, 1, 1}, 0, rounds, out.data());
    return out;
}

TEST(HostWaits, NamedBarriersOrderSomeThreadsOfABlock) {
    const Binary binary = ring(false);
    constexpr int kRounds = 9;
    for (const unsigned threads : {64u, 96u, 1024u}) {
        std::vector<int> expected(3 * threads);
        for (unsigned i = 0; i < expected.size(); ++i) {
            const int t = static_cast<int>(i % threads);
            for (int r = 0; t >= 32 && r < kRounds; ++r) expected[i] += (r + 1) * (100 * r + (t + r) % 32);
        }
        EXPECT_EQ(run_ring(binary, {}, threads, kRounds), expected);
        for (unsigned long long seed = 0; seed < 20; ++seed)
            ASSERT_EQ(run_ring(binary, seed, threads, kRounds), expected) << seed;
    }
}

// The barrier orders both sides for as long as each waits for the other; its absence must show.
TEST(HostWaits, AMissingNamedBarrierShows) {
    const std::string text = R"(
extern "C" __global__ void kernel(int* out) {
    __shared__ int s[64];
    const int t = threadIdx.x;
    s[t] = t + 1;
    BARRIER
    out[t] = s[t ^ 32];
})";
    const auto run = [](const Binary& binary, unsigned long long seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<int> out(64);
        kernel({}, {64, 1, 1}, 0, out.data());
        return out;
    };
    const Binary with = test::compile_for_host("#define BARRIER kiln::named_barrier_sync(7, 64);" + text);
    const Binary without = test::compile_for_host("#define BARRIER" + text);
    int wrong = 0;
    for (unsigned long long seed = 0; seed < 5; ++seed) {
        const auto right = run(with, seed);
        for (int t = 0; t < 64; ++t) ASSERT_EQ(right[t], (t ^ 32) + 1);
        wrong += run(without, seed) != right;
    }
    EXPECT_EQ(wrong, 5);
}

// The thread that ends a phase lets the others run first, and these write the slot again.
TEST(HostWaits, ABufferGivenBackBeforeItIsReadShows) {
    EXPECT_NE(run_ring(ring(true), {}, 64, 9), run_ring(ring(false), {}, 64, 9));
}

// The last warp of 48 threads has 16 lanes; a GPU counts it as 32.
TEST(HostWaits, AWarpArrivesAsAWhole) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    __shared__ int s[48];
    const int t = threadIdx.x;
    s[t] = t;
    kiln::named_barrier_sync(15, 64);
    out[t] = s[47 - t];
})");
    std::vector<int> out(48);
    kernel({}, {48, 1, 1}, 0, out.data());
    for (int t = 0; t < 48; ++t) EXPECT_EQ(out[t], 47 - t);
}

// Each warp would count as 32 there, so that neither waits for the other.
TEST(HostWaits, HalfAWarpIsNotCountedAtANamedBarrier) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    __shared__ int s[64];
    const int t = threadIdx.x;
    if (t % 2 != 0) return;
    s[t] = t;
    kiln::named_barrier_sync(1, 32);
    out[t] = s[62 - t];
})");
    std::vector<int> out(64);
    EXPECT_THAT(test::rejected<DeviceError>([&] {
                    kernel({}, {64, 1, 1}, 0, out.data());
                }),
                AllOf(HasSubstr("at barrier 1, where 0 of 32 threads have arrived"),
                      HasSubstr("32 lanes of warps of which others have not")));
}

// Any two of four warps meet, whichever lanes come first, and then the other two.
TEST(HostWaits, MoreWarpsComeToANamedBarrierThanItIsFor) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(int* out) {
    const int t = threadIdx.x;
    for (int i = 0; i < 5; ++i) {
        kiln::named_barrier_sync(1, 64);
        out[t] += 1;
    }
})");
    for (unsigned long long seed = 0; seed < 20; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<int> out(128);
        kernel({}, {128, 1, 1}, 0, out.data());
        EXPECT_THAT(out, testing::Each(5)) << seed;
    }
}

// What the arrivals of one block left at a barrier must not count in the next.
TEST(HostWaits, EveryBlockHasNewBarriers) {
    const HostKernel kernel(test::compile_for_host(R"(
extern "C" __global__ void kernel(int* out) {
    __shared__ int s[64];
    const int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    if (blockIdx.x % 2 == 0) {
        if (t < 32) kiln::named_barrier_arrive(9, 64);
        return;
    }
    s[t] = t;
    kiln::named_barrier_sync(9, 64);
    out[blockIdx.x * 64 + t] = s[63 - t];
})"),
                            test::open_host({}, 1));
    std::vector<int> out(10 * 64);
    kernel({10, 1, 1}, {64, 1, 1}, 0, out.data());
    for (int i = 0; i < 640; ++i) ASSERT_EQ(out[i], i / 64 % 2 == 0 ? 0 : 63 - i % 64) << i;
}

TEST(HostWaits, RejectsBarriersThatAGpuDoesNotHave) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(unsigned id, unsigned count, unsigned others) {
    kiln::named_barrier_sync(id, threadIdx.x == 40 ? others : count);
})");
    const auto message = [&](unsigned id, unsigned count, unsigned others) {
        return test::rejected<DeviceError>([&] { kernel({}, {64, 1, 1}, 0, id, count, others); });
    };
    kernel({}, {64, 1, 1}, 0, 1u, 64u, 64u);
    EXPECT_THAT(message(0, 64, 64), AllOf(HasSubstr("barrier 0"), HasSubstr("1 to 15")));
    EXPECT_THAT(message(16, 64, 64), HasSubstr("1 to 15"));
    EXPECT_THAT(message(3, 40, 40), AllOf(HasSubstr("for 40 threads"), HasSubstr("multiple of 32")));
    EXPECT_THAT(message(3, 0, 0), HasSubstr("multiple of 32"));
    EXPECT_THAT(message(3, 64, 32),
                AllOf(HasSubstr("thread (40,0,0)"), HasSubstr("others wait there for 64")));
    const auto missing = message(3, 96, 96);
    EXPECT_THAT(missing,
                AllOf(HasSubstr("64 at named barriers"), HasSubstr("thread (0,0,0), lane 0 of warp 0"),
                      HasSubstr("barrier 3, where 64 of 96 threads have arrived")));
    kernel({}, {64, 1, 1}, 0, 1u, 64u, 64u);  // none the worse for it
}

// A pipeline of stages with counters, like mbarriers on a GPU: each side waits only for a condition.
constexpr const char* kStages = R"(
extern "C" __global__ void kernel(int rounds, int* out) {
    __shared__ int slot[3];
    __shared__ int written, read;
    const int t = threadIdx.x, readers = blockDim.x - 1;
    if (t == 0) written = read = 0;
    __syncthreads();
    if (t == 0) {
        for (int i = 0; i < rounds; ++i) {
            kiln_host::wait_until([&] { return read >= (i - 2) * readers; });
            slot[i % 3] = i * i + 1;
            ++written;
        }
    } else {
        int sum = 0;
        for (int i = 0; i < rounds; ++i) {
            kiln_host::wait_until([&] { return written > i; });
            sum += slot[i % 3] * (threadIdx.x + i);
            ++read;
        }
        out[blockIdx.x * readers + t - 1] = sum;
    }
})";

TEST(HostWaits, ConditionsOrderThreads) {
    const Binary binary = test::compile_for_host(kStages);
    for (const unsigned threads : {2u, 33u, 1024u}) {
        constexpr int kRounds = 20;
        const unsigned readers = threads - 1;
        std::vector<int> expected(4 * readers);
        for (unsigned i = 0; i < expected.size(); ++i) {
            for (int r = 0; r < kRounds; ++r)
                expected[i] += (r * r + 1) * (static_cast<int>(i % readers) + 1 + r);
        }
        for (unsigned long long seed = 0; seed < 10; ++seed) {
            const HostKernel kernel(binary, test::open_host(seed));
            std::vector<int> out(expected.size());
            kernel({4, 1, 1}, {threads, 1, 1}, 0, kRounds, out.data());
            ASSERT_EQ(out, expected) << threads << " threads, seed " << seed;
        }
    }
}

// All are found ready at once; the first to run makes the condition false for the others.
TEST(HostWaits, AConditionIsTrueWhenItsWaitReturns) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    __shared__ int locked, taken, released;
    const int others = blockDim.x - 1;
    if (threadIdx.x == 0) {
        locked = 1;
        taken = released = 0;
    }
    __syncthreads();
    if (int(threadIdx.x) == others) {
        for (int i = 0; i < others; ++i) {
            locked = 0;
            kiln_host::wait_until([&] { return taken == i + 1; });
            ++released;
        }
        return;
    }
    kiln_host::wait_until([&] { return locked == 0; });
    if (locked != 0) __trap();
    locked = 1;
    const int mine = ++taken;
    kiln_host::wait_until([&] { return released >= mine; });
    ++*out;
})");
    int out = 0;
    kernel({}, {256, 1, 1}, 0, &out);
    EXPECT_EQ(out, 255);
}

TEST(HostWaits, AConditionSeesItsOwnThread) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    __shared__ int turn;
    if (threadIdx.x == 0) turn = 63;
    __syncthreads();
    kiln_host::wait_until([&] { return turn == int(threadIdx.x); });
    out[threadIdx.x] = turn--;
})");
    std::vector<int> out(64, -1);
    kernel({}, {64, 1, 1}, 0, out.data());
    for (int t = 0; t < 64; ++t) EXPECT_EQ(out[t], t);
}

TEST(HostWaits, ReportsAConditionThatStaysFalse) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int bad) {
    __shared__ int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 33) kiln_host::wait_until([&] { return flag != 0; });
    if (bad) kiln::named_barrier_sync(2, 64);
    if (threadIdx.x == 0) flag = 1;
    __syncthreads();
})");
    kernel({3, 1, 1}, {64, 1, 1}, 0, 0);
    const auto message = test::rejected<DeviceError>([&] { kernel({3, 1, 1}, {64, 1, 1}, 0, 1); });
    EXPECT_THAT(message,
                AllOf(HasSubstr("0 wait at __syncthreads(), 63 at named barriers, 1 for a condition"),
                      HasSubstr("thread (33,0,0), lane 1 of warp 1, waits in kernel.cu:7 for a condition"),
                      HasSubstr("waits in kernel.cu:8 at barrier 2")));
    kernel({3, 1, 1}, {64, 1, 1}, 0, 0);
}

TEST(HostWaits, ATrapInAConditionNamesWhoWaits) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    __shared__ int ended;
    if (threadIdx.x == 0) ended = 0;
    __syncthreads();
    if (threadIdx.x == 5) {
        int calls = 0;
        kiln_host::wait_until([&] {
            if (++calls == 2) __trap();
            return false;
        });
    }
})");
    int out = 0;
    EXPECT_THAT(test::rejected<DeviceError>([&] {
                    kernel({}, {64, 1, 1}, 0, &out);
                }),
                HasSubstr("thread (5,0,0): __trap()"));
}

// As the prelude has it.
struct alignas(128) PreludeMap {
    const void* base;
    unsigned rank, element_bytes;
    unsigned long long extents[5], stride_bytes[5];
    unsigned box[5];
    unsigned swizzle_bytes;
};

TEST(HostWaits, TensorMapsArriveByValue) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(const float* in, float* out, const __grid_constant__ kiln::TensorMap map) {
    const kiln_host::TensorMap plain = kiln_host::tensor_map(map);
    static_assert(sizeof(map) == 128 && alignof(kiln::TensorMap) == 128, "");
    out[0] = plain.base == in && plain.rank == 2 && plain.element_bytes == 4 && plain.swizzle_bytes == 64;
    out[1] = plain.extents[1] * 1000 + plain.stride_bytes[1] + plain.box[0];
})");
    const auto& bytes = kernel.module().info().argument_bytes;
    ASSERT_TRUE(bytes);
    EXPECT_EQ(*bytes, (std::vector<std::size_t>{8, 8, 128}));
    float in = 0, out[2] = {};
    const PreludeMap map{&in, 2, 4, {16, 7}, {4, 64}, {16, 8}, 64};
    kernel({}, {}, 0, &in, &out[0], map);
    EXPECT_EQ(out[0], 1);
    EXPECT_EQ(out[1], 7064 + 16);
}

}  // namespace
}  // namespace kiln
