// SPDX-License-Identifier: Apache-2.0
//
// Hopper's matrix instruction with A in registers as the host emulates it: which register holds what, as the
// PTX ISA has it, and that mistakes in the order of things show.
#include <gmock/gmock.h>

#include <cstring>
#include <string>
#include <vector>

#include "host_kernel.h"
#include "rejected.h"

namespace kiln {
namespace {

using test::HostKernel;
using testing::HasSubstr;

constexpr unsigned kRegisterDepth = 48;  // of k: three steps

// 64 x 48 times 48 x N by 4 warps that are not the first. a: row-major elements. image: B's bytes as they lie
// in shared memory. The place of each element of A is written out here, apart from the prelude's own tables.
constexpr const char* kProductFromRegisters = R"(
#include "kiln/wgmma_registers.h"
#ifndef FENCE
#define FENCE kiln::wgmma_fence();
#define COMMIT kiln::wgmma_commit();
#define BEFORE_WAIT
#define WAIT kiln::wgmma_wait<0>(sums);
#endif
extern "C" __global__ void kernel(const unsigned char* image, unsigned bytes, const T* a, float* out) {
    unsigned char* const shared = kiln::dynamic_shared<unsigned char>();
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) shared[i] = image[i];
    __syncthreads();
    if (threadIdx.x < 128) return;
    const int thread = threadIdx.x % 128;
    kiln::WgmmaFragments<3> fragments;
    for (int step = 0; step < 3; ++step) {
        for (int i = 0; i < 4; ++i) {
            const int row = thread / 32 * 16 + thread % 32 / 4 + (i == 1 || i == 3 ? 8 : 0);
            const int column = step * 16 + thread % 4 * 2 + (i >= 2 ? 8 : 0);
            fragments.values[step][i] = unsigned(a[row * 48 + column].bits) |
                                        unsigned(a[row * 48 + column + 1].bits) << 16;
        }
    }
    const auto b = B_MN ? kiln::wgmma_mn_major(shared, 8192) : kiln::wgmma_k_major(shared);
    kiln::WgmmaAccumulator<N> sums;
    for (int i = 0; i < N / 2; ++i) sums.values[i] = 0.5f;
    FENCE
    for (int step = 0; step < 3; ++step)
        kiln::wgmma<T, B_MN>(sums, fragments, step, b + kiln::wgmma_advance(step * (B_MN ? 2048 : 32)),
                             ACCUMULATE || step > 0);
    COMMIT
    BEFORE_WAIT
    WAIT
    for (int row = 0; row < sums.kRows; ++row)
        for (int col = 0; col < sums.kCols; ++col)
            out[sums.row_of(thread, row) * N + sums.col_of(thread, col)] = sums(row, col);
})";

std::string text_from_registers(const char* type, unsigned n, bool b_mn, bool accumulate) {
    return "#include \"kiln/device.h\"\nusing T = kiln::" + std::string(type) +
           "; constexpr int N = " + std::to_string(n) + "; constexpr bool B_MN = " + std::to_string(b_mn) +
           ", ACCUMULATE = " + std::to_string(accumulate) + ";" + kProductFromRegisters;
}

template <class T>
struct RegisterProblem {
    RegisterProblem(unsigned n_, bool b_mn)
        : n(n_), a(std::size_t{64} * kRegisterDepth), image(std::size_t{n_} * 128) {
        unsigned seed = n;
        const auto next = [&] {
            seed = seed * 1664525 + 1013904223;
            return static_cast<float>(static_cast<int>(seed >> 24) % 5 - 2);
        };
        for (T& element : a) element = T(next());
        b.resize(std::size_t{n} * 64);
        for (unsigned column = 0; column < n; ++column) {
            for (unsigned k = 0; k < 64; ++k) {
                const T value(b[column * 64 + k] = next());
                const unsigned row = b_mn ? column / 64 * 64 + k : column;
                const unsigned byte = (b_mn ? column % 64 : k) * 2;
                std::memcpy(&image[row * 128 + (byte / 16 ^ row % 8) * 16 + byte % 16], &value, 2);
            }
        }
    }

    std::vector<float> run(const HostKernel& kernel) const {
        std::vector<float> out(std::size_t{64} * n, -1.0F);
        kernel({}, {256, 1, 1}, image.size(), image.data(), static_cast<unsigned>(image.size()), a.data(),
               out.data());
        return out;
    }

    unsigned n;
    std::vector<T> a;
    std::vector<float> b;
    std::vector<unsigned char> image;
};

template <class T>
void expect_product_from_registers(const char* type, unsigned n, bool b_mn, bool accumulate) {
    SCOPED_TRACE(std::string(type) + ", N = " + std::to_string(n) + (b_mn ? ", B along n" : ", B along k"));
    const RegisterProblem<T> problem(n, b_mn);
    const auto out = problem.run(HostKernel(text_from_registers(type, n, b_mn, accumulate)));
    for (unsigned row = 0; row < 64; ++row) {
        for (unsigned column = 0; column < n; ++column) {
            float sum = accumulate ? 0.5F : 0.0F;
            for (unsigned k = 0; k < kRegisterDepth; ++k)
                sum += static_cast<float>(problem.a[row * kRegisterDepth + k]) * problem.b[column * 64 + k];
            ASSERT_EQ(out[row * n + column], sum) << "row " << row << ", column " << column;
        }
    }
}

TEST(HostWgmmaRegisters, MultipliesWhatTheRegistersHold) {
    expect_product_from_registers<half>("half", 64, true, false);
    expect_product_from_registers<half>("half", 128, false, true);
    expect_product_from_registers<bfloat16>("bfloat16", 128, true, true);
}

// A result and an operand have each element in the same thread.
TEST(HostWgmmaRegisters, PackedSumsAreAnOperand) {
    const HostKernel kernel(R"(
#include "kiln/wgmma_registers.h"
extern "C" __global__ void kernel(bool* right) {
    const int thread = threadIdx.x;
    kiln::WgmmaAccumulator<64> sums;
    sums.for_each([&](float& value, int row, int col) {
        value = static_cast<float>(sums.row_of(thread, row) * 8 + sums.col_of(thread, col) % 8);
    });
    kiln::WgmmaFragments<4> fragments;
    kiln::wgmma_pack<kiln::half>(fragments, sums);
    bool all = true;
    for (int step = 0; step < 4; ++step) {
        for (int i = 0; i < 4; ++i) {
            for (int side = 0; side < 2; ++side) {
                const int row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8;
                const int column = step * 16 + i / 2 * 8 + thread % 4 * 2 + side;
                const kiln::half wanted(static_cast<float>(row * 8 + column % 8));
                all = all && (fragments.values[step][i] >> side * 16 & 0xffffu) == wanted.bits;
            }
        }
    }
    right[thread] = all;
})");
    bool right[128] = {};
    kernel({}, {128, 1, 1}, 0, static_cast<bool*>(right));
    for (const bool each : right) EXPECT_TRUE(each);
}

TEST(HostWgmmaRegisters, MistakesInTheOrderShow) {
    const RegisterProblem<half> problem(64, true);
    const std::string fence = "kiln::wgmma_fence();", commit = "kiln::wgmma_commit();",
                      wait = "kiln::wgmma_wait<0>(sums);";
    const auto run = [&](const std::string& fence_text, const std::string& commit_text,
                         const std::string& before, const std::string& wait_text) {
        return problem.run(HostKernel("#define FENCE " + fence_text + "\n#define COMMIT " + commit_text +
                                      "\n#define BEFORE_WAIT " + before + "\n#define WAIT " + wait_text +
                                      "\n" + text_from_registers("half", 64, true, false)));
    };
    const auto right = run(fence, commit, "", wait);
    EXPECT_NE(run(fence, commit, "", ""), right) << "no wait";
    EXPECT_NE(run(fence, "", "", wait), right) << "no commit";
    EXPECT_EQ(run(fence, commit, "", wait + " fragments.values[0][0] = 0;"), right);
    EXPECT_THAT(
        test::rejected<DeviceError>([&] { run(fence, commit, "fragments.values[2][3] ^= 1;", wait); }),
        HasSubstr("registers that a wgmma reads were written before the wait"));
    EXPECT_THAT(test::rejected<DeviceError>([&] { run("", commit, "", wait); }),
                HasSubstr("without a wgmma_fence"));
}

}  // namespace
}  // namespace kiln
