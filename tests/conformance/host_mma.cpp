// SPDX-License-Identifier: Apache-2.0
//
// The emulated matrix instructions of kiln/mma.h against plain products and against the layouts that the PTX
// ISA draws, which are written down here a second time.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::HasSubstr;

// Element i of A in PTX: row groupID for a0, a1, a4, a5, else groupID + 8; column 2 threadID_in_group + (i &
// 1) for i < 4, 8 more beyond; and likewise B and C.
constexpr const char* kMmaProduct = R"(
#include "kiln/mma.h"
extern "C" __global__ void kernel(const T* a, const T* b, float* c) {
    const int group = threadIdx.x >> 2, thread = threadIdx.x & 3;
    unsigned a_registers[4], b_registers[2];
    for (int r = 0; r < 4; ++r) {
        unsigned short pair[2];
        for (int e = 0; e < 2; ++e) {
            const int row = r == 0 || r == 2 ? group : group + 8;
            const int col = 2 * thread + e + (r < 2 ? 0 : 8);
            pair[e] = a[16 * row + col].bits;
        }
        a_registers[r] = pair[0] | unsigned(pair[1]) << 16;
    }
    for (int r = 0; r < 2; ++r) {
        unsigned short pair[2];
        for (int e = 0; e < 2; ++e) pair[e] = b[8 * (2 * thread + e + 8 * r) + group].bits;
        b_registers[r] = pair[0] | unsigned(pair[1]) << 16;
    }
    float sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = c[8 * (i < 2 ? group : group + 8) + 2 * thread + (i & 1)];
    kiln::mma_m16n8k16<T>(sums, a_registers, b_registers[0], b_registers[1]);
    for (int i = 0; i < 4; ++i) c[8 * (i < 2 ? group : group + 8) + 2 * thread + (i & 1)] = sums[i];
})";

template <class T>
void expect_product(const std::string& type) {
    const Binary binary = test::compile_for_host("using T = kiln::" + type + ";\n" + kMmaProduct);
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (unsigned long long seed = 0; seed < 4; ++seed) {
        std::vector<T> a(16 * 16), b(16 * 8);
        std::vector<float> c(16 * 8);
        for (T& value : a) value = T(uniform(random));
        for (T& value : b) value = T(uniform(random));
        for (float& value : c) value = uniform(random);
        std::vector<double> expected(c.begin(), c.end());
        for (std::size_t i = 0; i < 16; ++i) {
            for (std::size_t j = 0; j < 8; ++j) {
                for (std::size_t k = 0; k < 16; ++k)
                    expected[8 * i + j] += double{float(a[16 * i + k])} * double{float(b[8 * k + j])};
            }
        }
        const HostKernel kernel(binary, test::open_host(seed));
        kernel({}, {32, 1, 1}, 0, a.data(), b.data(), c.data());
        for (std::size_t i = 0; i < c.size(); ++i)
            ASSERT_LE(std::abs(double{c[i]} - expected[i]), std::abs(expected[i]) * 0x1p-23)
                << type << " " << i;
    }
}

TEST(HostMma, MultipliesHalf) { expect_product<half>("half"); }
TEST(HostMma, MultipliesBfloat16) { expect_product<bfloat16>("bfloat16"); }

// With the tables of MmaFragment, several warps at once and all that a template does: rows from shared memory
// through ldmatrix, A and B stored either way.
TEST(HostMma, MultipliesWhatLdmatrixReads) {
    const HostKernel kernel(R"(
#include "kiln/mma.h"
extern "C" __global__ void kernel(const kiln::half* a, const kiln::half* b, int* c) {
    using F = kiln::MmaFragment;
    __shared__ __align__(16) kiln::half tile_a[16 * 16], tile_at[16 * 16], tile_b[16 * 8], tile_bt[8 * 16];
    const int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) tile_a[i] = a[i], tile_at[i % 16 * 16 + i / 16] = a[i];
    for (int i = threadIdx.x; i < 128; i += blockDim.x) tile_b[i] = b[i], tile_bt[i % 8 * 16 + i / 8] = b[i];
    __syncthreads();
    const int row = lane % 8, low = lane / 8 % 2, high = lane / 16;
    unsigned a_registers[2][4], b_registers[2][2];
    kiln::ldmatrix_x4(a_registers[0], tile_a + (low * 8 + row) * 16 + high * 8);
    kiln::ldmatrix_x4_trans(a_registers[1], tile_at + (high * 8 + row) * 16 + low * 8);
    kiln::ldmatrix_x2_trans(b_registers[0], tile_b + (low * 8 + row) * 8);
    kiln::ldmatrix_x2(b_registers[1], tile_bt + row * 16 + low * 8);
    for (int which = 0; which < 4; ++which) {
        float sums[4] = {};
        const auto& b_pair = b_registers[which / 2];
        kiln::mma_m16n8k16<kiln::half>(sums, a_registers[which % 2], b_pair[0], b_pair[1]);
        for (int i = 0; i < 4; ++i)
            c[(threadIdx.x / 32 * 4 + which) * 128 + F::c_row(lane, i) * 8 + F::c_col(lane, i)] = int(sums[i]);
    }
})");
    std::mt19937 random(3);
    std::vector<half> a(256), b(128);
    for (half& value : a) value = half(static_cast<float>(random() % 9) - 4);
    for (half& value : b) value = half(static_cast<float>(random() % 9) - 4);
    std::vector<int> expected(128), c(3 * 4 * 128, -1);
    for (std::size_t i = 0; i < 16; ++i) {
        for (std::size_t j = 0; j < 8; ++j) {
            for (std::size_t k = 0; k < 16; ++k)
                expected[8 * i + j] += static_cast<int>(float(a[16 * i + k]) * float(b[8 * k + j]));
        }
    }
    kernel({}, {96, 1, 1}, 0, a.data(), b.data(), c.data());
    for (std::size_t i = 0; i < c.size(); ++i) ASSERT_EQ(c[i], expected[i % 128]) << i;
}

// Each element of A, B and C is held by exactly one lane, and two neighbours share a register.
TEST(HostMma, FragmentsCoverTheMatrices) {
    const HostKernel kernel(R"(
#include "kiln/mma.h"
extern "C" __global__ void kernel(int* a, int* b, int* c) {
    using F = kiln::MmaFragment;
    const int lane = threadIdx.x;
    for (int i = 0; i < 8; ++i) a[16 * F::a_row(lane, i) + F::a_col(lane, i)] = 8 * lane + i;
    for (int i = 0; i < 4; ++i) b[8 * F::b_row(lane, i) + F::b_col(lane, i)] = 4 * lane + i;
    for (int i = 0; i < 4; ++i) c[8 * F::c_row(lane, i) + F::c_col(lane, i)] = 4 * lane + i;
})");
    std::vector<int> a(256, -1), b(128, -1), c(128, -1);
    kernel({}, {32, 1, 1}, 0, a.data(), b.data(), c.data());
    for (std::size_t i = 0; i < 256; i += 2) EXPECT_EQ(a[i] % 2 == 0 ? a[i] + 1 : -1, a[i + 1]) << i;
    for (std::size_t i = 0; i < 128; i += 2) EXPECT_EQ(c[i] % 2 == 0 ? c[i] + 1 : -1, c[i + 1]) << i;
    for (std::size_t i = 0; i < 128; i += 16)
        for (std::size_t j = 0; j < 8; ++j) EXPECT_EQ(b[i + j] % 2 == 0 ? b[i + j] + 1 : -1, b[i + j + 8]);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    std::sort(c.begin(), c.end());
    for (int i = 0; i < 256; ++i) EXPECT_EQ(a[static_cast<std::size_t>(i)], i);
    for (int i = 0; i < 128; ++i) EXPECT_EQ(b[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(b, c);
}

TEST(HostMma, Packs) {
    const HostKernel kernel(R"(
#include "kiln/mma.h"
extern "C" __global__ void kernel(unsigned* out) {
    out[0] = kiln::pack2<kiln::half>(1.0f, -2.0f);
    out[1] = kiln::pack2<kiln::bfloat16>(1.0f, -2.0f);
})");
    unsigned out[2];
    kernel({}, {1, 1, 1}, 0, &out[0]);
    EXPECT_EQ(out[0], 0xc0003c00u);
    EXPECT_EQ(out[1], 0xc0003f80u);
}

TEST(HostMma, ReportsMissingLanesAndMisalignedRows) {
    const HostKernel partial(R"(
#include "kiln/mma.h"
extern "C" __global__ void kernel(float* out) {
    float sums[4] = {};
    const unsigned a[4] = {};
    kiln::mma_m16n8k16<kiln::half>(sums, a, 0, 0);
    out[threadIdx.x] = sums[0];
})");
    std::vector<float> out(32);
    EXPECT_THAT(test::rejected<DeviceError>([&] {
                    partial({}, {24, 1, 1}, 0, out.data());
                }),
                HasSubstr("need all 32 lanes"));
    const HostKernel misaligned(R"(
#include "kiln/mma.h"
extern "C" __global__ void kernel(unsigned* out) {
    __shared__ __align__(16) kiln::half tile[33 * 8];
    unsigned registers[4];
    kiln::ldmatrix_x4(registers, tile + threadIdx.x * 8 + 1);
    out[threadIdx.x] = registers[0];
})");
    std::vector<unsigned> words(32);
    EXPECT_THAT(test::rejected<DeviceError>([&] {
                    misaligned({}, {32, 1, 1}, 0, words.data());
                }),
                HasSubstr("not aligned to 16 bytes"));
}

}  // namespace
}  // namespace kiln
