// SPDX-License-Identifier: Apache-2.0
//
// What architectures allow, for compiling and checking rules on a machine without the device.
//
// NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", which agrees
// with the toolkit's cuda_occupancy.h; 8.8 is in the latter only.
// AMD: ROCm's "Accelerator and GPU hardware specifications" (LDS, vector registers, wavefront size) and the
// ISA documents (waves per SIMD). A multiprocessor is a compute unit on gfx9 and a work-group processor,
// two compute units, on RDNA, which is what HIP counts there. Blocks: of one wave each, as HIP reports.
#include <string_view>

#include "device/driver.h"

namespace kiln {
namespace {

constexpr std::int64_t kKilobyte = 1024;

struct CudaArch {
    int number;  // compute capability without the dot
    int threads_per_multiprocessor;
    int blocks_per_multiprocessor;
    int shared_kilobytes_per_multiprocessor;
    int shared_kilobytes_per_block;  // by opting in
};

constexpr CudaArch kCudaArchs[] = {
    {75, 1024, 16, 64, 64},    {80, 2048, 32, 164, 163},  {86, 1536, 16, 100, 99},  {87, 1536, 16, 164, 163},
    {88, 1536, 16, 100, 99},   {89, 1536, 24, 100, 99},   {90, 2048, 32, 228, 227}, {100, 2048, 32, 228, 227},
    {103, 2048, 32, 228, 227}, {110, 1536, 24, 228, 227}, {120, 1536, 24, 100, 99}, {121, 1536, 24, 100, 99},
};

struct HipArch {
    std::string_view name;
    int warp_size;
    int waves_per_multiprocessor;
    int shared_kilobytes_per_multiprocessor;
    int register_kilobytes_per_multiprocessor;  // vector registers, accumulation registers included
};

constexpr HipArch kHipArchs[] = {
    {"gfx906", 64, 40, 64, 256}, {"gfx908", 64, 40, 64, 512},   {"gfx90a", 64, 32, 64, 512},
    {"gfx942", 64, 32, 64, 512}, {"gfx1030", 32, 64, 128, 512}, {"gfx1100", 32, 64, 128, 768},
};

constexpr std::string_view kHostArchs[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"};

Limits limits_of(const CudaArch& arch) {
    Limits limits;
    limits.threads_per_multiprocessor = arch.threads_per_multiprocessor;
    limits.blocks_per_multiprocessor = arch.blocks_per_multiprocessor;
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

const CudaArch* find_cuda(std::string_view name) {
    if (!name.starts_with("sm_")) return nullptr;
    name.remove_prefix(3);
    if (name.ends_with('a') || name.ends_with('f')) name.remove_suffix(1);
    for (const CudaArch& arch : kCudaArchs) {
        if (name == std::to_string(arch.number)) return &arch;
    }
    return nullptr;
}

}  // namespace

std::optional<Limits> arch_limits(Backend backend, const std::string& arch) {
    const std::string_view name = arch;
    switch (backend) {
        case Backend::cuda:
            if (const CudaArch* found = find_cuda(name)) return limits_of(*found);
            break;
        case Backend::hip:
            for (const HipArch& each : kHipArchs) {
                if (name.substr(0, name.find(':')) == each.name) return limits_of(each);  // "gfx90a:xnack-"
            }
            break;
        case Backend::host:
            // What the largest common GPU allows, so that a template checked here runs there.
            for (const std::string_view each : kHostArchs) {
                if (name == each) return limits_of(*find_cuda("sm_90"));
            }
            break;
    }
    return std::nullopt;
}

std::vector<std::string> known_archs(Backend backend) {
    std::vector<std::string> names;
    switch (backend) {
        case Backend::cuda:
            for (const CudaArch& arch : kCudaArchs) names.push_back("sm_" + std::to_string(arch.number));
            break;
        case Backend::hip:
            for (const HipArch& arch : kHipArchs) names.emplace_back(arch.name);
            break;
        case Backend::host:
            names.assign(std::begin(kHostArchs), std::end(kHostArchs));
            break;
    }
    return names;
}

}  // namespace kiln
