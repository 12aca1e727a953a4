// SPDX-License-Identifier: Apache-2.0
//
// Bounds-checked reading of ELF tables.
#include "analysis/elf_view.h"

#include <elf.h>

#include <algorithm>

namespace kiln {
namespace {

/// Names longer than this are cut: else many symbols could share one name as long as the file.
constexpr std::size_t kLongestName = 4096;

bool lies_within(std::uint64_t offset, std::uint64_t count, std::uint64_t total) {
    return offset <= total && count <= total - offset;
}

std::string_view name_at(std::span<const std::byte> names, std::uint64_t offset) {
    if (offset >= names.size()) return {};
    const auto* const begin = reinterpret_cast<const char*>(names.data()) + offset;
    const std::size_t most = std::min<std::uint64_t>(names.size() - offset, kLongestName);
    const void* const end = std::memchr(begin, 0, most);
    return {begin, end == nullptr ? most : static_cast<std::size_t>(static_cast<const char*>(end) - begin)};
}

}  // namespace

std::optional<ElfView> ElfView::open(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(Elf64_Ehdr)) return std::nullopt;
    const auto header = read_at<Elf64_Ehdr>(bytes, 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_shentsize != sizeof(Elf64_Shdr) ||
        !lies_within(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), bytes.size()))
        return std::nullopt;

    ElfView view;
    view.machine_ = header.e_machine;
    view.flags_ = header.e_flags;
    view.abi_version_ = header.e_ident[EI_ABIVERSION];
    std::vector<std::uint32_t> names;
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
        const auto raw = read_at<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr));
        ElfSection section;
        section.type = raw.sh_type;
        section.address = raw.sh_addr;
        section.size = raw.sh_size;
        section.link = raw.sh_link;
        if (raw.sh_type != SHT_NOBITS && lies_within(raw.sh_offset, raw.sh_size, bytes.size()))
            section.bytes = bytes.subspan(raw.sh_offset, raw.sh_size);
        view.sections_.push_back(section);
        names.push_back(raw.sh_name);
    }
    if (header.e_shstrndx < view.sections_.size())
        for (std::size_t i = 0; i < names.size(); ++i)
            view.sections_[i].name = name_at(view.sections_[header.e_shstrndx].bytes, names[i]);

    const auto table = std::find_if(view.sections_.begin(), view.sections_.end(),
                                    [](const ElfSection& one) { return one.type == SHT_SYMTAB; });
    if (table == view.sections_.end() || table->link >= view.sections_.size()) return view;
    const auto strings = view.sections_[table->link].bytes;
    for (std::size_t i = 0; i < table->bytes.size() / sizeof(Elf64_Sym); ++i) {
        const auto raw = read_at<Elf64_Sym>(table->bytes, i * sizeof(Elf64_Sym));
        view.symbols_.push_back({name_at(strings, raw.st_name), raw.st_value, raw.st_size, raw.st_shndx});
    }
    return view;
}

const ElfSection* ElfView::section(std::string_view name) const {
    for (const ElfSection& one : sections_)
        if (one.name == name) return &one;
    return nullptr;
}

const ElfSymbol* ElfView::symbol(std::string_view name) const {
    for (const ElfSymbol& one : symbols_)
        if (one.name == name) return &one;
    return nullptr;
}

std::span<const std::byte> ElfView::code_of(const ElfSymbol& symbol) const {
    if (symbol.section == SHN_UNDEF || symbol.section >= sections_.size()) return {};
    const ElfSection& section = sections_[symbol.section];
    if (symbol.address < section.address) return {};
    const std::uint64_t offset = symbol.address - section.address;
    if (!lies_within(offset, symbol.size, section.bytes.size())) return {};
    return section.bytes.subspan(offset, symbol.size);
}

}  // namespace kiln
