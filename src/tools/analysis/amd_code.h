// SPDX-License-Identifier: Apache-2.0
//
// Counts instructions of AMD machine code, GFX9 (with CDNA) and GFX10, without a disassembler.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// Counts of the instructions of `code` that baselines record, by LLVM's names, and "total", all but s_nop
/// and the padding after the end. nullopt: an unknown architecture, or bytes that are not an instruction.
std::optional<std::map<std::string, int>> count_amd(std::span<const std::byte> code, std::string_view arch);

}  // namespace kiln
