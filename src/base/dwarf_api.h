// SPDX-License-Identifier: Apache-2.0
//
// The functions of elfutils' libdw that Kiln uses to read debug information, by our own declarations, so that
// the build needs no header of it. The library is opened at the first use, not linked: only a recording needs
// it. tests/analysis holds every declaration here against <elfutils/libdw.h> wherever that is installed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dynamic_library.h"

namespace kiln::dwarf {

using ElfHandle = struct ElfOpaque*;
using SectionHandle = struct SectionOpaque*;
using Handle = struct HandleOpaque*;
using UnitHandle = struct UnitOpaque*;
using LineHandle = struct LineOpaque*;
using FilesHandle = struct FilesOpaque*;

/// A "debugging information entry": a function, a variable, a scope.
struct Entry {
    void* address;
    void* unit;
    void* abbreviation;
    long padding;
};

struct Attribute {
    unsigned code;
    unsigned form;
    unsigned char* value;
    void* unit;
};

enum Command : int { kRead = 0 };
enum : unsigned { kElfVersion = 1 };
enum Tag : int {
    kArray = 0x01,
    kClass = 0x02,
    kEnumeration = 0x04,
    kLexicalBlock = 0x0b,
    kPointer = 0x0f,
    kStructure = 0x13,
    kTypedef = 0x16,
    kUnion = 0x17,
    kInlinedSubroutine = 0x1d,
    kBaseType = 0x24,
    kConstant = 0x26,
    kSubprogram = 0x2e,
    kVariable = 0x34,
    kVolatile = 0x35,
    kNamespace = 0x39,
};
enum AttributeName : unsigned {
    kLocation = 0x02,
    kByteSize = 0x0b,
    kType = 0x49,
    kAlignment = 0x88,
    kVector = 0x2107,
    kCompilationDirectory = 0x1b,
    kCallFile = 0x58,
    kCallLine = 0x59,
};

// use(member, symbol, result, arguments)
// clang-format off
#define KILN_DWARF_FUNCTIONS(use)                                                                          \
    use(elf_version, elf_version, unsigned, (unsigned))                                                    \
    use(elf_memory, elf_memory, ElfHandle, (char*, std::size_t))                                           \
    use(elf_end, elf_end, int, (ElfHandle))                                                                \
    use(begin, dwarf_begin_elf, Handle, (ElfHandle, Command, SectionHandle))                               \
    use(end, dwarf_end, int, (Handle))                                                                     \
    use(units, dwarf_get_units, int,                                                                       \
        (Handle, UnitHandle, UnitHandle*, std::uint16_t*, std::uint8_t*, Entry*, Entry*))                  \
    use(tag, dwarf_tag, int, (Entry*))                                                                     \
    use(child, dwarf_child, int, (Entry*, Entry*))                                                         \
    use(sibling, dwarf_siblingof, int, (Entry*, Entry*))                                                   \
    use(name, dwarf_diename, const char*, (Entry*))                                                        \
    use(has_code, dwarf_haspc, int, (Entry*, std::uint64_t))                                               \
    use(ranges, dwarf_ranges, std::ptrdiff_t,                                                              \
        (Entry*, std::ptrdiff_t, std::uint64_t*, std::uint64_t*, std::uint64_t*))                          \
    use(attribute, dwarf_attr, Attribute*, (Entry*, unsigned, Attribute*))                                 \
    use(number, dwarf_formudata, int, (Attribute*, std::uint64_t*))                                        \
    use(text, dwarf_formstring, const char*, (Attribute*))                                                 \
    use(reference, dwarf_formref_die, Entry*, (Attribute*, Entry*))                                        \
    use(line_of_code, dwarf_getsrc_die, LineHandle, (Entry*, std::uint64_t))                               \
    use(line_number, dwarf_lineno, int, (LineHandle, int*))                                                \
    use(line_file, dwarf_linesrc, const char*, (LineHandle, std::uint64_t*, std::uint64_t*))               \
    use(files, dwarf_getsrcfiles, int, (Entry*, FilesHandle*, std::size_t*))                               \
    use(file, dwarf_filesrc, const char*, (FilesHandle, std::size_t, std::uint64_t*, std::uint64_t*))      \
    use(declaration_file, dwarf_decl_file, const char*, (Entry*))                                          \
    use(declaration_line, dwarf_decl_line, int, (Entry*, int*))
// clang-format on

/// The opened library. Immutable once made; shared by all threads for the rest of the process.
struct Api {
#define KILN_DECLARE(member, symbol, result, arguments) result(*member) arguments = nullptr;
    KILN_DWARF_FUNCTIONS(KILN_DECLARE)
#undef KILN_DECLARE
    DynamicLibrary library;
};

/// Opened at the first call. nullptr when there is none that works; `reason`, when given, then receives one
/// line on why.
const Api* api(std::string* reason = nullptr);

}  // namespace kiln::dwarf
