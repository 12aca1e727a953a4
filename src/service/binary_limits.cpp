// SPDX-License-Identifier: Apache-2.0
//
// Of a cubin's sections (their formats are not documented; cuobjdump prints them): .nv.info.NAME holds records of format,
// attribute, length and value, one of which is the most threads in each direction, and .nv.shared.NAME is as large as the
// static shared memory. A shared object of the host has its shared variables as thread-local symbols.
#include "service/binary_limits.h"

#include <kiln/error.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/arch_facts.h"
#include "base/elf.h"
#include "device/host_object.h"
#include "format/format.h"
#include "template/kernel_launch.h"

namespace kiln {
namespace {

struct KernelLimits {
    std::optional<std::uint64_t> threads;  ///< those of __launch_bounds__
    std::uint64_t static_shared_bytes = 0;
    std::uint64_t padding_bytes = 0;  ///< up to which these may lie between variables
};

/// The most threads of a block that .nv.info.NAME tells.
std::optional<std::uint64_t> most_threads(std::span<const std::byte> info) {
    constexpr int kSized = 4;  // the only format whose value follows the header
    constexpr int kMaxThreads = 5;
    for (std::uint64_t at = 0; at + 4 <= info.size(); at += 4) {
        if (read_at<std::uint8_t>(info, at) != kSized) continue;
        const auto length = read_at<std::uint16_t>(info, at + 2);
        if (read_at<std::uint8_t>(info, at + 1) == kMaxThreads && length == 12 && at + 16 <= info.size()) {
            const auto extent = [&](std::uint64_t i) {
                return std::uint64_t{read_at<std::uint32_t>(info, at + 4 + 4 * i)};
            };
            return extent(0) * extent(1) * extent(2);
        }
        at += length;
    }
    return std::nullopt;
}

KernelLimits limits_of(const Binary& binary, const std::string& entry, const Target& target) {
    KernelLimits limits;
    if (binary.kind == BinaryKind::shared_object)
        limits.static_shared_bytes = static_shared_bytes(binary.bytes);
    const auto elf = binary.kind == BinaryKind::cubin ? ElfView::open(binary.bytes) : std::nullopt;
    if (!elf) return limits;
    if (const ElfSection* const info = elf->section(".nv.info." + entry))
        limits.threads = most_threads(info->bytes);
    constexpr std::uint64_t kMostAlignment = 128;
    limits.padding_bytes = kMostAlignment;
    // From compute capability 9.0 on the first KiB is the system's; it is part of the section only.
    const CudaArch* const arch = find_cuda_arch(target.arch);
    const std::uint64_t reserved = arch != nullptr && arch->number >= 90 ? 1024 : 0;
    if (const ElfSection* const shared = elf->section(".nv.shared." + entry))
        limits.static_shared_bytes = shared->size - std::min(shared->size, reserved);
    return limits;
}

std::string check_kernel(const KernelLaunch& launch, const KernelLimits& limits, const Target& target) {
    const std::uint64_t threads = launch.block.count();
    if (limits.threads && threads > *limits.threads)
        throw BuildError(
            formatted("a block of the kernel {} has {} threads as its template says, and at most {} as the "
                      "kernel's __launch_bounds__ say; make them the same",
                      launch.name, threads, *limits.threads));
    const auto most = static_cast<std::uint64_t>(target.limits.shared_bytes_per_block);
    if (limits.static_shared_bytes > most)
        throw BuildError(
            formatted("the kernel {} has {} bytes of static shared memory, and a block may have {}; make it "
                      "dynamic, by a line `//@ shared BYTES` and kiln::dynamic_shared",
                      launch.name, limits.static_shared_bytes, most));
    if (launch.static_shared_bytes == 0 ||
        limits.static_shared_bytes <= launch.static_shared_bytes + limits.padding_bytes)
        return {};
    return formatted(
        "the kernel {} has {} bytes of static shared memory, and its template says {}: occupancy and what "
        "fits "
        "are computed from the line `//@ shared static`",
        launch.name, limits.static_shared_bytes, launch.static_shared_bytes);
}

}  // namespace

std::string check_binary_limits(const Variant& variant, const Binary& binary, const Target& target) {
    // Kernels of one shared object have all its shared variables, and nothing tells whose each is.
    if (binary.kind == BinaryKind::shared_object && !binary.more_entries.empty()) return {};
    std::string warning;
    const std::size_t kernels = std::min(kernel_count(variant), binary.more_entries.size() + 1);
    for (std::size_t i = 0; i < kernels; ++i) {
        const std::string& entry = i == 0 ? binary.entry : binary.more_entries[i - 1];
        const std::string found =
            check_kernel(kernel_launch(variant, i), limits_of(binary, entry, target), target);
        if (warning.empty()) warning = found;
    }
    return warning;
}

}  // namespace kiln
