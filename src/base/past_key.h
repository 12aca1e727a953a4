// SPDX-License-Identifier: Apache-2.0
//
// Words by which a source gets at what is not part of a build's key, so that an old binary would be served for it.
#pragma once

#include <array>
#include <string_view>

namespace kiln {

/// Macros that change from one compile to the next.
constexpr auto kClockMacros = std::to_array<std::string_view>({"__DATE__", "__TIME__", "__TIMESTAMP__"});
/// Directives of the assembler that read a file.
constexpr auto kAssemblerFiles = std::to_array<std::string_view>({".incbin", ".include"});

/// Whether the inside of a string literal has the assembler's directive, in either case, perhaps with some of its
/// characters written as octal, \x or \u escapes.
bool names_directive(std::string_view literal, std::string_view directive);

}  // namespace kiln
