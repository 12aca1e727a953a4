// SPDX-License-Identifier: Apache-2.0
//
// Sections and symbols of a 64-bit little-endian ELF file that may be damaged: what does not lie within the
// bytes is left out, so that nothing that is handed out points beyond them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
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
    std::uint64_t size = 0;            ///< in memory; the bytes of a section without content are empty
    std::span<const std::byte> bytes;  ///< in the file
    std::uint32_t link = 0;            ///< the section that belongs to it
};

struct ElfSymbol {
    std::string_view name;
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    std::uint16_t section = 0;
};

/// A view: the bytes must outlive it. Immutable.
class ElfView {
  public:
    /// nullopt: no such ELF file, or its table of sections does not lie within the bytes.
    static std::optional<ElfView> open(std::span<const std::byte> bytes);

    /// In the file's order; indices in the file are indices here.
    const std::vector<ElfSection>& sections() const { return sections_; }
    const ElfSection* section(std::string_view name) const;
    /// Those of the first symbol table, in the file's order.
    const std::vector<ElfSymbol>& symbols() const { return symbols_; }
    const ElfSymbol* symbol(std::string_view name) const;
    /// The code of a symbol; empty when it does not lie within its section.
    std::span<const std::byte> code_of(const ElfSymbol& symbol) const;

    std::uint16_t machine() const { return machine_; }
    std::uint32_t flags() const { return flags_; }
    int abi_version() const { return abi_version_; }

  private:
    ElfView() = default;

    std::vector<ElfSection> sections_;
    std::vector<ElfSymbol> symbols_;
    std::uint16_t machine_ = 0;
    std::uint32_t flags_ = 0;
    int abi_version_ = 0;
};

}  // namespace kiln
