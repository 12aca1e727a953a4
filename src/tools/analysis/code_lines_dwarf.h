// SPDX-License-Identifier: Apache-2.0
//
// The line table of a cubin (.debug_line), with the inlining that NVIDIA's compiler adds to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/elf.h"

namespace kiln {

/// The code from `address` up to the next row's address comes from this line.
struct LineRow {
    std::uint64_t address = 0;  ///< in its section of code
    std::uint32_t file = 0;     ///< an index of LineTable::files
    std::uint32_t line = 0;
    std::uint32_t caller =
        0;              ///< the row inlined into, counted from 1 in `rows`; always an earlier one; 0: none
    bool ends = false;  ///< after the last instruction; says nothing about this address
};

struct LineTable {
    std::vector<std::string> files;  ///< with their folders; index 0 is none, as in DWARF
    std::vector<LineRow> rows;       ///< in the order of the section
};

/// The rows of the code in section `text`, by the relocations of .debug_line. DWARF 2 to 4, of which ptxas writes
/// 2. Units of other versions are skipped; reading stops at the first invalid byte.
LineTable line_table(const ElfView& elf, const ElfSection& text);

}  // namespace kiln
