// SPDX-License-Identifier: Apache-2.0
//
// Occupancy: what a GPU's driver and profiler said of real launches (data/occupancy_*.csv), worked examples, and
// rules that hold for every architecture. Waves.
#include <gmock/gmock.h>
#include <kiln/error.h>
#include <kiln/occupancy.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "device/driver.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

/// The rows of a table with a head of names; a row may end early, and holds what it has.
using Row = std::map<std::string, std::string>;
std::vector<Row> read_table(const std::filesystem::path& file) {
    std::ifstream input(file);
    const auto split = [](const std::string& line) {
        std::vector<std::string> words;
        std::istringstream stream(line);
        for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
        return words;
    };
    std::string line;
    std::getline(input, line);
    const auto names = split(line);
    std::vector<Row> rows;
    while (std::getline(input, line)) {
        const auto words = split(line);
        Row row;
        for (std::size_t i = 0; i < std::min(words.size(), names.size()); ++i) row[names[i]] = words[i];
        rows.push_back(std::move(row));
    }
    return rows;
}

Backend backend_of(const std::string& arch) { return arch.starts_with("sm_") ? Backend::cuda : Backend::hip; }

Occupancy of(const std::string& arch, int threads, int registers, std::uint64_t shared = 0) {
    return occupancy({threads, registers, 0, shared}, backend_of(arch), arch);
}

std::vector<std::string> all_archs() {
    auto names = known_archs(Backend::cuda);
    for (const std::string& name : known_archs(Backend::hip)) names.push_back(name);
    return names;
}

TEST(Occupancy, AgreesWithWhatWasMeasured) {
    const auto folder = std::filesystem::path(std::getenv("KILN_TEST_SOURCE_DIR")) / "tests/analysis/data";
    int rows = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        const std::string name = file.path().filename();
        if (!name.starts_with("occupancy_") || !name.ends_with(".csv")) continue;
        for (Row& row : read_table(file.path())) {
            ++rows;
            const auto number = [&](const char* column) { return std::stoi(row.at(column)); };
            const BlockNeeds needs{number("threads"), number("registers"),
                                   static_cast<std::uint64_t>(number("static")),
                                   static_cast<std::uint64_t>(number("dynamic"))};
            const Occupancy found = occupancy(needs, backend_of(row["arch"]), row["arch"]);
            const std::string where = name + ", row " + std::to_string(rows);
            EXPECT_EQ(found.blocks, number("blocks")) << where;
            if (!row.contains("limit_threads")) continue;
            // A profiler's limit of shared memory is that of the carve-out that the driver chose.
            const int allocated = number("shared_allocated"), configured = number("shared_configured");
            EXPECT_EQ(found.by_threads, number("limit_threads")) << where;
            EXPECT_EQ(found.by_registers, number("limit_registers")) << where;
            EXPECT_EQ(found.by_blocks, number("limit_blocks")) << where;
            EXPECT_EQ(found.shared_bytes_per_block, static_cast<std::uint64_t>(allocated)) << where;
            EXPECT_EQ(std::min(configured / allocated, found.by_blocks),
                      std::min(number("limit_shared"), found.by_blocks))
                << where;
            EXPECT_GE(found.by_shared, configured / allocated) << where;
            EXPECT_LE(found.shared_bytes_configured, static_cast<std::uint64_t>(configured)) << where;
        }
    }
    EXPECT_GE(rows, 100);
}

// The tile 64, 64, 32 with a pad of 1 in FP16: 256 threads, 8256 bytes.
TEST(Occupancy, TheClassicTile) {
    const std::map<int, int> blocks_by_registers = {{40, 6}, {64, 4}, {126, 2}, {128, 2}, {156, 1}};
    for (const auto& [registers, blocks] : blocks_by_registers) {
        const Occupancy found = of("sm_90a", 256, registers, 8256);
        EXPECT_EQ(found.blocks, blocks) << registers;
        EXPECT_THAT(found.binding, ElementsAre(OccupancyLimit::registers)) << registers;
        EXPECT_EQ(found.shared_bytes_per_block, 9344U);
        EXPECT_EQ(found.by_shared, 24);
        EXPECT_EQ(found.by_threads, 8);
        EXPECT_EQ(found.warps, 8 * blocks);
        EXPECT_DOUBLE_EQ(found.fraction(), blocks / 8.0);
    }
    EXPECT_EQ(of("sm_90a", 256, 126, 8256).registers_for_one_more, 80);
    EXPECT_EQ(of("sm_90a", 256, 156, 8256).registers_for_one_more, 128);
    EXPECT_EQ(of("sm_90a", 256, 126, 8256).registers_per_block, 32768U);
    EXPECT_EQ(of("sm_90a", 256, 32, 8256).registers_for_one_more, std::nullopt);
}

// How many blocks of some bytes fit: 64 KiB of LDS, and 228 KiB of which each block gives 1 to the system.
TEST(Occupancy, SharedMemoryCapacity) {
    struct {
        std::uint64_t bytes;
        int lds, hopper;
    } const expected[] = {
        {1024, 64, 114}, {4096, 16, 45}, {8192, 8, 25},  {8256, 7, 24},  {8704, 7, 24},  {8705, 7, 23},
        {16384, 4, 13},  {16385, 3, 13}, {21504, 3, 10}, {32768, 2, 6},  {32769, 1, 6},  {49152, 1, 4},
        {65536, 1, 3},   {65537, 0, 3},  {116736, 0, 1}, {115712, 0, 2}, {232448, 0, 1}, {232449, 0, 0},
    };
    for (const auto& [bytes, lds, hopper] : expected) {
        EXPECT_EQ(of("gfx90a", 64, 8, bytes).by_shared, lds) << bytes;
        EXPECT_EQ(of("sm_90", 32, 8, bytes).by_shared, hopper) << bytes;
    }
    // RDNA allocates twice as much at a time, from the LDS of two compute units.
    EXPECT_EQ(of("gfx1100", 32, 8, 8256).shared_bytes_per_block, 9216U);
    EXPECT_EQ(of("gfx1100", 32, 8, 8256).by_shared, 14);
    EXPECT_EQ(of("gfx1100", 32, 8, 65537).by_shared, 0);
    // Turing has no system's part, and larger units.
    EXPECT_EQ(of("sm_75", 32, 8, 8256).shared_bytes_per_block, 8448U);
    EXPECT_EQ(of("sm_75", 32, 8, 8256).by_shared, 7);
    EXPECT_EQ(of("sm_75", 32, 8, 0).binding, std::vector{OccupancyLimit::blocks});
}

TEST(Occupancy, CarveOuts) {
    EXPECT_EQ(of("sm_75", 256, 32, 1024).shared_bytes_configured, 32U << 10);
    EXPECT_EQ(of("sm_75", 256, 32, 16384).shared_bytes_configured, 64U << 10);
    EXPECT_EQ(of("sm_86", 256, 32, 16384).shared_bytes_configured, 100U << 10);
    EXPECT_EQ(of("sm_90", 256, 156, 8256).shared_bytes_configured, 16U << 10);
    EXPECT_EQ(of("sm_90", 384, 168, 196672).shared_bytes_configured, 196U << 10);
    EXPECT_EQ(of("sm_90", 384, 168, 229440).shared_bytes_configured, 228U << 10);
}

// 33 registers are given as 40, in four parts of a multiprocessor: 12 warps of each.
TEST(Occupancy, RegistersAreGivenToWarpsInUnits) {
    EXPECT_EQ(of("sm_80", 32, 33).by_registers, 48);
    EXPECT_EQ(of("sm_80", 32, 40).by_registers, 48);
    EXPECT_EQ(of("sm_80", 32, 41).by_registers, 40);
    EXPECT_EQ(of("sm_80", 96, 33).by_registers, 16);
    // 5 warps of 255 registers count as 8 when a launch is checked: 8 * 8192 is just enough.
    EXPECT_EQ(of("sm_80", 160, 255).blocks, 1);
    EXPECT_EQ(of("sm_80", 288, 255).blocks, 0);
    EXPECT_THAT(of("sm_80", 288, 255).binding, ElementsAre(OccupancyLimit::registers));
    EXPECT_EQ(of("sm_80", 288, 255).registers_for_one_more, 168);
}

// Waves per SIMD by vector registers, as LLVM's tables have them.
TEST(Occupancy, AmdWaves) {
    const auto waves = [](const char* arch, int registers) {
        const Occupancy found = of(arch, arch[3] == '1' ? 32 : 64, registers);
        return found.warps / 4;
    };
    struct {
        const char* arch;
        int registers, waves;
    } const expected[] = {
        {"gfx906", 24, 10},  {"gfx906", 25, 9},   {"gfx906", 64, 4},   {"gfx906", 65, 3},
        {"gfx908", 128, 2},  {"gfx908", 256, 1},  {"gfx90a", 64, 8},   {"gfx90a", 65, 7},
        {"gfx90a", 128, 4},  {"gfx90a", 129, 3},  {"gfx942", 256, 2},  {"gfx942", 512, 1},
        {"gfx1030", 64, 16}, {"gfx1030", 65, 12}, {"gfx1030", 256, 4}, {"gfx1100", 96, 16},
        {"gfx1100", 97, 12}, {"gfx1100", 256, 5},
    };
    for (const auto& [arch, registers, count] : expected)
        EXPECT_EQ(waves(arch, registers), count) << arch << " " << registers;
    // A block of several waves holds a barrier; of these a compute unit has 16.
    EXPECT_EQ(of("gfx906", 64, 8).by_blocks, 40);
    EXPECT_EQ(of("gfx906", 128, 8).by_blocks, 16);
    EXPECT_EQ(of("gfx1030", 64, 8).by_blocks, 32);
    EXPECT_EQ(of("gfx90a:sramecc+:xnack-", 256, 100).blocks, 4);
}

// The same figures as where rules are checked.
TEST(Occupancy, AgreesWithTheLimitsOfDevices) {
    for (const std::string& arch : all_archs()) {
        const auto limits = arch_limits(backend_of(arch), arch);
        ASSERT_TRUE(limits) << arch;
        const Occupancy found = of(arch, static_cast<int>(limits->warp_size), 1);
        EXPECT_EQ(found.most_warps * limits->warp_size, limits->threads_per_multiprocessor) << arch;
        EXPECT_EQ(found.by_blocks, limits->blocks_per_multiprocessor) << arch;
        const auto most = static_cast<std::uint64_t>(limits->shared_bytes_per_block_optin);
        EXPECT_GE(of(arch, 32, 1, most).by_shared, 1) << arch;
        EXPECT_EQ(of(arch, 32, 1, most + 1).by_shared, 0) << arch;
    }
}

TEST(Occupancy, MoreOfAnythingNeverHelps) {
    for (const std::string& arch : all_archs()) {
        const int most_registers = arch == "gfx90a" || arch == "gfx942" ? 512 : 255;
        for (const int threads : {32, 96, 128, 256, 320, 1024}) {
            int before = 1 << 20;
            for (int registers = 1; registers <= most_registers; ++registers) {
                const Occupancy found = of(arch, threads, registers, 2048);
                EXPECT_LE(found.blocks, before) << arch << " " << threads << " " << registers;
                EXPECT_GE(found.registers_per_block, static_cast<unsigned>(threads * registers));
                before = found.blocks;
            }
            before = 1 << 20;
            for (std::uint64_t shared = 0; shared < 240 << 10; shared += 500) {
                const Occupancy found = of(arch, threads, 32, shared);
                EXPECT_LE(found.blocks, before) << arch << " " << threads << " " << shared;
                EXPECT_GE(found.shared_bytes_per_block, shared);
                EXPECT_GE(found.shared_bytes_configured,
                          static_cast<unsigned>(found.blocks) * found.shared_bytes_per_block);
                before = found.blocks;
            }
        }
    }
}

// What binds is what has to change: less of it gives more blocks, less of anything else does not.
TEST(Occupancy, WhatBindsBinds) {
    const auto binds = [](const Occupancy& found, OccupancyLimit limit) {
        return std::ranges::find(found.binding, limit) != found.binding.end();
    };
    for (const std::string& arch : all_archs())
        for (const int threads : {64, 192, 256, 512})
            for (const int registers : {16, 40, 72, 168, 250})
                for (const std::uint64_t shared : {0, 3000, 9000, 30000, 60000}) {
                    const std::string where = arch + " " + std::to_string(threads) + " " +
                                              std::to_string(registers) + " " + std::to_string(shared);
                    const Occupancy found = of(arch, threads, registers, shared);
                    ASSERT_FALSE(found.binding.empty()) << where;
                    EXPECT_EQ(found.blocks, std::min({found.by_threads, found.by_registers, found.by_shared,
                                                      found.by_blocks}))
                        << where;
                    EXPECT_LE(found.warps, found.most_warps) << where;
                    const bool alone = found.binding.size() == 1;
                    if (!binds(found, OccupancyLimit::registers)) {
                        EXPECT_EQ(of(arch, threads, 1, shared).blocks, found.blocks) << where;
                    }
                    if (!binds(found, OccupancyLimit::shared)) {
                        EXPECT_EQ(of(arch, threads, registers, 0).blocks, found.blocks) << where;
                    } else if (alone) {
                        EXPECT_GT(of(arch, threads, registers, 0).blocks, found.blocks) << where;
                    }
                    if (alone && binds(found, OccupancyLimit::registers)) {
                        ASSERT_TRUE(found.registers_for_one_more) << where;
                        const int enough = *found.registers_for_one_more;
                        EXPECT_GT(of(arch, threads, enough, shared).blocks, found.blocks) << where;
                        EXPECT_EQ(of(arch, threads, enough + 1, shared).blocks, found.blocks) << where;
                    } else {
                        EXPECT_FALSE(found.registers_for_one_more) << where;
                    }
                }
}

TEST(Occupancy, LimitsThatBindTogether) {
    const Occupancy found = of("sm_90", 256, 32);
    EXPECT_EQ(found.blocks, 8);
    EXPECT_THAT(found.binding, UnorderedElementsAre(OccupancyLimit::threads, OccupancyLimit::registers));
    EXPECT_EQ(name(OccupancyLimit::shared), "shared memory");
    // Registers that are not known never bind.
    EXPECT_THAT(of("sm_90", 256, 0).binding, ElementsAre(OccupancyLimit::threads));
}

TEST(Occupancy, WrongArguments) {
    for (const char* arch : {"", "sm_", "sm_91", "gfx950", "gfx", "x86-64-v3"})
        EXPECT_THROW((void)of(arch, 32, 32), UsageError) << arch;
    EXPECT_THROW((void)occupancy({32, 32, 0, 0}, Backend::hip, "sm_90"), UsageError);
    EXPECT_THROW((void)occupancy({32, 32, 0, 0}, Backend::host, "x86-64-v3"), UsageError);
    for (const int threads : {-1, 0, 1025}) EXPECT_THROW((void)of("sm_90", threads, 32), UsageError);
    for (const int registers : {-1, 256}) EXPECT_THROW((void)of("sm_90", 32, registers), UsageError);
    EXPECT_THROW((void)of("gfx908", 64, 257), UsageError);
    EXPECT_NO_THROW((void)of("gfx90a", 64, 512));
    const std::uint64_t all = ~std::uint64_t{0};
    EXPECT_EQ(occupancy({32, 32, all, all}, Backend::cuda, "sm_90").blocks, 0);
}

TEST(Waves, TailAndMean) {
    const Occupancy two = of("sm_90", 256, 126, 8256);
    const Waves many = waves(4096, two, 132);
    EXPECT_EQ(many.blocks_at_once, 264U);
    EXPECT_NEAR(many.waves, 15.515, 0.001);
    EXPECT_NEAR(many.efficiency, 15.515 / 16, 0.001);
    EXPECT_NEAR(many.mean_occupancy, 0.2424, 0.0001);  // Nsight Compute on an H200: 24.6%
    // 16 blocks on 132 multiprocessors: each that works has one of them. Measured: 12.2%.
    const Waves few = waves(16, two, 132);
    EXPECT_NEAR(few.efficiency, 16 / 264.0, 1e-9);
    EXPECT_DOUBLE_EQ(few.mean_occupancy, 0.125);
    // 256 blocks where four would fit: 1.94 on each. Measured: 24%.
    EXPECT_NEAR(waves(256, of("sm_90", 256, 64, 8256), 132).mean_occupancy, 0.2424, 0.0001);
    const Waves full = waves(528, two, 132);
    EXPECT_DOUBLE_EQ(full.efficiency, 1);
    EXPECT_DOUBLE_EQ(full.mean_occupancy, 0.25);
    EXPECT_DOUBLE_EQ(waves(0, two, 132).waves, 0);
    EXPECT_EQ(waves(7, of("sm_90", 32, 8, 232449), 132).blocks_at_once, 0U);
    EXPECT_EQ(waves(7, two, 0).blocks, 7U);
}

}  // namespace
}  // namespace kiln
