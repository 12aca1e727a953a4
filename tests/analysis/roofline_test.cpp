// SPDX-License-Identifier: Apache-2.0
//
// The roofline, and the table of chips: that its figures fit each other, and how one is found.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/occupancy.h>
#include <kiln/tools/roofline.h>

#include <limits>
#include <set>

namespace kiln {
namespace {

// 4096^3 in FP16 with an FP32 result, on an H200.
TEST(Roofline, Product) {
    const double n = 4096, flops = 2 * n * n * n, bytes = 2 * n * n * 2 + n * n * 4;
    const Roofline found = roofline(flops, bytes, Unit::fma_f32, 66.9, 4800);
    EXPECT_DOUBLE_EQ(found.intensity, n / 4);
    EXPECT_NEAR(found.ridge, 13.94, 0.01);
    EXPECT_FALSE(found.memory_bound);
    EXPECT_NEAR(found.compute_ms, 2.054, 0.001);
    EXPECT_NEAR(found.memory_ms, 0.02796, 0.00001);
    EXPECT_DOUBLE_EQ(found.floor_ms, found.compute_ms);
    EXPECT_DOUBLE_EQ(found.attainable_tflops, 66.9);
    EXPECT_EQ(found.unit, Unit::fma_f32);
}

TEST(Roofline, MemoryBound) {
    // One addition for every 8 bytes.
    const Roofline found = roofline(1e9, 8e9, Unit::fma_f64, 33.5, 4800);
    EXPECT_TRUE(found.memory_bound);
    EXPECT_DOUBLE_EQ(found.attainable_tflops, 0.6);
    EXPECT_DOUBLE_EQ(found.floor_ms, found.memory_ms);
    EXPECT_NEAR(found.floor_ms, 1.6667, 0.0001);
    // Where the roofs meet both take equally long.
    const Roofline ridge = roofline(found.ridge * 1e9, 1e9, Unit::fma_f64, 33.5, 4800);
    EXPECT_NEAR(ridge.compute_ms, ridge.memory_ms, 1e-9);
}

TEST(Roofline, NeedsPositiveNumbers) {
    for (const double wrong : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
        EXPECT_THROW((void)roofline(wrong, 1, Unit::fma_f32, 1, 1), UsageError);
        EXPECT_THROW((void)roofline(1, wrong, Unit::fma_f32, 1, 1), UsageError);
        EXPECT_THROW((void)roofline(1, 1, Unit::fma_f32, wrong, 1), UsageError);
        EXPECT_THROW((void)roofline(1, 1, Unit::fma_f32, 1, wrong), UsageError);
    }
}

/// FP32 multiply-adds of a multiprocessor in one clock. RDNA 3 issues two instructions at once.
int lanes(const std::string& arch) {
    if (arch == "sm_75" || arch == "sm_80" || arch == "gfx906" || arch == "gfx908" || arch == "gfx90a")
        return 64;
    return arch == "gfx1100" ? 256 : 128;
}

// A slip of a digit would show: clocks that nothing has, rates that do not fit each other.
TEST(Chips, FiguresFitEachOther) {
    std::set<std::string> names;
    for (const Chip& chip : chips()) {
        SCOPED_TRACE(chip.name);
        EXPECT_TRUE(names.insert(chip.name).second);
        EXPECT_FALSE(chip.source.empty());
        EXPECT_NO_THROW((void)occupancy(
            {64, 32, 0, 0}, chip.arch.starts_with("sm_") ? Backend::cuda : Backend::hip, chip.arch));
        ASSERT_TRUE(chip.fma_f32_tflops);
        const double ghz =
            *chip.fma_f32_tflops * 1e3 / (2.0 * lanes(chip.arch) * static_cast<double>(chip.multiprocessors));
        EXPECT_GT(ghz, 1.2);
        EXPECT_LT(ghz, 2.7);
        for (const Unit unit : {Unit::fma_f16, Unit::fma_f64, Unit::matrix_f16})
            if (const auto rate = chip.tflops(unit)) {
                const double ratio = *rate / *chip.fma_f32_tflops;
                const bool plausible = unit == Unit::fma_f16   ? ratio > 0.9 && ratio < 4.1
                                       : unit == Unit::fma_f64 ? ratio > 0.015 && ratio < 1.01
                                                               : ratio > 1.9 && ratio < 31;
                EXPECT_TRUE(plausible) << name(unit) << ": " << ratio;
            }
        EXPECT_GE(chip.memory_gbps, 200);
        EXPECT_LE(chip.memory_gbps, 8000);
        EXPECT_LT(chip.measured_copy_gbps, chip.memory_gbps);
    }
}

TEST(Chips, AreFoundByNameAndArchitecture) {
    ASSERT_NE(find_chip("sm_90a"), nullptr);
    EXPECT_EQ(find_chip("sm_90a")->name, "NVIDIA H200");
    EXPECT_EQ(find_chip("sm_90"), find_chip("sm_90a"));
    EXPECT_EQ(find_chip("sm_90a", "NVIDIA H100 PCIe")->multiprocessors, 114);
    EXPECT_EQ(find_chip("sm_90", "NVIDIA H100 NVL")->name, "NVIDIA H200");
    EXPECT_EQ(find_chip("sm_80", "NVIDIA H100 PCIe")->arch, "sm_80");
    EXPECT_EQ(find_chip("gfx90a:sramecc+:xnack-")->name, "AMD Instinct MI250X");
    EXPECT_EQ(find_chip("sm_88"), nullptr);
    for (const char* arch : {"", "sm_", "gfx950", "x86-64-v3"}) EXPECT_EQ(find_chip(arch), nullptr) << arch;
}

TEST(Chips, Units) {
    const Chip& chip = *find_chip("sm_90a", "NVIDIA H200");
    EXPECT_EQ(chip.measured_copy_gbps, 4160);
    EXPECT_EQ(chip.tflops(Unit::fma_f32), 66.9);
    EXPECT_EQ(chip.tflops(Unit::fma_f16), 133.8);
    EXPECT_EQ(chip.tflops(Unit::fma_f64), 33.5);
    EXPECT_EQ(chip.tflops(Unit::matrix_f16), 989.4);
    EXPECT_EQ(find_chip("gfx906")->tflops(Unit::matrix_f16), std::nullopt);
    EXPECT_EQ(name(Unit::matrix_f16), "FP16 tensor/matrix cores");
}

}  // namespace
}  // namespace kiln
