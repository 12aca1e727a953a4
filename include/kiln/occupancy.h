// SPDX-License-Identifier: Apache-2.0
//
// What an architecture can do, and how much of it a launch can use: blocks per multiprocessor (compute unit
// on AMD) and which limit binds, waves. Pure functions, thread-safe.
#pragma once

#include <kiln/types.h>
#include <kiln/version.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {
inline namespace KILN_ABI {

/// Arithmetic units.
enum class Unit {
    fma_f32,  ///< FP32 multiply-add outside tensor and matrix cores
    fma_f16,  ///< packed FP16
    fma_f64,
    matrix_f16,  ///< FP16 or BF16 inputs, FP32 accumulation; dense
};

/// "FP32 FMA", "FP16 tensor/matrix cores", ...
std::string_view name(Unit unit);

/// A product as it is sold: what the roofline is drawn with where there is no device to ask.
struct Chip {
    std::string name;                  ///< as the driver calls it: "NVIDIA H200"
    std::string arch;                  ///< "sm_90a"
    std::int64_t multiprocessors = 0;  ///< compute units on AMD
    double memory_gbps = 0;            ///< of the data sheet, 1e9 bytes per second
    /// What a copy reaches of memory_gbps; measured by us or 0.
    double measured_copy_gbps = 0;
    std::int64_t l2_bytes = 0;  ///< 0: not known
    /// The data sheet's peak of a unit in 1e12 operations per second, a multiply-add being two; nullopt:
    /// not there.
    std::optional<double> fma_f32_tflops;
    std::optional<double> fma_f16_tflops;     ///< the same, packed FP16
    std::optional<double> fma_f64_tflops;     ///< the same, FP64
    std::optional<double> matrix_f16_tflops;  ///< the same, tensor cores or matrix cores
    std::string source;                       ///< the document

    /// The peak of `unit`: one of the four above.
    std::optional<double> tflops(Unit unit) const;
};

/// The table; one or more chips per architecture, the first of each being its default.
const std::vector<Chip>& chips();
/// The chip of a device's name, else the first of the architecture ("sm_90a", "gfx90a:xnack-"; the suffix of
/// a CUDA name does not matter). nullptr: none is known.
const Chip* find_chip(const std::string& arch, const std::string& device_name = {});

/// What one block needs.
struct BlockNeeds {
    int threads = 0;  ///< of a block
    /// Per thread; 0: not known, and no limit. AMD: vector registers; on gfx90a and later accumulation registers
    /// included, on gfx908 the larger of the two counts. Scalar registers are not counted: on gfx9 more than 80
    /// of them (100 on gfx90a) could bind.
    int registers = 0;
    std::uint64_t static_shared_bytes = 0;   ///< declared by the kernel
    std::uint64_t dynamic_shared_bytes = 0;  ///< given at launch
};

/// What limits how many blocks fit on a multiprocessor.
enum class OccupancyLimit { threads, registers, shared, blocks };
std::string_view name(OccupancyLimit limit);  ///< "threads", "registers", "shared memory", "blocks"

/// How many blocks fit on a multiprocessor at once, and why no more.
struct Occupancy {
    int blocks = 0;  ///< per multiprocessor at once; 0: one block does not fit
    /// By each limit alone. by_shared is what the largest carve-out allows (a profiler may report the one that
    /// the driver chose), and by_blocks where the block needs no shared memory.
    int by_threads = 0;
    int by_registers = 0;                 ///< the same
    int by_shared = 0;                    ///< the same
    int by_blocks = 0;                    ///< the same
    std::vector<OccupancyLimit> binding;  ///< those that give `blocks`
    int warps = 0;                        ///< blocks * warps per block
    int most_warps = 0;                   ///< of a multiprocessor
    /// warps / most_warps.
    double fraction() const { return most_warps == 0 ? 0 : static_cast<double>(warps) / most_warps; }

    /// What was allocated, with the hardware's granularity. 32-bit registers; 0: not known.
    std::uint64_t registers_per_block = 0;
    std::uint64_t shared_bytes_per_block = 0;  ///< with what the system reserves
    /// Of the multiprocessor. NVIDIA: the smallest carve-out that holds the blocks; the driver may choose a
    /// larger one, which leaves less for the L1 cache and changes nothing else.
    std::uint64_t shared_bytes_configured = 0;
    /// The largest register count per thread with which one more block would fit; nullopt: registers do not
    /// bind, or none would do.
    std::optional<int> registers_for_one_more;
};

/// NVIDIA: as the driver's cuOccupancyMaxActiveBlocksPerMultiprocessor answers with the shared memory that is
/// needed opted in to. More shared memory than a block may have gives 0 blocks. Throws UsageError for an
/// architecture that is not known here, and for needs that no block may have: no threads or more than 1024,
/// more registers than a thread can name.
Occupancy occupancy(const BlockNeeds& needs, Backend backend, const std::string& arch);

/// In how many waves the blocks of a grid run.
struct Waves {
    std::uint64_t blocks = 0;          ///< of the grid
    std::uint64_t blocks_at_once = 0;  ///< multiprocessors * blocks per multiprocessor
    double waves = 0;                  ///< blocks / blocks_at_once
    /// Share of the chip's block places that are in use over all waves, if all blocks take equally long:
    /// waves / ceil(waves).
    double efficiency = 0;
    /// Warps per multiprocessor that has any, as a share of the most, averaged over the run: what a profiler
    /// calls achieved occupancy, if all blocks take equally long and all their warps to the end.
    double mean_occupancy = 0;
};
/// All 0 but `blocks` where no block fits or the multiprocessors are not known.
Waves waves(std::uint64_t blocks, const Occupancy& occupancy, std::int64_t multiprocessors);

}  // namespace KILN_ABI
}  // namespace kiln
