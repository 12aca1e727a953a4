// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", which agrees
// with the toolkit's cuda_occupancy.h; 8.8 is in the latter only.
// AMD: ROCm's "Accelerator and GPU hardware specifications" (LDS, vector registers, wavefront size), the ISA
// documents (waves per SIMD), and LLVM's AMDGPU target (AMDGPUBaseInfo and the "User Guide for AMDGPU Backend":
// granules, barriers). LLVM's work on LDS granules says that gfx10.3 and later allocate 1024 bytes at a time
// and only encode 512.
#include "base/arch_facts.h"

#include <algorithm>
#include <charconv>

#include "format/format.h"

namespace kiln {
namespace {

constexpr CudaArch kCudaArchs[] = {
    {75, 1024, 16, 64, 64},    {80, 2048, 32, 164, 163},  {86, 1536, 16, 100, 99},  {87, 1536, 16, 164, 163},
    {88, 1536, 16, 100, 99},   {89, 1536, 24, 100, 99},   {90, 2048, 32, 228, 227}, {100, 2048, 32, 228, 227},
    {103, 2048, 32, 228, 227}, {110, 1536, 24, 228, 227}, {120, 1536, 24, 100, 99}, {121, 1536, 24, 100, 99},
};

constexpr std::string_view kPtxPrefix = "compute_";

constexpr HipArch kHipArchs[] = {
    {"gfx906", 64, 40, 16, 64, 256, 256, 256, 4, 512},
    {"gfx908", 64, 40, 16, 64, 512, 256, 256, 4, 512},
    {"gfx90a", 64, 32, 16, 64, 512, 512, 512, 8, 512},
    {"gfx942", 64, 32, 16, 64, 512, 512, 512, 8, 512},
    {"gfx1030", 32, 64, 32, 128, 512, 1024, 256, 16, 1024},
    {"gfx1100", 32, 64, 32, 128, 768, 1536, 256, 24, 1024},
};

}  // namespace

std::span<const CudaArch> cuda_archs() { return kCudaArchs; }
std::span<const HipArch> hip_archs() { return kHipArchs; }

bool is_ptx_arch(std::string_view name) { return name.starts_with(kPtxPrefix); }

std::optional<int> cuda_arch_number(std::string_view name) {
    if (!name.starts_with("sm_") && !is_ptx_arch(name)) return std::nullopt;
    const bool is_ptx = is_ptx_arch(name);
    name.remove_prefix(is_ptx ? kPtxPrefix.size() : 3);
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || number < 10 || number > 999 || name.front() == '0') return std::nullopt;
    const std::string_view suffix = name.substr(static_cast<std::size_t>(end - name.data()));
    if (suffix.empty()) return number;
    // Their instructions are those of one architecture, or of a family: no PTX of it serves a later one.
    const bool fits = !is_ptx && ((suffix == "a" && number >= 90) || (suffix == "f" && number >= 100));
    return fits ? std::optional(number) : std::nullopt;
}

bool is_hip_arch_name(std::string_view name) {
    const std::string_view processor = name.substr(0, name.find(':'));
    if (!processor.starts_with("gfx") || processor.size() < 6 || processor.size() > 8) return false;
    const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (!std::all_of(processor.begin() + 3, processor.end(), is_hex)) return false;
    for (name.remove_prefix(processor.size()); !name.empty();) {
        name.remove_prefix(1);  // the colon
        const std::string_view feature = name.substr(0, name.find(':'));
        if (feature != "xnack+" && feature != "xnack-" && feature != "sramecc+" && feature != "sramecc-")
            return false;
        name.remove_prefix(feature.size());
    }
    return true;
}

bool arch_word_means(std::string_view word, std::string_view arch) {
    // PTX has the instructions of its architecture without the architecture-specific ones.
    const std::string machine =
        is_ptx_arch(arch) ? "sm_" + std::string(arch.substr(kPtxPrefix.size())) : std::string(arch);
    if (word.ends_with('+'))
        return word.starts_with("sm_") && cuda_arch_number(machine).value_or(-1) >=
                                              cuda_arch_number(word.substr(0, word.size() - 1)).value_or(0);
    return word == machine || word == machine.substr(0, machine.find(':'));
}

Backend backend_of_arch(std::string_view arch) {
    return arch.starts_with("sm_") || is_ptx_arch(arch) ? Backend::cuda
           : arch.starts_with("gfx")                    ? Backend::hip
                                                        : Backend::host;
}

const CudaArch* find_cuda_arch(std::string_view name) {
    const std::optional<int> number = cuda_arch_number(name);
    for (const CudaArch& arch : kCudaArchs)
        if (number == arch.number) return &arch;
    return nullptr;
}

const HipArch* find_hip_arch(std::string_view name) {
    for (const HipArch& arch : kHipArchs)
        if (name.substr(0, name.find(':')) == arch.name) return &arch;
    return nullptr;
}

std::string gpu_arch_names() {
    std::string names;
    for (const CudaArch& arch : kCudaArchs) names += formatted("sm_{}, ", arch.number);
    for (const HipArch& arch : kHipArchs) names += std::string(arch.name) + ", ";
    names.resize(names.size() - 2);
    return names;
}

}  // namespace kiln
