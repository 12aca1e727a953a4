// SPDX-License-Identifier: Apache-2.0
//
// From the note section to the kernel's map.
#include "analysis/amd_metadata.h"

#include <elf.h>

#include <utility>

#include "analysis/msgpack.h"

namespace kiln {
namespace {

constexpr std::uint32_t kAmdgpuMetadata = 32;  // NT_AMDGPU_METADATA

std::span<const std::byte> metadata_note(const ElfView& elf) {
    for (const ElfSection& section : elf.sections()) {
        if (section.type != SHT_NOTE) continue;
        for (const ElfNote& note : elf_notes(section.bytes))
            if (note.type == kAmdgpuMetadata) return note.description;
    }
    return {};
}

/// Reads one kernel's map; the second is its name.
std::optional<std::pair<AmdKernelMetadata, std::string_view>> read_kernel(MsgpackCursor& cursor) {
    const auto pairs = cursor.map();
    if (!pairs) return std::nullopt;
    AmdKernelMetadata kernel;
    std::string_view name;
    const std::pair<std::string_view, std::optional<std::uint64_t>*> numbers[] = {
        {".vgpr_count", &kernel.vgprs},
        {".agpr_count", &kernel.agprs},
        {".sgpr_count", &kernel.sgprs},
        {".vgpr_spill_count", &kernel.vgpr_spills},
        {".sgpr_spill_count", &kernel.sgpr_spills},
        {".group_segment_fixed_size", &kernel.group_bytes},
        {".private_segment_fixed_size", &kernel.private_bytes},
    };
    for (std::uint64_t i = 0; i < *pairs; ++i) {
        const auto key = cursor.text();
        if (!key) return std::nullopt;
        bool known = false;
        for (const auto& [number_key, number] : numbers) {
            if (*key != number_key) continue;
            *number = cursor.number();
            known = true;
        }
        if (*key == ".name") {
            name = cursor.text().value_or("");
            known = true;
        }
        if (!known) cursor.skip();
        if (cursor.failed()) return std::nullopt;
    }
    return std::pair(std::move(kernel), name);
}

}  // namespace

std::optional<AmdKernelMetadata> amd_metadata(const ElfView& elf, std::string_view kernel) {
    MsgpackCursor cursor(metadata_note(elf));
    const auto pairs = cursor.map();
    if (!pairs) return std::nullopt;
    std::optional<AmdKernelMetadata> found;
    std::string_view target;
    for (std::uint64_t i = 0; i < *pairs && !cursor.failed(); ++i) {
        const auto key = cursor.text();
        if (!key) break;
        if (*key == "amdhsa.target") {
            target = cursor.text().value_or("");
        } else if (*key == "amdhsa.kernels") {
            const auto count = cursor.array();
            for (std::uint64_t k = 0; count && k < *count; ++k) {
                auto one = read_kernel(cursor);
                if (!one) break;
                if (one->second == kernel) found = std::move(one->first);
            }
        } else {
            cursor.skip();
        }
    }
    // "amdgcn-amd-amdhsa--gfx90a:xnack-"
    if (const std::size_t arch = target.rfind("gfx"); found && arch != std::string_view::npos)
        found->arch = target.substr(arch, target.find(':', arch) - arch);
    return found;
}

}  // namespace kiln
