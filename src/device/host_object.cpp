// SPDX-License-Identifier: Apache-2.0
//
// Pointers in the file are what the loader will make of them: the target of their relocation, counted from the
// object's start.
#include "device/host_object.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "kiln/host_abi.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostArguments = 4096;

template <class T>
T at(std::span<const std::byte> bytes, std::uint64_t offset) {
    T value{};
    if (offset <= bytes.size() && bytes.size() - offset >= sizeof(T))
        std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

Elf64_Shdr section(std::span<const std::byte> bytes, unsigned number) {
    return at<Elf64_Shdr>(bytes, at<Elf64_Ehdr>(bytes, 0).e_shoff + number * sizeof(Elf64_Shdr));
}

/// Calls visit(section) for those of one type.
template <class Visit>
void for_sections(std::span<const std::byte> bytes, Elf64_Word type, Visit visit) {
    const auto count = at<Elf64_Ehdr>(bytes, 0).e_shnum;
    for (unsigned i = 0; i < count; ++i)
        if (const Elf64_Shdr one = section(bytes, i); one.sh_type == type) visit(one);
}

/// Calls visit(symbol, name) for each symbol of a table.
template <class Visit>
void for_symbols(std::span<const std::byte> bytes, const Elf64_Shdr& table, Visit visit) {
    const Elf64_Shdr names = section(bytes, table.sh_link);
    if (names.sh_offset > bytes.size() || names.sh_size > bytes.size() - names.sh_offset) return;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data() + names.sh_offset), names.sh_size);
    for (std::uint64_t offset = 0; offset < table.sh_size; offset += sizeof(Elf64_Sym)) {
        const auto symbol = at<Elf64_Sym>(bytes, table.sh_offset + offset);
        if (symbol.st_name >= text.size()) continue;
        visit(symbol,
              text.substr(symbol.st_name).substr(0, text.find('\0', symbol.st_name) - symbol.st_name));
    }
}

// --- What it exports --------------------------------------------------------------------------------------------

/// Where in the file an address of the loaded object lies.
std::optional<std::uint64_t> file_offset(std::span<const std::byte> bytes, std::uint64_t address) {
    const auto header = at<Elf64_Ehdr>(bytes, 0);
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        const auto part = at<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
        if (part.p_type == PT_LOAD && address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
            return part.p_offset + (address - part.p_vaddr);
    }
    return std::nullopt;
}

/// What the pointer at an address will lead to; 0: nothing.
std::uint64_t pointer_at(std::span<const std::byte> bytes, std::uint64_t address) {
    std::optional<std::uint64_t> target;
    for_sections(bytes, SHT_RELA, [&](const Elf64_Shdr& table) {
        for (std::uint64_t offset = 0; offset < table.sh_size; offset += sizeof(Elf64_Rela)) {
            const auto relocation = at<Elf64_Rela>(bytes, table.sh_offset + offset);
            if (relocation.r_offset != address) continue;
            const auto symbol_number = ELF64_R_SYM(relocation.r_info);
            target = static_cast<std::uint64_t>(relocation.r_addend);
            if (symbol_number != 0)
                *target += at<Elf64_Sym>(bytes, section(bytes, table.sh_link).sh_offset +
                                                    symbol_number * sizeof(Elf64_Sym))
                               .st_value;
        }
    });
    if (target) return *target;
    // Without one it is there already, as with packed relative relocations.
    const auto offset = file_offset(bytes, address);
    return offset ? at<std::uint64_t>(bytes, *offset) : 0;
}

// --- Thread-local variables -------------------------------------------------------------------------------------

struct LocalSymbol {
    std::string_view name;
    std::uint64_t offset = 0;  // in the thread-local storage
    std::uint64_t bytes = 0;
};

// But for the compiler's marks of what is initialised.
std::vector<LocalSymbol> thread_locals(std::span<const std::byte> bytes) {
    std::vector<LocalSymbol> found;
    for_sections(bytes, SHT_SYMTAB, [&](const Elf64_Shdr& table) {
        for_symbols(bytes, table, [&](const Elf64_Sym& symbol, std::string_view name) {
            if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS && symbol.st_shndx != SHN_UNDEF &&
                !name.starts_with("_ZGV"))
                found.push_back({name, symbol.st_value, symbol.st_size});
        });
    });
    return found;
}

// What the kernel declared __shared__: all that is not the prelude's own, which is in its namespace.
bool is_shared(const LocalSymbol& symbol) {
    return !symbol.name.starts_with("_ZN9kiln_host") && !symbol.name.starts_with("_ZZN9kiln_host");
}

// As it was declared: "tile" of "_ZZ6kernelE4tile", "tile.0" or "tile".
std::string declared_name(std::string_view symbol) {
    std::string name(symbol);
    int status = 0;
    if (char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status)) {
        name = text;
        std::free(text);
        if (const auto scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
    }
    return name.substr(0, name.find('.'));
}

}  // namespace

std::optional<HostObjectFacts> host_object_facts(std::span<const std::byte> bytes) {
    using kiln_host::Kernel;
    std::optional<std::uint64_t> address;
    for_sections(bytes, SHT_DYNSYM, [&](const Elf64_Shdr& table) {
        for_symbols(bytes, table, [&](const Elf64_Sym& symbol, std::string_view name) {
            if (name == "kiln_host_kernel" && symbol.st_shndx != SHN_UNDEF) address = symbol.st_value;
        });
    });
    const auto place = address ? file_offset(bytes, *address) : std::nullopt;
    if (!place) return std::nullopt;
    HostObjectFacts facts;
    facts.abi_version = at<unsigned>(bytes, *place + offsetof(Kernel, abi_version));
    if (facts.abi_version != kiln_host::kAbiVersion) return facts;
    const auto count = at<unsigned>(bytes, *place + offsetof(Kernel, argument_count));
    const auto sizes = file_offset(bytes, pointer_at(bytes, *address + offsetof(Kernel, argument_bytes)));
    if (!sizes || count > kMostArguments) return std::nullopt;
    for (unsigned i = 0; i < count; ++i)
        facts.argument_bytes.push_back(at<unsigned>(bytes, *sizes + i * sizeof(unsigned)));
    facts.tells_accesses = pointer_at(bytes, *address + offsetof(Kernel, log)) != 0;
    return facts;
}

std::size_t static_shared_bytes(std::span<const std::byte> bytes) {
    std::size_t total = 0;
    for (const LocalSymbol& symbol : thread_locals(bytes)) total += is_shared(symbol) ? symbol.bytes : 0;
    return total;
}

std::vector<SharedVariable> shared_variables(std::span<const std::byte> bytes, const void* anchor) {
    const std::vector<LocalSymbol> symbols = thread_locals(bytes);
    const auto place = std::ranges::find(symbols, "_ZN9kiln_hostL6anchorE", &LocalSymbol::name);
    std::vector<SharedVariable> variables;
    if (place == symbols.end()) return variables;
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(anchor) - place->offset;
    for (const LocalSymbol& symbol : symbols) {
        if (is_shared(symbol))
            variables.push_back({declared_name(symbol.name), start + symbol.offset, symbol.bytes});
    }
    std::ranges::sort(variables, {}, &SharedVariable::address);
    return variables;
}

std::vector<MemoryRange> loaded_ranges(std::span<const std::byte> bytes, const void* place) {
    std::vector<MemoryRange> ranges;
    Dl_info info{};
    if (::dladdr(place, &info) == 0) return ranges;
    const auto base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
    const auto header = at<Elf64_Ehdr>(bytes, 0);
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        const auto part = at<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
        if (part.p_type == PT_LOAD) ranges.push_back({base + part.p_vaddr, part.p_memsz, {}});
    }
    return ranges;
}

}  // namespace kiln
