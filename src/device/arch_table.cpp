// SPDX-License-Identifier: Apache-2.0
//
// What architectures allow (base/arch_facts), as limits for compiling and checking rules on a machine without
// the device. Blocks per multiprocessor of AMD: of one wave each, as HIP reports.
#include <string_view>

#include "base/arch_facts.h"
#include "device/driver.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::int64_t kKilobyte = 1024;
constexpr int kFirstWithClusters = 90;

constexpr std::string_view kHostArchs[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"};

Limits limits_of(const CudaArch& arch) {
    Limits limits;
    limits.threads_per_multiprocessor = arch.threads_per_multiprocessor;
    limits.blocks_per_multiprocessor = arch.blocks_per_multiprocessor;
    if (arch.number >= kFirstWithClusters) limits.blocks_per_cluster = kPortableClusterBlocks;
    limits.shared_bytes_per_multiprocessor = arch.shared_kilobytes_per_multiprocessor * kKilobyte;
    limits.shared_bytes_per_block_optin = arch.shared_kilobytes_per_block * kKilobyte;
    return limits;
}

Limits limits_of(const HipArch& arch) {
    Limits limits;
    limits.warp_size = arch.warp_size;
    limits.shared_bytes_per_block = 64 * kKilobyte;
    limits.shared_bytes_per_block_optin = 64 * kKilobyte;
    limits.shared_bytes_per_multiprocessor = arch.shared_kilobytes_per_multiprocessor * kKilobyte;
    limits.registers_per_multiprocessor = arch.register_kilobytes_per_multiprocessor * kKilobyte / 4;
    limits.registers_per_block = limits.registers_per_multiprocessor;
    limits.threads_per_multiprocessor = arch.waves_per_multiprocessor * arch.warp_size;
    limits.blocks_per_multiprocessor = arch.waves_per_multiprocessor;
    return limits;
}

}  // namespace

std::optional<Limits> arch_limits(Backend backend, const std::string& arch) {
    switch (backend) {
        case Backend::cuda:
            if (const CudaArch* const found = find_cuda_arch(arch)) return limits_of(*found);
            break;
        case Backend::hip:
            if (const HipArch* const found = find_hip_arch(arch)) return limits_of(*found);
            break;
        case Backend::host:
            // What the largest common GPU allows, so that a template checked here runs there.
            for (const std::string_view each : kHostArchs) {
                if (arch == each) return limits_of(*find_cuda_arch("sm_90"));
            }
            break;
    }
    return std::nullopt;
}

std::vector<std::string> known_archs(Backend backend) {
    std::vector<std::string> names;
    switch (backend) {
        case Backend::cuda:
            for (const CudaArch& arch : cuda_archs()) names.push_back(formatted("sm_{}", arch.number));
            break;
        case Backend::hip:
            for (const HipArch& arch : hip_archs()) names.emplace_back(arch.name);
            break;
        case Backend::host:
            names.assign(std::begin(kHostArchs), std::end(kHostArchs));
            break;
    }
    return names;
}

}  // namespace kiln
