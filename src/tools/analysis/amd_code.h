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

/// The instructions of `code` that are worth guarding, by the name that LLVM gives them, and "total", which
/// is all but s_nop and the padding behind the end. nullopt: an architecture whose encoding is not known
/// here, or bytes that are no instruction.
std::optional<std::map<std::string, int>> count_amd(std::span<const std::byte> code, std::string_view arch);

}  // namespace kiln
