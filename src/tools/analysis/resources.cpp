// SPDX-License-Identifier: Apache-2.0
//
// Combines what the compiler's log, the ELF headers and the code say about a kernel. The log takes
// precedence, since only the compiler knows the spills.
//
// Of a cubin's own sections (their formats are not documented; cuobjdump prints them): .nv.info holds records
// of format, attribute, length and value, .nv.shared.NAME is as large as the static shared memory, .text.NAME
// is the code.
#include <elf.h>
#include <kiln/tools/resources.h>

#include <algorithm>

#include "analysis/amd_code.h"
#include "analysis/amd_metadata.h"
#include "analysis/ptxas_log.h"
#include "analysis/sass.h"
#include "base/elf.h"

namespace kiln {
namespace {

constexpr std::uint16_t kMachineCuda = 190, kMachineAmdgpu = 224;  // EM_CUDA, EM_AMDGPU

std::optional<int> count_of(std::optional<std::uint64_t> value) {
    constexpr std::uint64_t kMost = 1 << 20;  // registers; more means that the data is damaged
    if (!value || *value > kMost) return std::nullopt;
    return static_cast<int>(*value);
}

/// 90 for sm_90a. CUDA 13 moved it one byte up.
int compute_capability(const ElfView& elf) {
    constexpr int kAbiOfCuda13 = 8;
    return static_cast<int>(elf.abi_version() >= kAbiOfCuda13 ? elf.flags() >> 8 & 0xff : elf.flags() & 0xff);
}

/// The value that .nv.info gives a kernel's symbol for an attribute; the largest when there are several.
std::optional<std::uint32_t> nv_info(const ElfView& elf, std::string_view kernel, int attribute) {
    constexpr int kSized = 4;  // the only format whose value follows the header
    const ElfSection* const section = elf.section(".nv.info");
    if (section == nullptr) return std::nullopt;
    std::optional<std::uint32_t> found;
    const auto bytes = section->bytes;
    for (std::uint64_t at = 0; at + 4 <= bytes.size(); at += 4) {
        const auto format = read_at<std::uint8_t>(bytes, at);
        if (format != kSized) continue;
        const auto length = read_at<std::uint16_t>(bytes, at + 2);
        if (read_at<std::uint8_t>(bytes, at + 1) == attribute && length >= 8 && at + 12 <= bytes.size()) {
            const auto symbol = read_at<std::uint32_t>(bytes, at + 4);
            if (symbol < elf.symbols().size() && elf.symbols()[symbol].name == kernel)
                found = std::max(found.value_or(0), read_at<std::uint32_t>(bytes, at + 8));
        }
        at += length;
    }
    return found;
}

void read_cubin(Resources& result, const ElfView& elf, const Binary& binary) {
    const ElfSection* const text = elf.section(".text." + binary.entry);
    if (text == nullptr) return;
    const int capability = compute_capability(elf);
    result.instructions = count_sass(text->bytes, capability);
    if (result.registers) return;  // the log had everything

    constexpr int kRegisters = 0x2f, kFrame = 0x11, kStack = 0x12;
    result.registers = count_of(nv_info(elf, binary.entry, kRegisters));
    const auto frame = nv_info(elf, binary.entry, kFrame), stack = nv_info(elf, binary.entry, kStack);
    if (frame || stack) result.stack_bytes = std::max(frame.value_or(0), stack.value_or(0));
    // From compute capability 9.0 on the first KiB is the system's; it is part of the section only.
    const std::uint64_t reserved = capability >= 90 ? 1024 : 0;
    const ElfSection* const shared = elf.section(".nv.shared." + binary.entry);
    result.static_shared_bytes = shared == nullptr ? 0 : shared->size - std::min(shared->size, reserved);
}

void read_code_object(Resources& result, const ElfView& elf, const Binary& binary) {
    const auto metadata = amd_metadata(elf, binary.entry);
    if (!metadata) return;
    result.registers = count_of(metadata->vgprs);
    result.accumulator_registers = count_of(metadata->agprs);
    result.scalar_registers = count_of(metadata->sgprs);
    result.static_shared_bytes = metadata->group_bytes;
    result.stack_bytes = metadata->private_bytes;
    constexpr std::uint64_t kRegisterBytes = 4;
    const auto vector = count_of(metadata->vgpr_spills), scalar = count_of(metadata->sgpr_spills);
    if (vector && scalar)
        result.spill_bytes = (std::uint64_t(*vector) + std::uint64_t(*scalar)) * kRegisterBytes;
    const ElfSymbol* const symbol = elf.symbol(binary.entry);
    if (symbol == nullptr) return;
    if (auto counts = count_amd(elf.code_of(*symbol), metadata->arch))
        result.instructions = std::move(*counts);
}

}  // namespace

inline namespace KILN_ABI {

Resources resources_of(const Binary& binary) {
    Resources result;
    result.binary_bytes = binary.bytes.size();
    if (binary.kind != BinaryKind::cubin && binary.kind != BinaryKind::code_object) return result;
    if (binary.kind == BinaryKind::cubin) {
        if (const auto usage = ptxas_usage(binary.log, binary.entry)) {
            result.registers = usage->registers;
            result.static_shared_bytes = usage->shared_bytes;
            result.stack_bytes = usage->stack_bytes;
            result.spill_bytes = usage->spill_bytes;
        }
    }
    const auto elf = ElfView::open({binary.bytes.data(), binary.bytes.size()});
    if (!elf) return result;
    if (binary.kind == BinaryKind::cubin && elf->machine() == kMachineCuda) read_cubin(result, *elf, binary);
    if (binary.kind == BinaryKind::code_object && elf->machine() == kMachineAmdgpu)
        read_code_object(result, *elf, binary);
    return result;
}

}  // namespace KILN_ABI
}  // namespace kiln
