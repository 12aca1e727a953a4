// SPDX-License-Identifier: Apache-2.0
//
// Words by which a source gets at what is not part of a build's key, so that an old binary would be served for it. They
// are searched in the tokens of each text by itself: a directive of the assembler that is put together from several macros,
// by ## or #, over an #if, by \N{...}, or by the assembler's own macros and an asm statement's operands is not found.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

/// Macros that change from one compile to the next.
constexpr auto kClockMacros = std::to_array<std::string_view>({"__DATE__", "__TIME__", "__TIMESTAMP__"});

/// What the inside of a string literal that is not raw means: the character of each escape, of one beyond ASCII some
/// character beyond ASCII.
std::string decoded_literal(std::string_view inside);

/// A directive of the assembler that reads a file.
struct FileDirective {
    std::size_t at = 0;     ///< in the text
    std::string_view name;  ///< ".incbin"
};

/// The first in what a string means: a word of its own, in either case. All strings count, not only those in an asm
/// statement: a macro or a constant may be what brings them there.
std::optional<FileDirective> find_file_directive(std::string_view text);

}  // namespace kiln
