// SPDX-License-Identifier: Apache-2.0
//
// Blocks per multiprocessor, limit by limit.
//
// NVIDIA: CUDA C++ Programming Guide (warps, blocks, registers, shared memory per multiprocessor and its
// carve-outs) and what the toolkit's cuda_occupancy.h says of allocation: registers in units of 256 per warp, in
// four parts of the multiprocessor; shared memory in units of 128 bytes (256 on 7.5) with 1 KiB for the system
// from 8.0 on. tests/analysis holds it to an H200's driver; other architectures are computed, not measured.
// AMD: computed, not measured. LLVM's AMDGPU target for the sizes (base/arch_facts); waves are counted as HIP's
// hipOccupancyMaxActiveBlocksPerMultiprocessor does: four SIMDs hold as many waves each as the registers of one
// allow, and blocks take what there is of them together.
#include <kiln/error.h>
#include <kiln/occupancy.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/arch_facts.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();
constexpr std::uint64_t kKilobyte = 1024;
constexpr int kThreadsPerBlock = 1024;
// What may be set aside of a multiprocessor's L1 as shared memory, as far as the architecture has it.
constexpr std::uint64_t kCarveOutKilobytes[] = {8, 16, 32, 64, 100, 132, 164, 196, 228};
constexpr int kSimds = 4;  // AMD; NVIDIA's multiprocessors have four parts, too

template <class T>
T round_up(T value, T granule) {
    return (value + granule - 1) / granule * granule;
}

/// Where no shared memory is asked for there is no limit; no sum may wrap around either.
int blocks_of_shared(std::uint64_t per_block, std::uint64_t most_per_block, std::uint64_t total) {
    if (per_block == 0) return kUnlimited;
    return per_block > most_per_block ? 0 : static_cast<int>(total / per_block);
}

void check(const BlockNeeds& needs, int most_registers, const std::string& arch) {
    if (needs.threads < 1 || needs.threads > kThreadsPerBlock)
        throw UsageError(formatted("a block has 1 to {} threads, not {}", kThreadsPerBlock, needs.threads));
    if (needs.registers < 0 || needs.registers > most_registers)
        throw UsageError(formatted("a thread has up to {} registers on {}, not {}", most_registers, arch,
                                   needs.registers));
}

/// One architecture; the limits do not know of each other.
struct Multiprocessor {
    virtual ~Multiprocessor() = default;

    virtual int by_registers(int registers, int warps) const = 0;
    virtual std::uint64_t registers_per_block(int registers, int warps) const = 0;
    virtual int by_blocks(int warps) const = 0;
    virtual std::uint64_t shared_bytes_per_block(std::uint64_t bytes) const = 0;
    /// bytes: of all blocks that run at once
    virtual std::uint64_t shared_bytes_configured(std::uint64_t bytes) const = 0;

    int warp_size = 32;
    int most_warps = 0;
    int most_registers = 0;
    std::uint64_t shared_bytes = 0;
    std::uint64_t most_shared_bytes_per_block = 0;  ///< as allocated
};

struct CudaMultiprocessor final : Multiprocessor {
    static constexpr int kRegisters = 65536;  // of a multiprocessor and the most of a block
    static constexpr int kRegisterUnit = 256;

    explicit CudaMultiprocessor(const CudaArch& arch)
        : blocks(arch.blocks_per_multiprocessor),
          reserved(arch.number >= 80 ? kKilobyte : 0),
          unit(arch.number >= 80 ? 128 : 256),
          smallest_carve_out(arch.number >= 80 ? 8 : 32) {
        most_warps = arch.threads_per_multiprocessor / warp_size;
        most_registers = 255;
        shared_bytes = static_cast<unsigned>(arch.shared_kilobytes_per_multiprocessor) * kKilobyte;
        most_shared_bytes_per_block =
            static_cast<unsigned>(arch.shared_kilobytes_per_block) * kKilobyte + reserved;
    }

    static int registers_per_warp(int registers) {
        return round_up(std::max(registers, 1) * 32, kRegisterUnit);
    }
    int by_registers(int registers, int warps) const override {
        const int per_warp = registers_per_warp(registers);
        // A launch is checked as if the warps of a block filled the four parts evenly.
        if (per_warp * round_up(warps, kSimds) > kRegisters) return 0;
        return kRegisters / kSimds / per_warp * kSimds / warps;
    }
    std::uint64_t registers_per_block(int registers, int warps) const override {
        return static_cast<std::uint64_t>(registers_per_warp(registers)) * static_cast<std::uint64_t>(warps);
    }
    int by_blocks(int) const override { return blocks; }
    std::uint64_t shared_bytes_per_block(std::uint64_t bytes) const override {
        return round_up(bytes + reserved, unit);
    }
    std::uint64_t shared_bytes_configured(std::uint64_t bytes) const override {
        for (const std::uint64_t kilobytes : kCarveOutKilobytes)
            if (kilobytes >= smallest_carve_out && kilobytes * kKilobyte >= bytes)
                return kilobytes * kKilobyte;
        return shared_bytes;
    }

    int blocks;
    std::uint64_t reserved, unit, smallest_carve_out;
};

struct HipMultiprocessor final : Multiprocessor {
    explicit HipMultiprocessor(const HipArch& of) : arch(of) {
        warp_size = arch.warp_size;
        most_warps = arch.waves_per_multiprocessor;
        most_registers = arch.registers_per_thread;
        shared_bytes = static_cast<unsigned>(arch.shared_kilobytes_per_multiprocessor) * kKilobyte;
        most_shared_bytes_per_block = 64 * kKilobyte;
    }

    int granted(int registers) const { return round_up(std::max(registers, 1), arch.register_granule); }
    int by_registers(int registers, int warps) const override {
        return arch.registers_per_simd / granted(registers) * kSimds / warps;
    }
    std::uint64_t registers_per_block(int registers, int warps) const override {
        return static_cast<std::uint64_t>(granted(registers)) *
               static_cast<std::uint64_t>(warps * arch.warp_size);
    }
    int by_blocks(int warps) const override { return warps == 1 ? most_warps : arch.blocks_of_waves; }
    std::uint64_t shared_bytes_per_block(std::uint64_t bytes) const override {
        return round_up(bytes, static_cast<std::uint64_t>(arch.shared_granule));
    }
    std::uint64_t shared_bytes_configured(std::uint64_t) const override { return shared_bytes; }

    const HipArch& arch;
};

Occupancy occupancy_of(const BlockNeeds& needs, const Multiprocessor& multiprocessor,
                       const std::string& arch) {
    check(needs, multiprocessor.most_registers, arch);
    const int warps = (needs.threads + multiprocessor.warp_size - 1) / multiprocessor.warp_size;

    Occupancy result;
    result.most_warps = multiprocessor.most_warps;
    result.by_threads = multiprocessor.most_warps / warps;
    result.by_registers = multiprocessor.by_registers(needs.registers, warps);
    result.registers_per_block = multiprocessor.registers_per_block(needs.registers, warps);
    result.by_blocks = multiprocessor.by_blocks(warps);
    // Each part is cut to what no block has, so that the sum does not wrap around.
    constexpr std::uint64_t kTooMuch = 1 << 30;
    result.shared_bytes_per_block = multiprocessor.shared_bytes_per_block(
        std::min(needs.static_shared_bytes, kTooMuch) + std::min(needs.dynamic_shared_bytes, kTooMuch));
    const int by_shared =
        blocks_of_shared(result.shared_bytes_per_block, multiprocessor.most_shared_bytes_per_block,
                         multiprocessor.shared_bytes);

    result.blocks = std::min({result.by_threads, result.by_registers, by_shared, result.by_blocks});
    result.by_shared = by_shared == kUnlimited ? result.by_blocks : by_shared;
    if (result.by_threads == result.blocks) result.binding.push_back(OccupancyLimit::threads);
    if (result.by_registers == result.blocks) result.binding.push_back(OccupancyLimit::registers);
    if (by_shared == result.blocks) result.binding.push_back(OccupancyLimit::shared);
    if (result.by_blocks == result.blocks) result.binding.push_back(OccupancyLimit::blocks);
    result.warps = result.blocks * warps;
    result.shared_bytes_configured = multiprocessor.shared_bytes_configured(
        static_cast<std::uint64_t>(result.blocks) * result.shared_bytes_per_block);

    if (result.binding == std::vector{OccupancyLimit::registers})
        for (int registers = needs.registers - 1; registers > 0 && !result.registers_for_one_more;
             --registers)
            if (multiprocessor.by_registers(registers, warps) > result.blocks)
                result.registers_for_one_more = registers;
    return result;
}

}  // namespace

inline namespace KILN_ABI {

std::string_view name(OccupancyLimit limit) {
    switch (limit) {
        case OccupancyLimit::threads:
            return "threads";
        case OccupancyLimit::registers:
            return "registers";
        case OccupancyLimit::shared:
            return "shared memory";
        case OccupancyLimit::blocks:
            return "blocks";
    }
    return "unknown";
}

Occupancy occupancy(const BlockNeeds& needs, Backend backend, const std::string& arch) {
    if (backend == Backend::cuda)
        if (const CudaArch* const found = find_cuda_arch(arch))
            return occupancy_of(needs, CudaMultiprocessor(*found), arch);
    if (backend == Backend::hip)
        if (const HipArch* const found = find_hip_arch(arch))
            return occupancy_of(needs, HipMultiprocessor(*found), arch);
    throw UsageError("the occupancy of \"" + arch + "\" (" + std::string(name(backend)) +
                     ") is not known; it is of " + gpu_arch_names());
}

Waves waves(std::uint64_t blocks, const Occupancy& occupancy, std::int64_t multiprocessors) {
    Waves result;
    result.blocks = blocks;
    if (multiprocessors <= 0 || occupancy.blocks <= 0) return result;
    const auto processors = static_cast<std::uint64_t>(multiprocessors);
    result.blocks_at_once = processors * static_cast<std::uint64_t>(occupancy.blocks);
    if (blocks == 0) return result;
    const auto at_once = static_cast<double>(result.blocks_at_once);
    result.waves = static_cast<double>(blocks) / at_once;
    result.efficiency = result.waves / std::ceil(result.waves);
    // The last wave's blocks are distributed one to each multiprocessor first.
    const std::uint64_t full = blocks / result.blocks_at_once, rest = blocks % result.blocks_at_once;
    const std::uint64_t busy = full * processors + std::min(rest, processors);
    const double blocks_per_busy = static_cast<double>(blocks) / static_cast<double>(busy);
    result.mean_occupancy = occupancy.fraction() * blocks_per_busy / occupancy.blocks;
    return result;
}

}  // namespace KILN_ABI
}  // namespace kiln
