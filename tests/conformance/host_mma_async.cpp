// SPDX-License-Identifier: Apache-2.0
//
// kiln/async.h on the host: a copy arrives with the wait that covers its group and not before, edges are
// filled with zeros, and misuse is an error.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostAsync, CopiesArriveWithTheWaitForTheirGroup) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const int* in, int* out) {
    __shared__ __align__(16) int tile[16];
    kiln::AsyncCopies<> copies;
    for (int group = 0; group < 4; ++group) {
        copies.copy<4>(tile + 4 * group, in + 4 * group);
        copies.commit();
    }
    for (int i = 0; i < 4; ++i) out[i] = tile[4 * i];
    copies.wait<2>();
    for (int i = 0; i < 4; ++i) out[4 + i] = tile[4 * i];
    copies.commit();  // an empty group
    copies.wait<2>();
    for (int i = 0; i < 4; ++i) out[8 + i] = tile[4 * i];
    copies.wait<0>();
    for (int i = 0; i < 16; ++i) out[12 + i] = tile[i];
})");
    std::vector<int> in(16), out(28);
    for (int i = 0; i < 16; ++i) in[static_cast<std::size_t>(i)] = 100 + i;
    kernel({}, {1, 1, 1}, 0, in.data(), out.data());
    EXPECT_THAT(std::vector<int>(out.begin(), out.begin() + 4), Each(-1));
    EXPECT_THAT(std::vector<int>(out.begin() + 4, out.begin() + 8), ElementsAre(100, 104, -1, -1));
    EXPECT_THAT(std::vector<int>(out.begin() + 8, out.begin() + 12), ElementsAre(100, 104, 108, -1));
    EXPECT_EQ(std::vector<int>(out.begin() + 12, out.end()), in);
}

TEST(HostAsync, ReadsTheSourceAsLateAsItMay) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(int* in, int* out) {
    __shared__ int tile[1];
    kiln::AsyncCopies<> copies;
    copies.copy<1>(tile, in);
    copies.commit();
    in[0] = 2;
    copies.wait<0>();
    out[0] = tile[0];
})");
    int in = 1, out = 0;
    kernel({}, {1, 1, 1}, 0, &in, &out);
    EXPECT_EQ(out, 2);
}

TEST(HostAsync, FillsTheRestWithZeros) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const kiln::half* in, float* out) {
    __shared__ __align__(16) kiln::half tile[9 * 8];
    kiln::AsyncCopies<> copies;
    for (int count = 0; count <= 8; ++count) copies.copy<8>(tile + 8 * count, count == 0 ? nullptr : in, count);
    copies.commit();
    copies.wait<0>();
    for (int i = 0; i < 9 * 8; ++i) out[i] = float(tile[i]);
})");
    alignas(16) half in[8];
    for (int i = 0; i < 8; ++i) in[i] = half(static_cast<float>(i + 1));
    std::vector<float> out(72);
    kernel({}, {1, 1, 1}, 0, static_cast<const half*>(in), out.data());
    for (int count = 0; count <= 8; ++count) {
        for (int i = 0; i < 8; ++i)
            EXPECT_EQ(out[static_cast<std::size_t>(8 * count + i)], i < count ? static_cast<float>(i + 1) : 0)
                << count;
    }
}

// What a thread leaves behind without a wait is gone with it.
TEST(HostAsync, NothingReachesTheNextBlock) {
    const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const int* in, int* out) {
    int* const tile = kiln::dynamic_shared<int>();
    if (blockIdx.x % 2 == 0) {
        kiln::AsyncCopies<> copies;
        copies.copy<1>(tile + threadIdx.x, in);
        copies.commit();
        return;
    }
    tile[threadIdx.x] = int(blockIdx.x);
    __syncthreads();
    kiln::AsyncCopies<> copies;
    copies.commit();
    copies.wait<0>();
    out[blockIdx.x * 32 + threadIdx.x] = tile[31 - threadIdx.x];
})");
    const int in = 77;
    std::vector<int> out(8 * 32, -1);
    kernel({8, 1, 1}, {32, 1, 1}, 128, &in, out.data());
    for (int i = 0; i < 8 * 32; ++i)
        ASSERT_EQ(out[static_cast<std::size_t>(i)], i / 32 % 2 == 0 ? -1 : i / 32);
}

TEST(HostAsync, ReportsMisuse) {
    const auto message = [](const std::string& statement) {
        const HostKernel kernel(R"(
#include "kiln/async.h"
extern "C" __global__ void kernel(const float* in) {
    __shared__ __align__(16) float tile[64];
    kiln::AsyncCopies<4> copies;
    )" + statement + "\n}");
        alignas(16) const float in[64] = {};
        return test::rejected<DeviceError>([&] { kernel({}, {1, 1, 1}, 0, static_cast<const float*>(in)); });
    };
    EXPECT_THAT(message("copies.copy<4>(tile, in + 1);"), HasSubstr("not aligned to its size"));
    EXPECT_THAT(message("copies.copy<2>(tile + 1, in);"), HasSubstr("not aligned to its size"));
    EXPECT_THAT(message("copies.copy<4>(tile, in, 5);"), HasSubstr("more elements than its width"));
    EXPECT_THAT(message("for (int i = 0; i < 5; ++i) copies.copy<1>(tile + i, in);"),
                HasSubstr("the capacity"));
}

}  // namespace
}  // namespace kiln
