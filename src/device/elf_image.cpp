// SPDX-License-Identifier: Apache-2.0
//
// Bounds checks over the ELF headers of a device binary.
#include "device/elf_image.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace kiln {
namespace {

bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t entry_bytes, std::uint64_t total) {
    return offset <= total && (entry_bytes == 0 || count <= (total - offset) / entry_bytes);
}

template <class T>
T read(std::span<const std::byte> bytes, std::uint64_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

}  // namespace

std::string elf_image_problem(std::span<const std::byte> bytes) {
    const std::uint64_t total = bytes.size();
    const std::string has = "has " + std::to_string(total) + " bytes, ";
    if (total < sizeof(Elf64_Ehdr)) return has + "too few for an ELF header";
    const auto header = read<Elf64_Ehdr>(bytes, 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "does not start like an ELF file";
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
        return "is no 64-bit little-endian ELF file";
    }
    if ((header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
        (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))) {
        return "has header tables of an unknown layout";
    }
    if (header.e_shnum == 0) return "has no sections";
    if (!fits(header.e_shoff, header.e_shnum, sizeof(Elf64_Shdr), total) ||
        !fits(header.e_phoff, header.e_phnum, sizeof(Elf64_Phdr), total)) {
        return has + "but its header tables end beyond them";
    }
    for (unsigned i = 0; i < header.e_shnum; ++i) {
        const auto section = read<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
        if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS) continue;
        if (!fits(section.sh_offset, section.sh_size, 1, total)) {
            return has + "but its section " + std::to_string(i) + " ends beyond them";
        }
    }
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        const auto segment = read<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
        if (!fits(segment.p_offset, segment.p_filesz, 1, total)) {
            return has + "but its segment " + std::to_string(i) + " ends beyond them";
        }
    }
    return {};
}

}  // namespace kiln
