// SPDX-License-Identifier: Apache-2.0
//
// The table of chips. Figures are the vendors' own: peak rates without sparsity, at boost clock; memory as on the
// data sheet. A figure that its document does not give is left out. Names are what the drivers call the devices.
// AMD: a multiprocessor is what HIP counts as one, a work-group processor of two compute units on RDNA.
#include <kiln/occupancy.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/arch_facts.h"
#include "base/fork.h"

namespace kiln {
namespace {

constexpr std::int64_t kMegabyte = 1 << 20;
constexpr std::nullopt_t kNone = std::nullopt;

std::vector<Chip> make_chips() {
    // In this order: FP32, FP16 and FP64 multiply-adds, FP16 tensor-core GEMM with FP32 accumulation.
    return {
        {"Tesla T4", "sm_75", 40, 320, 0, 4 * kMegabyte, 8.1, 16.2, kNone, 65,
         "NVIDIA Turing GPU Architecture white paper; NVIDIA T4 data sheet"},

        {"NVIDIA A100-SXM4-80GB", "sm_80", 108, 2039, 0, 40 * kMegabyte, 19.5, 78, 9.7, 312,
         "NVIDIA A100 Tensor Core GPU data sheet; A100 architecture white paper (FP16, L2)"},
        {"NVIDIA A100-SXM4-40GB", "sm_80", 108, 1555, 0, 40 * kMegabyte, 19.5, 78, 9.7, 312,
         "NVIDIA A100 Tensor Core GPU data sheet; A100 architecture white paper (FP16, L2)"},

        {"NVIDIA A10", "sm_86", 72, 600, 0, 6 * kMegabyte, 31.2, kNone, kNone, 125,
         "NVIDIA A10 Tensor Core GPU data sheet"},
        {"NVIDIA GeForce RTX 3090", "sm_86", 82, 936, 0, 6 * kMegabyte, 35.6, 35.6, 0.556, 71,
         "NVIDIA Ampere GA102 GPU Architecture white paper"},

        {"Orin", "sm_87", 16, 204.8, 0, 4 * kMegabyte, 5.3, kNone, kNone, kNone,
         "NVIDIA Jetson AGX Orin Series technical brief (64 GB module)"},

        {"NVIDIA L40S", "sm_89", 142, 864, 0, 0, 91.6, kNone, kNone, 362.05, "NVIDIA L40S data sheet"},
        {"NVIDIA L4", "sm_89", 58, 300, 0, 48 * kMegabyte, 30.3, kNone, kNone, 121,
         "NVIDIA L4 Tensor Core GPU data sheet (matrix: half of the figure with sparsity)"},
        {"NVIDIA GeForce RTX 4090", "sm_89", 128, 1008, 0, 72 * kMegabyte, 82.6, 82.6, 1.29, 165.2,
         "NVIDIA Ada GPU Architecture white paper"},

        {"NVIDIA H200", "sm_90a", 132, 4800, 4160, 60 * kMegabyte, 66.9, 133.8, 33.5, 989.4,
         "NVIDIA H200 Tensor Core GPU data sheet; rates unrounded as in the H100 white paper, which has the "
         "same "
         "multiprocessors and clock; L2 and copy measured"},
        {"NVIDIA H100 80GB HBM3", "sm_90a", 132, 3352, 0, 50 * kMegabyte, 66.9, 133.8, 33.5, 989.4,
         "NVIDIA H100 Tensor Core GPU Architecture white paper (SXM5)"},
        {"NVIDIA H100 PCIe", "sm_90a", 114, 2039, 0, 50 * kMegabyte, 51.2, 102.4, 25.6, 756,
         "NVIDIA H100 Tensor Core GPU Architecture white paper (PCIe)"},
        {"NVIDIA GH200 480GB", "sm_90a", 132, 4000, 0, 0, 67, kNone, 34, 990,
         "NVIDIA GH200 Grace Hopper Superchip data sheet (96 GB HBM3)"},

        {"NVIDIA B200", "sm_100a", 148, 7700, 0, 0, 75, kNone, 37, 2250,
         "NVIDIA HGX B200 data sheet (180 GB; matrix: half of the figure with sparsity)"},

        {"NVIDIA GeForce RTX 5090", "sm_120a", 170, 1792, 0, 96 * kMegabyte, 104.8, 104.8, 1.64, 209.5,
         "NVIDIA RTX Blackwell GPU Architecture white paper"},

        {"AMD Instinct MI50", "gfx906", 60, 1024, 0, 4 * kMegabyte, 13.3, 26.5, 6.6, kNone,
         "AMD Radeon Instinct MI50 data sheet"},
        {"AMD Instinct MI100", "gfx908", 120, 1228.8, 0, 8 * kMegabyte, 23.1, kNone, 11.5, 184.6,
         "AMD Instinct MI100 brochure"},
        {"AMD Instinct MI250X", "gfx90a", 110, 1638.4, 0, 8 * kMegabyte, 23.95, kNone, 23.95, 191.5,
         "AMD Instinct MI250X data sheet; one of two dies, which HIP shows as devices of their own"},
        {"AMD Instinct MI300X", "gfx942", 304, 5300, 0, 32 * kMegabyte, 163.4, kNone, 81.7, 1307.4,
         "AMD Instinct MI300X data sheet"},
        {"AMD Radeon RX 6900 XT", "gfx1030", 40, 512, 0, 4 * kMegabyte, 23.04, 46.08, kNone, kNone,
         "AMD Radeon RX 6900 XT product page"},
        {"AMD Radeon RX 7900 XTX", "gfx1100", 48, 960, 0, 6 * kMegabyte, 61.4, 122.8, kNone, 122.8,
         "AMD Radeon RX 7900 XTX product page; GPUOpen, WMMA on RDNA 3 (512 operations per clock and CU)"},
    };
}

bool is_same_arch(const std::string& one, const std::string& other) {
    if (const CudaArch* const found = find_cuda_arch(one)) return found == find_cuda_arch(other);
    const HipArch* const found = find_hip_arch(one);
    return found != nullptr && found == find_hip_arch(other);
}

}  // namespace

inline namespace KILN_ABI {

std::string_view name(Unit unit) {
    switch (unit) {
        case Unit::fma_f32:
            return "FP32 FMA";
        case Unit::fma_f16:
            return "FP16 FMA";
        case Unit::fma_f64:
            return "FP64 FMA";
        case Unit::matrix_f16:
            return "FP16 tensor/matrix cores";
    }
    return "unknown";
}

std::optional<double> Chip::tflops(Unit unit) const {
    switch (unit) {
        case Unit::fma_f32:
            return fma_f32_tflops;
        case Unit::fma_f16:
            return fma_f16_tflops;
        case Unit::fma_f64:
            return fma_f64_tflops;
        case Unit::matrix_f16:
            return matrix_f16_tflops;
    }
    return std::nullopt;
}

const std::vector<Chip>& chips() {
    static std::atomic<const std::vector<Chip>*> known{nullptr};
    return made_once(known, [] { return std::make_unique<const std::vector<Chip>>(make_chips()); });
}

const Chip* find_chip(const std::string& arch, const std::string& device_name) {
    const Chip* first = nullptr;
    for (const Chip& chip : chips()) {
        if (!is_same_arch(chip.arch, arch)) continue;
        if (chip.name == device_name) return &chip;
        if (first == nullptr) first = &chip;
    }
    return first;
}

}  // namespace KILN_ABI
}  // namespace kiln
