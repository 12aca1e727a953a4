// SPDX-License-Identifier: Apache-2.0
//
// __match_any_sync, __match_all_sync and __reduce_*_sync of the host backend, against loops over the lanes: all lanes, some,
// warps that are not whole, and lanes that have ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "host_kernel.h"

namespace kiln {
namespace {

using test::HostKernel;

constexpr unsigned kMasks[] = {~0u, 0xffffu, 0x55555555u, 0x80000001u, 0x7ffffffeu, 1u << 9};

/// The lanes of `mask` that there are in a block of `threads`, those that ended left out.
unsigned taking_part(unsigned mask, unsigned threads, unsigned ended) {
    return mask & ~ended & (threads >= 32 ? ~0u : (1u << threads) - 1);
}

template <class Use>
void for_each_lane(unsigned lanes, const Use& use) {
    for (; lanes != 0; lanes &= lanes - 1) use(static_cast<unsigned>(std::countr_zero(lanes)));
}

template <class T>
class HostMatch : public testing::Test {};

template <class T>
const char* name_of() {
    if constexpr (std::is_same_v<T, int>) return "int";
    if constexpr (std::is_same_v<T, unsigned>) return "unsigned";
    if constexpr (std::is_same_v<T, long>) return "long";
    if constexpr (std::is_same_v<T, unsigned long long>) return "unsigned long long";
    if constexpr (std::is_same_v<T, float>) return "float";
    if constexpr (std::is_same_v<T, double>) return "double";
}

using MatchedTypes = testing::Types<int, unsigned, long, unsigned long long, float, double>;
TYPED_TEST_SUITE(HostMatch, MatchedTypes);

TYPED_TEST(HostMatch, GivesTheLanesWithTheSameBits) {
    using T = TypeParam;
    const Binary binary = test::compile_for_host(std::string(R"(
extern "C" __global__ void kernel(unsigned mask, unsigned ended, const )") +
                                                 name_of<T>() +
                                                 R"(* x, unsigned* any, unsigned* all, int* same) {
    const unsigned lane = threadIdx.x;
    if (ended >> lane & 1u) return;
    if (mask >> lane & 1u) {
        any[lane] = __match_any_sync(mask, x[lane]);
        all[lane] = __match_all_sync(mask, x[lane], same + lane);
    }
})");
    std::vector<T> few(32), equal(32, static_cast<T>(-3));
    for (unsigned i = 0; i < 32; ++i) few[i] = static_cast<T>(static_cast<int>(i * i % 5) - 2);
    if constexpr (sizeof(T) == 8) {  // only the upper half differs
        for (unsigned i = 0; i < 32; i += 3) few[i] = static_cast<T>(1ull << 40);
    }
    if constexpr (std::numeric_limits<T>::is_iec559) {
        few[7] = few[9] = std::numeric_limits<T>::quiet_NaN();  // the same bits
        few[11] = T(-0.0);
    }
    for (const unsigned long long seed : {1ull, 2ull}) {
        const HostKernel kernel(binary, test::open_host(seed));
        for (const auto& x : {few, equal}) {
            for (const unsigned threads : {32u, 13u}) {
                for (const unsigned mask : kMasks) {
                    for (const unsigned ended : {0u, 0x10021u}) {
                        std::vector<unsigned> any(32, 7), all(32, 7);
                        std::vector<int> same(32, 7);
                        kernel({}, {threads, 1, 1}, 0, mask, ended, x.data(), any.data(), all.data(),
                               same.data());
                        const unsigned part = taking_part(mask, threads, ended);
                        for (unsigned lane = 0; lane < 32; ++lane) {
                            unsigned expected = 0;
                            for_each_lane(part, [&](unsigned other) {
                                if (std::memcmp(&x[other], &x[lane], sizeof(T)) == 0) expected |= 1u << other;
                            });
                            const bool is_in = (part >> lane & 1u) != 0;
                            ASSERT_EQ(any[lane], is_in ? expected : 7u) << mask << " " << lane;
                            ASSERT_EQ(all[lane], !is_in             ? 7u
                                                 : expected == part ? part
                                                                    : 0u)
                                << mask << " " << lane;
                            ASSERT_EQ(same[lane], is_in ? expected == part : 7) << mask << " " << lane;
                        }
                    }
                }
            }
        }
    }
}

TEST(HostWarpReduce, CombinesWhatTheLanesHold) {
    const Binary binary = test::compile_for_host(R"(
extern "C" __global__ void kernel(unsigned mask, unsigned ended, const unsigned* x, unsigned* out) {
    const unsigned lane = threadIdx.x, u = x[lane];
    if (ended >> lane & 1u) return;
    if (mask >> lane & 1u) {
        unsigned* o = out + 9 * lane;
        const int i = int(u);
        *o++ = __reduce_add_sync(mask, u); *o++ = __reduce_min_sync(mask, u); *o++ = __reduce_max_sync(mask, u);
        *o++ = __reduce_and_sync(mask, u); *o++ = __reduce_or_sync(mask, u); *o++ = __reduce_xor_sync(mask, u);
        *o++ = unsigned(__reduce_add_sync(mask, i)); *o++ = unsigned(__reduce_min_sync(mask, i));
        *o++ = unsigned(__reduce_max_sync(mask, i));
        static_assert(__is_same(decltype(__reduce_min_sync(mask, i)), int), "");
    }
})");
    std::vector<unsigned> x(32);
    for (unsigned i = 0; i < 32; ++i) x[i] = (i * 0x9e3779b9u ^ 0x40404u) | 0x100u;
    for (const unsigned long long seed : {1ull, 2ull}) {
        const HostKernel kernel(binary, test::open_host(seed));
        for (const unsigned threads : {32u, 13u}) {
            for (const unsigned mask : kMasks) {
                for (const unsigned ended : {0u, 0x10021u}) {
                    std::vector<unsigned> out(9 * 32, 7);
                    kernel({}, {threads, 1, 1}, 0, mask, ended, x.data(), out.data());
                    const unsigned part = taking_part(mask, threads, ended);
                    unsigned sum = 0, least = ~0u, most = 0, both = ~0u, either = 0, odd = 0;
                    int low = std::numeric_limits<int>::max(), high = std::numeric_limits<int>::min();
                    for_each_lane(part, [&](unsigned lane) {
                        sum += x[lane], both &= x[lane], either |= x[lane], odd ^= x[lane];
                        least = std::min(least, x[lane]), most = std::max(most, x[lane]);
                        low = std::min(low, static_cast<int>(x[lane]));
                        high = std::max(high, static_cast<int>(x[lane]));
                    });
                    const std::vector<unsigned> expected = {sum,
                                                            least,
                                                            most,
                                                            both,
                                                            either,
                                                            odd,
                                                            sum,
                                                            static_cast<unsigned>(low),
                                                            static_cast<unsigned>(high)};
                    for (unsigned lane = 0; lane < 32; ++lane) {
                        const std::vector<unsigned> found(out.begin() + 9 * lane, out.begin() + 9 * lane + 9);
                        ASSERT_EQ(found, (part >> lane & 1u) != 0 ? expected : std::vector<unsigned>(9, 7))
                            << mask << " " << lane;
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace kiln
