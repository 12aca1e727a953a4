// SPDX-License-Identifier: Apache-2.0
//
// Shuffles and votes of the host backend, against the definition of PTX's shfl.sync computed here.
#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::HasSubstr;

// PTX: mode, segment mask and clamp as __shfl_*_sync passes them.
int ptx_source(int mode, int lane, int b, int width) {
    const int segment = 32 - width, clamp = mode == 1 ? 0 : 31, value = b & 31;
    const int max_lane = (lane & segment) | (clamp & ~segment), min_lane = lane & segment;
    int j = 0;
    bool inside = true;
    switch (mode) {
        case 0:
            j = min_lane | (value & ~segment), inside = j <= max_lane;
            break;
        case 1:
            j = lane - value, inside = j >= max_lane;
            break;
        case 2:
            j = lane + value, inside = j <= max_lane;
            break;
        case 3:
            j = lane ^ value, inside = j <= max_lane;
            break;
    }
    return inside ? j : lane;
}

constexpr const char* kShuffles = R"(
extern "C" __global__ void kernel(int mode, int width, const int* amounts, int count, int* out) {
    const int lane = threadIdx.x;
    for (int i = 0; i < count; ++i) {
        const int b = amounts[i], v = 1000 * i + lane;
        out[i * 32 + lane] = mode == 0   ? __shfl_sync(0xffffffffu, v, b, width)
                             : mode == 1 ? __shfl_up_sync(0xffffffffu, v, b, width)
                             : mode == 2 ? __shfl_down_sync(0xffffffffu, v, b, width)
                                         : __shfl_xor_sync(0xffffffffu, v, b, width);
    }
})";

TEST(HostShuffle, FollowsPtxForEveryModeWidthAndAmount) {
    const Binary binary = test::compile_for_host(kShuffles);
    std::vector<int> amounts;
    for (int b = -3; b < 40; ++b) amounts.push_back(b);
    for (const auto seed : {std::optional<unsigned long long>{}, std::optional(7ull)}) {
        const HostKernel kernel(binary, test::open_host(seed));
        for (int mode = 0; mode < 4; ++mode) {
            for (int width = 1; width <= 32; width *= 2) {
                std::vector<int> out(amounts.size() * 32, -1);
                kernel({}, {32, 1, 1}, 0, mode, width, amounts.data(), static_cast<int>(amounts.size()),
                       out.data());
                for (std::size_t i = 0; i < amounts.size(); ++i) {
                    for (int lane = 0; lane < 32; ++lane) {
                        ASSERT_EQ(out[i * 32 + lane],
                                  static_cast<int>(1000 * i) + ptx_source(mode, lane, amounts[i], width))
                            << "mode " << mode << " width " << width << " amount " << amounts[i] << " lane "
                            << lane;
                    }
                }
            }
        }
    }
}

// Disjoint groups of lanes shuffle at once, in different branches and different numbers of times.
TEST(HostShuffle, KeepsDisjointMasksApart) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(unsigned mask, int* out) {
    const int lane = threadIdx.x;
    int v = lane;
    if (mask >> lane & 1u) {
        for (int i = 0; i < 9; ++i) v = 2 * v + __shfl_sync(mask, v, __ffs(mask) - 1);
    } else {
        for (int i = 0; i < 4; ++i) v = 3 * v + __shfl_sync(~mask, v, __ffs(~mask) - 1);
    }
    __syncwarp();
    out[lane] = v + __shfl_xor_sync(0xffffffffu, v, 1);
})");
    for (unsigned long long seed = 0; seed < 8; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        for (const unsigned mask : {0x1u, 0xffffu, 0x55555555u, 0xf0f0f0f0u, 0x80000001u, 0x7fffffffu}) {
            std::vector<int> v(32), out(32);
            for (int lane = 0; lane < 32; ++lane) v[lane] = lane;
            for (int i = 0; i < 9; ++i) {
                const auto before = v;
                for (int lane = 0; lane < 32; ++lane) {
                    if (mask >> lane & 1u)
                        v[lane] = 2 * v[lane] + before[std::countr_zero(mask)];
                    else if (i < 4)
                        v[lane] = 3 * v[lane] + before[std::countr_zero(~mask)];
                }
            }
            kernel({}, {32, 1, 1}, 0, mask, out.data());
            for (int lane = 0; lane < 32; ++lane)
                ASSERT_EQ(out[lane], v[lane] + v[lane ^ 1]) << mask << " " << lane;
        }
    }
}

TEST(HostShuffle, MovesEveryType) {
    const HostKernel kernel(R"(
template <class T> __device__ bool moves(T mine, T theirs) {
    T got = __shfl_xor_sync(0xffffffffu, mine, 5);
    return __builtin_memcmp(&got, &theirs, sizeof(T)) == 0;
}
extern "C" __global__ void kernel(int* out) {
    const int lane = threadIdx.x, other = lane ^ 5;
    out[lane] = moves(lane, other) + 2 * moves(unsigned(lane), unsigned(other)) +
                4 * moves(lane + 0.5f, other + 0.5f) + 8 * moves(lane / 3.0, other / 3.0) +
                16 * moves(1ll << 40 | lane, 1ll << 40 | other) +
                32 * moves(kiln::half(float(lane)), kiln::half(float(other))) +
                64 * moves(kiln::bfloat16(float(lane)), kiln::bfloat16(float(other))) +
                128 * moves(make_float4(1, 2, 3, lane), make_float4(1, 2, 3, other));
})");
    std::vector<int> out(32);
    kernel({}, {32, 1, 1}, 0, out.data());
    EXPECT_THAT(out, testing::Each(255));
}

// As CUDA's overloads do, which there are of int and wider.
TEST(HostShuffle, OfANarrowIntegerIsAnInt) {
    const HostKernel kernel(R"(
template <class T, class Result = int> __device__ int moves(int value) {
    auto got = __shfl_xor_sync(0xffffffffu, T(value + threadIdx.x), 5);
    static_assert(__is_same(decltype(got), Result), "");
    static_assert(__is_same(decltype(__shfl_sync(1u, T(), 0)), Result), "");
    static_assert(__is_same(decltype(__shfl_up_sync(1u, T(), 1u)), Result), "");
    static_assert(__is_same(decltype(__shfl_down_sync(1u, T(), 1u)), Result), "");
    return got == Result(T(value + (threadIdx.x ^ 5)));
}
extern "C" __global__ void kernel(int* out) {
    out[threadIdx.x] = moves<bool>(-9) + moves<char>(100) + moves<signed char>(100) + moves<unsigned char>(240) +
                       moves<short>(-40) + moves<unsigned short>(65520) + moves<unsigned, unsigned>(-9) +
                       moves<long, long>(-9) + moves<float, float>(-9);
})");
    std::vector<int> out(32);
    kernel({}, {32, 1, 1}, 0, out.data());
    EXPECT_THAT(out, testing::Each(9));
}

// 70 threads: two whole warps and one of six lanes; lanes divisible by five have ended.
TEST(HostVote, CountsLiveLanesOnly) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(unsigned* out) {
    const int t = threadIdx.x;
    if (t % 5 == 0) return;
    __syncwarp();
    out[5 * t] = __ballot_sync(0xffffffffu, t % 2);
    out[5 * t + 1] = __any_sync(0xffffffffu, t == 68);
    out[5 * t + 2] = __all_sync(0xffffffffu, t < 68);
    out[5 * t + 3] = __shfl_down_sync(0xffffffffu, t, 1);
    out[5 * t + 4] = __activemask();
})");
    for (unsigned long long seed = 0; seed < 4; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<unsigned> out(70 * 5, 99);
        kernel({}, {70, 1, 1}, 0, out.data());
        for (unsigned t = 0; t < 70; ++t) {
            if (t % 5 == 0) {
                EXPECT_EQ(out[5 * t], 99u);
                continue;
            }
            const unsigned warp = t / 32;
            unsigned odd = 0;
            for (unsigned l = 0; l < 32 && warp * 32 + l < 70; ++l) {
                const unsigned u = warp * 32 + l;
                if (u % 5 != 0 && u % 2 != 0) odd |= 1u << l;
            }
            EXPECT_EQ(out[5 * t], odd) << t;
            EXPECT_EQ(out[5 * t + 1], warp == 2 ? 1u : 0u) << t;
            EXPECT_EQ(out[5 * t + 2], warp == 2 ? 0u : 1u) << t;
            // The last lane's own value; nothing defined from a lane that has ended, or never was.
            const bool there = (t + 1) % 5 != 0 && t + 1 < 70;
            EXPECT_EQ(out[5 * t + 3], (t + 1) / 32 != warp ? t : there ? t + 1 : 0xffffffffu) << t;
            unsigned live = 0;
            for (unsigned u = warp * 32; u < std::min(70u, warp * 32 + 32); ++u)
                live |= u % 5 != 0 ? 1u << u % 32 : 0u;
            EXPECT_EQ(out[5 * t + 4], live) << t;
        }
    }
}

TEST(HostVote, ReportsALaneThatNeverComes) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(int* out) {
    if (threadIdx.x < 20) out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
    __syncthreads();
})");
    std::vector<int> out(32);
    const auto message = test::rejected<DeviceError>([&] { kernel({3, 1, 1}, {32, 1, 1}, 0, out.data()); });
    EXPECT_THAT(message, HasSubstr("Kernel kernel"));
    EXPECT_THAT(message, HasSubstr("block (0,0,0)"));
    EXPECT_THAT(message, HasSubstr("of 32 threads 0 ended, 12 wait at __syncthreads() and 20 in a vote"));
    EXPECT_THAT(message, HasSubstr("lanes 0xfff00000"));
}

TEST(HostVote, ReportsALaneOutsideItsOwnMask) {
    const HostKernel kernel(R"(extern "C" __global__ void kernel() { __syncwarp(0xfffffff7u); })");
    EXPECT_THAT(test::rejected<DeviceError>([&] { kernel({}, {32, 1, 1}, 0); }), HasSubstr("lane 3 calls"));
}

// On a GPU the value is undefined: a kernel that counts on its own must not look right here.
TEST(HostShuffle, GivesNothingUsefulFromALaneOutsideTheMask) {
    const HostKernel kernel(R"(
extern "C" __global__ void kernel(unsigned* out, float* f) {
    const int lane = threadIdx.x;
    if (lane < 16) {
        out[lane] = __shfl_down_sync(0xffffu, unsigned(lane), 4);
        f[lane] = __shfl_xor_sync(0xffffu, float(lane), 16);
    }
})");
    std::vector<unsigned> out(16);
    std::vector<float> f(16);
    kernel({}, {32, 1, 1}, 0, out.data(), f.data());
    for (unsigned lane = 0; lane < 16; ++lane) {
        EXPECT_EQ(out[lane], lane < 12 ? lane + 4 : 0xffffffffu) << lane;
        EXPECT_TRUE(std::isnan(f[lane])) << lane;
    }
}

TEST(HostShuffle, AWidthThatIsNoPowerOfTwoEndsTheLaunch) {
    for (const char* const width : {"5", "0", "-8", "64"}) {
        const HostKernel kernel(
            std::string("extern \"C\" __global__ void kernel() { __shfl_sync(0xffffffffu, 1, 3, ") + width +
            "); }");
        EXPECT_THAT(test::rejected<DeviceError>([&] {
                        kernel({}, {32, 1, 1}, 0);
                    }),
                    HasSubstr("the width of a shuffle is no power of two up to 32"))
            << width;
    }
}

TEST(HostShuffle, ReducesWarpsOfManyBlocks) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(float* out) {
    __shared__ float part[32];
    const int t = threadIdx.x;
    float v = t + blockIdx.x;
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (t % 32 == 0) part[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < int(blockDim.x) / 32 ? part[t] : 0.0f;
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
        if (t == 0) out[blockIdx.x] = v;
    }
})");
    for (unsigned long long seed = 0; seed < 20; ++seed) {
        const HostKernel kernel(binary, test::open_host(seed));
        std::vector<float> out(50);
        kernel({50, 1, 1}, {1024, 1, 1}, 0, out.data());
        for (int block = 0; block < 50; ++block) ASSERT_EQ(out[block], 1023 * 512 + 1024 * block);
    }
}

}  // namespace
}  // namespace kiln
