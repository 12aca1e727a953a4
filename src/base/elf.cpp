// SPDX-License-Identifier: Apache-2.0
//
// Every offset and count of a file is checked against its size before it is used, without sums that could overflow.
#include "base/elf.h"

#include <elf.h>

#include <algorithm>

#include "format/format.h"

namespace kiln {
namespace {

/// Names longer than this are cut: else many symbols could share one name as long as the file.
constexpr std::size_t kLongestName = 4096;

bool lies_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t total) {
    return offset <= total && bytes <= total - offset;
}

// As a string that a zero ends.
std::string_view name_at(std::span<const std::byte> names, std::uint64_t offset) {
    if (offset >= names.size()) return {};
    const auto* const begin = reinterpret_cast<const char*>(names.data()) + offset;
    const std::size_t most = std::min<std::uint64_t>(names.size() - offset, kLongestName);
    const void* const end = std::memchr(begin, 0, most);
    return {begin, end == nullptr ? most : static_cast<std::size_t>(static_cast<const char*>(end) - begin)};
}

std::string has_bytes(std::uint64_t total) { return formatted("has {} bytes, ", total); }

ElfRead reader_of(std::span<const std::byte> bytes) {
    return [bytes](void* to, std::size_t count, std::uint64_t offset) {
        if (!lies_within(offset, count, bytes.size())) return false;
        if (count != 0) std::memcpy(to, bytes.data() + offset, count);
        return true;
    };
}

std::optional<ElfHeaders> headers_of(std::span<const std::byte> bytes, std::string* problem = nullptr) {
    return read_elf_headers(bytes.size(), reader_of(bytes), problem);
}

}  // namespace

std::optional<ElfHeaders> read_elf_headers(std::uint64_t total, const ElfRead& read, std::string* problem) {
    const auto reject = [problem](std::string what) -> std::optional<ElfHeaders> {
        if (problem != nullptr) *problem = std::move(what);
        return std::nullopt;
    };
    Elf64_Ehdr header;
    if (total < sizeof(header) || !read(&header, sizeof(header), 0))
        return reject(has_bytes(total) + "too few for an ELF header");
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return reject("does not start like an ELF file");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
        return reject("is no 64-bit little-endian ELF file");
    if ((header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) ||
        (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)))
        return reject("has header tables of an unknown layout");

    ElfHeaders headers;
    headers.machine = header.e_machine;
    headers.flags = header.e_flags;
    headers.abi_version = header.e_ident[EI_ABIVERSION];
    headers.name_section = header.e_shstrndx;
    const auto read_table = [&](std::string& table, std::uint64_t offset, std::size_t bytes) {
        if (!lies_within(offset, bytes, total)) return false;
        table.resize(bytes);
        return read(table.data(), bytes, offset);
    };
    std::string segment_table;
    if (!read_table(headers.section_table, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)) ||
        !read_table(segment_table, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)))
        return reject(has_bytes(total) + "but its header tables end beyond them");
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr raw;
        std::memcpy(&raw, headers.section_table.data() + i * sizeof(raw), sizeof(raw));
        headers.sections.push_back({.name = {},
                                    .type = raw.sh_type,
                                    .address = raw.sh_addr,
                                    .offset = raw.sh_offset,
                                    .size = raw.sh_size,
                                    .bytes = {},
                                    .link = raw.sh_link,
                                    .name_offset = raw.sh_name});
    }
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr raw;
        std::memcpy(&raw, segment_table.data() + i * sizeof(raw), sizeof(raw));
        headers.segments.push_back({raw.p_type, raw.p_offset, raw.p_vaddr, raw.p_filesz, raw.p_memsz});
    }
    return headers;
}

std::vector<ElfNote> elf_notes(std::span<const std::byte> section) {
    const auto padded = [](std::uint64_t bytes) { return (bytes + 3) / 4 * 4; };
    std::vector<ElfNote> notes;
    std::uint64_t at = 0;
    while (lies_within(at, sizeof(Elf64_Nhdr), section.size())) {
        const auto raw = read_at<Elf64_Nhdr>(section, at);
        const std::uint64_t name = at + sizeof(raw), description = name + padded(raw.n_namesz);
        if (!lies_within(description, raw.n_descsz, section.size())) break;
        notes.push_back({raw.n_type, name_at(section.subspan(name, raw.n_namesz), 0),
                         section.subspan(description, raw.n_descsz)});
        at = description + padded(raw.n_descsz);
    }
    return notes;
}

std::string elf_problem(std::span<const std::byte> bytes) {
    std::string problem;
    const auto headers = headers_of(bytes, &problem);
    if (!headers) return problem;
    if (headers->sections.empty()) return "has no sections";
    const auto outside = [&](const char* what, std::size_t number) {
        return formatted("{}but its {} {} ends beyond them", has_bytes(bytes.size()), what, number);
    };
    for (const ElfSection& one : headers->sections)
        if (one.type != SHT_NULL && one.type != SHT_NOBITS &&
            !lies_within(one.offset, one.size, bytes.size()))
            return outside("section", static_cast<std::size_t>(&one - headers->sections.data()));
    for (const ElfSegment& one : headers->segments)
        if (!lies_within(one.offset, one.file_bytes, bytes.size()))
            return outside("segment", static_cast<std::size_t>(&one - headers->segments.data()));
    return {};
}

std::optional<ElfView> ElfView::open(std::span<const std::byte> bytes) {
    auto headers = headers_of(bytes);
    if (!headers) return std::nullopt;
    ElfView view;
    view.headers_ = std::move(*headers);
    auto& sections = view.headers_.sections;
    for (ElfSection& one : sections)
        if (one.type != SHT_NOBITS && lies_within(one.offset, one.size, bytes.size()))
            one.bytes = bytes.subspan(one.offset, one.size);
    if (view.headers_.name_section < sections.size())
        for (ElfSection& one : sections)
            one.name = name_at(sections[view.headers_.name_section].bytes, one.name_offset);

    const auto table = std::ranges::find(sections, std::uint32_t{SHT_SYMTAB}, &ElfSection::type);
    if (table == sections.end() || table->link >= sections.size()) return view;
    const auto strings = sections[table->link].bytes;
    for (std::size_t i = 0; i < table->bytes.size() / sizeof(Elf64_Sym); ++i) {
        const auto raw = read_at<Elf64_Sym>(table->bytes, i * sizeof(Elf64_Sym));
        view.symbols_.push_back({name_at(strings, raw.st_name), raw.st_value, raw.st_size, raw.st_shndx,
                                 ELF64_ST_TYPE(raw.st_info), ELF64_ST_VISIBILITY(raw.st_other)});
    }
    return view;
}

const ElfSection* ElfView::section(std::string_view name) const {
    const auto found = std::ranges::find(sections(), name, &ElfSection::name);
    return found == sections().end() ? nullptr : &*found;
}

const ElfSymbol* ElfView::symbol(std::string_view name) const {
    const auto found = std::ranges::find(symbols_, name, &ElfSymbol::name);
    return found == symbols_.end() ? nullptr : &*found;
}

std::span<const std::byte> ElfView::code_of(const ElfSymbol& symbol) const {
    if (symbol.section == SHN_UNDEF || symbol.section >= sections().size()) return {};
    const ElfSection& section = sections()[symbol.section];
    if (symbol.address < section.address) return {};
    const std::uint64_t offset = symbol.address - section.address;
    if (!lies_within(offset, symbol.size, section.bytes.size())) return {};
    return section.bytes.subspan(offset, symbol.size);
}

}  // namespace kiln
