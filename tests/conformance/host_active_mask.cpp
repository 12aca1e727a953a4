// SPDX-License-Identifier: Apache-2.0
//
// __activemask() of the host backend: the lanes that a GPU would have together in a branch, whatever the compiler does.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "host_kernel.h"

namespace kiln {
namespace {

using test::HostKernel;

/// Of the warp of thread t, among `threads`: those for which is(u) is true.
template <class Is>
unsigned lanes_that(unsigned t, unsigned threads, Is is) {
    unsigned lanes = 0;
    for (unsigned u = t / 32 * 32; u < std::min(threads, t / 32 * 32 + 32); ++u)
        lanes |= is(u) ? 1u << u % 32 : 0u;
    return lanes;
}

// In branches, in functions that are called in several of them, and after them; some lanes have ended.
TEST(HostActiveMask, HasTheLanesOfTheBranch) {
    const Binary binary = test::compile_for_host(R"(
__device__ inline unsigned counted(unsigned* count) {
    const unsigned lanes = __activemask();
    if (int(threadIdx.x % 32) == __ffs(lanes) - 1) atomicAdd(count, __popc(lanes));
    return lanes;
}
__device__ __noinline__ void called(unsigned* count, unsigned* lanes) { *lanes = counted(count); }
extern "C" __global__ void kernel(const int* kind, unsigned* counts, unsigned* out) {
    const int t = threadIdx.x, k = kind[t];
    if (k == 9) return;
    unsigned* o = out + 4 * t;
    if (k > 5) o[0] = __activemask();
    if (k == 0) o[1] = counted(counts);
    else if (k == 1) o[1] = counted(counts + 1);
    else if (k < 6) o[1] = counted(counts + 2);
    o[2] = __activemask();
    if (k % 2) called(counts + 3, o + 3);
    else called(counts + 4, o + 3);
})");
    std::vector<int> kind(150);
    for (std::size_t t = 0; t < kind.size(); ++t) kind[t] = static_cast<int>(t * t / 3 % 10);
    const auto same = [&](unsigned t, auto is) {
        return lanes_that(t, 150, [&](unsigned u) { return kind[u] != 9 && is(kind[u]); });
    };
    for (unsigned long long seed = 0; seed < 8; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<unsigned> counts(5), expected_counts(5), out(4 * kind.size(), 7);
        kernel({}, {150, 1, 1}, 0, kind.data(), counts.data(), out.data());
        for (unsigned t = 0; t < kind.size(); ++t) {
            const int k = kind[t];
            const unsigned* const o = &out[4 * t];
            if (k == 9) {
                EXPECT_EQ(o[2], 7u);
                continue;
            }
            const auto in = [](int n) { return n < 2 ? n : n < 6 ? 2 : 3; };
            EXPECT_EQ(o[0], k > 5 ? same(t, [](int n) { return n > 5; }) : 7u) << t;
            EXPECT_EQ(o[1], in(k) < 3 ? same(t, [&](int n) { return in(n) == in(k); }) : 7u) << t;
            EXPECT_EQ(o[2], same(t, [](int) { return true; })) << t;
            EXPECT_EQ(o[3], same(t, [&](int n) { return n % 2 == k % 2; })) << t;
            if (in(k) < 3) ++expected_counts[in(k)];
            ++expected_counts[k % 2 ? 3 : 4];
        }
        EXPECT_EQ(counts, expected_counts);
    }
}

// Compilers copy what is between two tests of the same condition.
TEST(HostActiveMask, HasAllLanesBetweenTwoBranches) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(const int* kind, unsigned* out) {
    const int t = threadIdx.x;
    const bool is_first = kind[t] < 5;
    unsigned sum = 3;
    if (is_first) sum = out[t] * 5;
    unsigned lanes = __activemask();
    if (is_first) lanes += sum;
    for (int i = 0; i < 3; ++i) {
        if (is_first) sum += lanes * i;
        lanes ^= __activemask() * (i + 1);
    }
    out[t] = lanes;
    out[70 + t] = sum;
})");
    std::vector<int> kind(70);
    for (std::size_t t = 0; t < kind.size(); ++t) kind[t] = static_cast<int>(t * 7 % 9);
    for (const auto seed : {std::optional<unsigned long long>{}, std::optional(7ull)}) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<unsigned> out(140, 1);
        kernel({}, {70, 1, 1}, 0, kind.data(), out.data());
        for (unsigned t = 0; t < 70; ++t) {
            const unsigned all = t < 64 ? ~0u : 0x3fu;
            const unsigned first = all + (kind[t] < 5 ? 5 : 0);
            EXPECT_EQ(out[t], first ^ all ^ all * 2 ^ all * 3) << t;
        }
    }
}

// Lanes leave a loop at different times, and meet behind it.
TEST(HostActiveMask, HasTheLanesThatAreStillInTheLoop) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(const int* rounds, unsigned* out) {
    const int t = threadIdx.x;
    unsigned* o = out + 9 * t;
    for (int i = 0; i < rounds[t]; ++i) o[i] = __activemask();
    o[8] = __activemask();
})");
    std::vector<int> rounds(70);
    for (std::size_t t = 0; t < rounds.size(); ++t) rounds[t] = static_cast<int>(t * 7 % 9);
    for (unsigned long long seed = 0; seed < 4; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<unsigned> out(9 * rounds.size(), 7);
        kernel({}, {70, 1, 1}, 0, rounds.data(), out.data());
        for (unsigned t = 0; t < rounds.size(); ++t) {
            EXPECT_EQ(out[9 * t + 8], lanes_that(t, 70, [](unsigned) { return true; })) << t;
            for (int i = 0; i < 8; ++i) {
                const unsigned expected =
                    i < rounds[t] ? lanes_that(t, 70, [&](unsigned u) { return i < rounds[u]; }) : 7u;
                EXPECT_EQ(out[9 * t + i], expected) << t << " " << i;
            }
        }
    }
}

// Lanes that wait at barriers, in votes and for conditions don't count, nor does the call wait for them.
TEST(HostActiveMask, LeavesOutLanesThatWaitElsewhere) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(unsigned* out) {
    __shared__ volatile int flag;
    const int t = threadIdx.x, lane = t % 32;
    if (t == 0) flag = 0;
    __syncthreads();
    if (lane < 8) {
        __syncwarp(0xffu);
        out[t] = __activemask();
        __syncthreads();
    } else if (lane < 16) {
        __syncwarp(0xffffff00u);
        __syncthreads();
    } else if (lane < 24) {
        kiln_host::wait_until([] { return flag != 0; });
        out[t] = __activemask();
        __syncwarp(0xffffff00u);
        __syncthreads();
    } else {
        out[t] = __activemask();
        if (t == 31) flag = 1;
        __syncwarp(0xffffff00u);
        __syncthreads();
    }
})");
    for (unsigned long long seed = 0; seed < 8; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<unsigned> out(96, 7);
        kernel({}, {96, 1, 1}, 0, out.data());
        for (unsigned t = 0; t < 96; ++t) {
            const unsigned group = t % 32 / 8;
            EXPECT_EQ(out[t], group == 1 ? 7u : 0xffu << 8 * group) << t;
        }
    }
}

}  // namespace
}  // namespace kiln
