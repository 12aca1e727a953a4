// SPDX-License-Identifier: Apache-2.0
//
// The emulated matrix instructions of kiln/mfma.h against plain products, by the layouts of AMD's matrix
// instruction calculator, which are written down here a second time.
#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "host_kernel.h"

namespace kiln {
namespace {

using test::HostKernel;

// k blocks of `depth` elements of A's rows and B's columns lie in groups of `size` lanes; the sums of a group
// are four rows of C, then the next four of the same group 256 / size rows further down.
constexpr const char* kMfmaProduct = R"(
#include "kiln/mfma.h"
extern "C" __global__ void kernel(const T* a, const T* b, float* c) {
    constexpr int kGroups = 64 / SIZE, kSteps = kGroups * DEPTH;
    const int wave = threadIdx.x / 64, lane = threadIdx.x % 64;
    a += wave * SIZE * kSteps;
    b += wave * SIZE * kSteps;
    c += wave * SIZE * SIZE;
    kiln::Vec<T, DEPTH> a_values, b_values;
    for (int i = 0; i < DEPTH; ++i) {
        const int k = DEPTH * (lane / SIZE) + i;
        a_values[i] = a[lane % SIZE * kSteps + k];
        b_values[i] = b[k * SIZE + lane % SIZE];
    }
    kiln::MfmaSums<SIZE> sums;
    for (int repeat = 0; repeat < 3; ++repeat) kiln::NAME(sums, a_values, b_values);
    for (int r = 0; r < SIZE * SIZE / 64; ++r) {
        const int row = r / 4 * (256 / SIZE) + lane / SIZE * 4 + r % 4;
        c[row * SIZE + lane % SIZE] = sums[r];
    }
})";

struct Instruction {
    std::string name;
    int size;
    int depth;
};

template <class T>
void expect_products(const std::string& type, const std::vector<Instruction>& instructions) {
    std::mt19937 random(11);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (const auto& [name, size, depth] : instructions) {
        SCOPED_TRACE(name);
        const Binary binary = test::compile_for_host(
            "using T = " + type + ";\nconstexpr int SIZE = " + std::to_string(size) +
            ", DEPTH = " + std::to_string(depth) + ";\n#define NAME " + name + "\n" + kMfmaProduct);
        constexpr int kWaves = 3;
        const int steps = 64 / size * depth;
        const auto at = [](auto& values, int i) -> auto& { return values[static_cast<std::size_t>(i)]; };
        std::vector<T> a(static_cast<std::size_t>(kWaves * size * steps)), b(a.size());
        for (T& value : a) value = T(uniform(random));
        for (T& value : b) value = T(uniform(random));
        for (unsigned long long seed = 0; seed < 3; ++seed) {
            const HostKernel kernel(binary, test::open_host(seed));
            std::vector<float> c(static_cast<std::size_t>(kWaves * size * size), std::nanf(""));
            kernel({}, {64 * kWaves, 1, 1}, 0, a.data(), b.data(), c.data());
            for (int i = 0; i < kWaves * size * size; ++i) {
                const int wave = i / (size * size), row = i / size % size, col = i % size;
                double sum = 0, magnitude = 0;
                for (int k = 0; k < steps; ++k) {
                    const double product = double{float(at(a, (wave * size + row) * steps + k))} *
                                           double{float(at(b, (wave * steps + k) * size + col))};
                    sum += 3 * product;
                    magnitude += 3 * std::abs(product);
                }
                ASSERT_LE(std::abs(double{at(c, i)} - sum), magnitude * 0x1p-22) << "element " << i;
            }
        }
    }
}

TEST(HostMfma, MultipliesHalf) {
    expect_products<half>("kiln::half", {{"mfma_f32_32x32x8f16", 32, 4}, {"mfma_f32_16x16x16f16", 16, 4}});
}
TEST(HostMfma, MultipliesBfloat16) {
    expect_products<bfloat16>("kiln::bfloat16", {{"mfma_f32_32x32x8bf16_1k", 32, 4},
                                                 {"mfma_f32_16x16x16bf16_1k", 16, 4},
                                                 {"mfma_f32_32x32x4bf16", 32, 2},
                                                 {"mfma_f32_16x16x8bf16", 16, 2}});
}
TEST(HostMfma, MultipliesFloat) {
    expect_products<float>("float", {{"mfma_f32_32x32x2f32", 32, 1}, {"mfma_f32_16x16x4f32", 16, 1}});
}

TEST(HostMfma, FragmentsAreThoseOfTheInstructions) {
    const HostKernel kernel(R"(
#include "kiln/mfma.h"
template <int SIZE> __device__ int differ(int lane) {
    using F = kiln::MfmaFragment<SIZE>;
    int wrong = F::kSums != SIZE * SIZE / 64 || F::a_row(lane) != lane % SIZE || F::b_col(lane) != lane % SIZE;
    for (int i = 0; i < 4; ++i) wrong += F::k(lane, i, 4) != 4 * (lane / SIZE) + i;
    for (int r = 0; r < F::kSums; ++r)
        wrong += F::c_col(lane) != lane % SIZE || F::c_row(lane, r) != r / 4 * (256 / SIZE) + lane / SIZE * 4 + r % 4;
    return wrong;
}
extern "C" __global__ void kernel(int* out) { out[threadIdx.x] = differ<32>(threadIdx.x) + differ<16>(threadIdx.x); })");
    std::vector<int> out(64, -1);
    kernel({}, {64, 1, 1}, 0, out.data());
    EXPECT_THAT(out, testing::Each(0));
}

}  // namespace
}  // namespace kiln
