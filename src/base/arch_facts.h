// SPDX-License-Identifier: Apache-2.0
//
// What architectures have, as their vendors' documents say: the one table behind the limits that rules are
// checked against where there is no device (device/arch_table) and behind occupancy (analysis).
#pragma once

#include <kiln/types.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// Blocks that a cluster may have on every device that has clusters; more are not portable, as CUDA's guide says.
constexpr int kPortableClusterBlocks = 8;

struct CudaArch {
    int number;  ///< compute capability without the dot
    int threads_per_multiprocessor;
    int blocks_per_multiprocessor;
    int shared_kilobytes_per_multiprocessor;
    int shared_kilobytes_per_block;  ///< by opting in
};

/// A multiprocessor is a compute unit on gfx9 and a work-group processor, two compute units, on RDNA, which is
/// what HIP counts there. Each has four SIMDs.
struct HipArch {
    std::string_view name;
    int warp_size;
    int waves_per_multiprocessor;
    int blocks_of_waves;  ///< per multiprocessor, of more than one wave: each holds a barrier
    int shared_kilobytes_per_multiprocessor;
    int register_kilobytes_per_multiprocessor;  ///< vector registers, accumulation registers included
    // Vector registers of a lane: how many a SIMD holds, how many a wave may have and is given at a time. On
    // gfx908 accumulation registers are as many again, on gfx90a and later they are among these.
    int registers_per_simd;
    int registers_per_thread;
    int register_granule;
    int shared_granule;  ///< bytes
};

std::span<const CudaArch> cuda_archs();
std::span<const HipArch> hip_archs();

/// 90 of "sm_90", "sm_90a" and "compute_90" (PTX for this architecture and all later ones); nullopt for what no
/// architecture can be called. Whether there is one of this number is another question.
std::optional<int> cuda_arch_number(std::string_view name);
/// Whether it has the form of "gfx90a" or "gfx90a:sramecc+:xnack-".
bool is_hip_arch_name(std::string_view name);
/// Whether it is the architecture of PTX, "compute_90".
bool is_ptx_arch(std::string_view name);

/// Whether a word of an `arch` or `option` line means that architecture: itself, itself with features behind a colon
/// (gfx90a:xnack-), or with a plus, it and all of a higher number (sm_80+). PTX, compute_90, counts as sm_90.
bool arch_word_means(std::string_view word, std::string_view arch);
/// Of "sm_90a" CUDA, of "gfx90a" HIP, of all else the host.
Backend backend_of_arch(std::string_view arch);

/// "sm_90", "sm_90a", "sm_100f", "compute_90"; nullptr: not in the table.
const CudaArch* find_cuda_arch(std::string_view name);
/// "gfx90a", "gfx90a:sramecc+:xnack-"; nullptr: not in the table.
const HipArch* find_hip_arch(std::string_view name);

/// All names of the table, for messages: "sm_75, sm_80, ..., gfx1100".
std::string gpu_arch_names();

}  // namespace kiln
