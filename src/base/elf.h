// SPDX-License-Identifier: Apache-2.0
//
// Reads 64-bit little-endian ELF files that may be damaged: headers, sections, segments, symbols, notes. Results never
// point beyond the bytes. ElfView is for a file in memory; read_elf_headers is for a file on disk, of which it reads
// only the header tables. The types in sections, segments, symbols and notes are those of <elf.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The number at `offset`; 0 where the bytes end before it does.
template <class T>
T read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
    T value{};
    if (offset <= bytes.size() && bytes.size() - offset >= sizeof(T))
        std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

struct ElfSection {
    std::string_view name;
    std::uint32_t type = 0;
    std::uint64_t address = 0;
    std::uint64_t offset = 0;          ///< in the file
    std::uint64_t size = 0;            ///< in memory; the bytes of a section without content are empty
    std::span<const std::byte> bytes;  ///< in the file; empty when they are not all in it
    std::uint32_t link = 0;            ///< the section that belongs to it
    std::uint32_t name_offset = 0;
};

struct ElfSegment {
    std::uint32_t type = 0;
    std::uint64_t offset = 0;  ///< in the file
    std::uint64_t address = 0;
    std::uint64_t file_bytes = 0;
    std::uint64_t memory_bytes = 0;
};

struct ElfSymbol {
    std::string_view name;
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::uint16_t section = 0;
    int type = 0;
    int visibility = 0;
};

struct ElfNote {
    std::uint32_t type = 0;
    std::string_view name;  ///< without the zero at its end
    std::span<const std::byte> description;
};

struct ElfHeaders {
    std::uint16_t machine = 0;
    std::uint32_t flags = 0;
    int abi_version = 0;
    std::uint32_t name_section = 0;    ///< holds the sections' names
    std::vector<ElfSection> sections;  ///< without names and bytes
    std::vector<ElfSegment> segments;
    std::string section_table;  ///< as it stands in the file
};

/// Reads this many bytes at this offset of a file; false when the file ends before they do.
using ElfRead = std::function<bool(void* to, std::size_t bytes, std::uint64_t offset)>;

/// nullopt: not an ELF file of this kind, or its header tables are not within its `total` bytes. `problem`, when
/// given, then receives the reason, as the end of a sentence: "has 12 bytes, too few for an ELF header". The
/// contents of sections and segments are not checked.
std::optional<ElfHeaders> read_elf_headers(std::uint64_t total, const ElfRead& read,
                                           std::string* problem = nullptr);

/// The notes of a section, up to the first one that is not within the bytes.
std::vector<ElfNote> elf_notes(std::span<const std::byte> section);

/// Empty when the bytes are an ELF file whose sections and segments are all within them; else what is wrong, as the end
/// of a sentence. For binaries that are passed to a driver or a loader, which take an address without a length and
/// trust the offsets in the file.
std::string elf_problem(std::span<const std::byte> bytes);

/// A view: the bytes must outlive it. Immutable.
class ElfView {
  public:
    /// nullopt: as read_elf_headers.
    static std::optional<ElfView> open(std::span<const std::byte> bytes);

    /// In the file's order; indices in the file are indices here.
    const std::vector<ElfSection>& sections() const { return headers_.sections; }
    const ElfSection* section(std::string_view name) const;
    const std::vector<ElfSegment>& segments() const { return headers_.segments; }
    /// Those of the first symbol table, in the file's order.
    const std::vector<ElfSymbol>& symbols() const { return symbols_; }
    const ElfSymbol* symbol(std::string_view name) const;
    /// The code of a symbol; empty when it is not within its section.
    std::span<const std::byte> code_of(const ElfSymbol& symbol) const;

    std::uint16_t machine() const { return headers_.machine; }
    std::uint32_t flags() const { return headers_.flags; }
    int abi_version() const { return headers_.abi_version; }

  private:
    ElfView() = default;

    ElfHeaders headers_;
    std::vector<ElfSymbol> symbols_;
};

}  // namespace kiln
