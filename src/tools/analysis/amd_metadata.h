// SPDX-License-Identifier: Apache-2.0
//
// The metadata that an AMD code object carries in a note (LLVM, "User Guide for AMDGPU Backend", "Code Object
// V3 and above Metadata").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/elf.h"

namespace kiln {

struct AmdKernelMetadata {
    std::optional<std::uint64_t> vgprs, agprs, sgprs;
    std::optional<std::uint64_t> vgpr_spills, sgpr_spills;
    std::optional<std::uint64_t> group_bytes, private_bytes;
    std::string arch;  ///< "gfx90a"; empty: not given
};

/// nullopt: there is no readable metadata, or none of that kernel.
std::optional<AmdKernelMetadata> amd_metadata(const ElfView& elf, std::string_view kernel);

}  // namespace kiln
