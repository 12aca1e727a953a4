// SPDX-License-Identifier: Apache-2.0
//
// Pointers in the file are what the loader will make of them: the target of their relocation, counted from the
// object's start.
#include "device/host_object.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/elf.h"
#include "device/module_variables.h"
#include "kiln/host_abi.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostArguments = 4096;

// --- What it exports --------------------------------------------------------------------------------------------

/// Where in the file an address of the loaded object lies.
std::optional<std::uint64_t> file_offset(const ElfView& elf, std::uint64_t address) {
    for (const ElfSegment& part : elf.segments()) {
        if (part.type == PT_LOAD && address >= part.address && address - part.address < part.file_bytes)
            return part.offset + (address - part.address);
    }
    return std::nullopt;
}

/// What the pointer at an address will lead to; 0: nothing.
std::uint64_t pointer_at(const ElfView& elf, std::span<const std::byte> bytes, std::uint64_t address) {
    std::optional<std::uint64_t> target;
    for (const ElfSection& table : elf.sections()) {
        if (table.type != SHT_RELA) continue;
        for (std::uint64_t offset = 0; offset < table.bytes.size(); offset += sizeof(Elf64_Rela)) {
            const auto relocation = read_at<Elf64_Rela>(table.bytes, offset);
            if (relocation.r_offset != address) continue;
            const auto symbol_number = ELF64_R_SYM(relocation.r_info);
            target = static_cast<std::uint64_t>(relocation.r_addend);
            if (symbol_number != 0 && table.link < elf.sections().size())
                *target +=
                    read_at<Elf64_Sym>(elf.sections()[table.link].bytes, symbol_number * sizeof(Elf64_Sym))
                        .st_value;
        }
    }
    if (target) return *target;
    // Without one it is there already, as with packed relative relocations.
    const auto offset = file_offset(elf, address);
    return offset ? read_at<std::uint64_t>(bytes, *offset) : 0;
}

// --- Thread-local variables -------------------------------------------------------------------------------------

// Their addresses are offsets in the thread-local storage. But for the compiler's marks of what is initialised, and further
// names of the same variable: from version 13 on GCC also gives those of its older ABI.
std::vector<ElfSymbol> thread_locals(const std::optional<ElfView>& elf) {
    std::vector<ElfSymbol> found;
    if (!elf) return found;
    std::set<std::uint64_t> places;
    for (const ElfSymbol& symbol : elf->symbols()) {
        // Those of size 0 mark what a section holds, as $d does for aarch64.
        if (symbol.type == STT_TLS && symbol.size != 0 && symbol.section != SHN_UNDEF &&
            !symbol.name.starts_with("_ZGV") && symbol.name != "__tls_guard" &&
            places.insert(symbol.address).second)
            found.push_back(symbol);
    }
    return found;
}

// What the kernel declared __shared__: all that is not the prelude's own, which is in its namespace.
bool is_shared(const ElfSymbol& symbol) {
    return !symbol.name.starts_with("_ZN9kiln_host") && !symbol.name.starts_with("_ZZN9kiln_host");
}

// As it was declared: "tile" of "_ZZ6kernelE4tile", "tile.0" or "tile".
std::string declared_name(std::string_view symbol) {
    std::string name = demangled(symbol);
    if (const auto scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
    return name.substr(0, name.find('.'));
}

}  // namespace

std::optional<HostObjectFacts> host_object_facts(std::span<const std::byte> bytes, std::string_view symbol) {
    using kiln_host::Kernel;
    const auto elf = ElfView::open(bytes);
    const ElfSymbol* const kernel = elf ? elf->symbol(symbol) : nullptr;
    if (kernel == nullptr || kernel->section == SHN_UNDEF) return std::nullopt;
    const auto place = file_offset(*elf, kernel->address);
    if (!place) return std::nullopt;
    HostObjectFacts facts;
    facts.abi_version = read_at<unsigned>(bytes, *place + offsetof(Kernel, abi_version));
    if (facts.abi_version != kiln_host::kAbiVersion) return facts;
    const auto count = read_at<unsigned>(bytes, *place + offsetof(Kernel, argument_count));
    const auto sizes =
        file_offset(*elf, pointer_at(*elf, bytes, kernel->address + offsetof(Kernel, argument_bytes)));
    if (!sizes || count > kMostArguments) return std::nullopt;
    for (unsigned i = 0; i < count; ++i)
        facts.argument_bytes.push_back(read_at<unsigned>(bytes, *sizes + i * sizeof(unsigned)));
    facts.tells_accesses = pointer_at(*elf, bytes, kernel->address + offsetof(Kernel, log)) != 0;
    return facts;
}

std::size_t static_shared_bytes(std::span<const std::byte> bytes) {
    std::size_t total = 0;
    for (const ElfSymbol& symbol : thread_locals(ElfView::open(bytes)))
        total += is_shared(symbol) ? symbol.size : 0;
    return total;
}

std::vector<ThreadLocalRange> shared_ranges(std::span<const std::byte> bytes) {
    std::vector<ThreadLocalRange> ranges;
    for (const ElfSymbol& symbol : thread_locals(ElfView::open(bytes)))
        if (is_shared(symbol)) ranges.push_back({symbol.address, symbol.size});
    return ranges;
}

std::vector<SharedVariable> shared_variables(std::span<const std::byte> bytes, const void* anchor) {
    const std::vector<ElfSymbol> symbols = thread_locals(ElfView::open(bytes));
    const auto place = std::ranges::find(symbols, "_ZN9kiln_hostL6anchorE", &ElfSymbol::name);
    std::vector<SharedVariable> variables;
    if (place == symbols.end()) return variables;
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(anchor) - place->address;
    for (const ElfSymbol& symbol : symbols) {
        if (is_shared(symbol))
            variables.push_back(
                {declared_name(symbol.name), start + symbol.address, symbol.size, symbol.address});
    }
    std::ranges::sort(variables, {}, &SharedVariable::address);
    return variables;
}

std::vector<MemoryRange> loaded_ranges(std::span<const std::byte> bytes, const void* place) {
    std::vector<MemoryRange> ranges;
    Dl_info info{};
    const auto elf = ElfView::open(bytes);
    if (!elf || ::dladdr(place, &info) == 0) return ranges;
    const auto base = reinterpret_cast<std::uint64_t>(info.dli_fbase);
    std::vector<ElfSymbol> objects, constants;
    for (const ElfSymbol& symbol : elf->symbols())
        if (symbol.type == STT_OBJECT && symbol.section != SHN_UNDEF) objects.push_back(symbol);
    std::ranges::sort(objects, {}, &ElfSymbol::address);
    for (const ElfSymbol& symbol : objects)
        if (symbol.visibility == STV_PROTECTED) constants.push_back(symbol);  // by kiln/host_record.h
    for (const ElfSegment& part : elf->segments()) {
        if (part.type != PT_LOAD) continue;
        std::uint64_t begin = part.address;
        const std::uint64_t end = part.address + part.memory_bytes;
        const auto add = [&](std::uint64_t up_to) {
            if (up_to > begin) ranges.push_back({base + begin, up_to - begin, {}});
        };
        // Nothing is the kernel's between a constant and the next variable, which begins a page (src/compile/host_compiler.cpp).
        for (const ElfSymbol& symbol : constants) {
            const std::uint64_t behind = symbol.address + symbol.size;
            if (symbol.address < begin || behind > end) continue;
            constexpr std::uint64_t kPage = 4096;
            const auto next = std::ranges::lower_bound(objects, behind, {}, &ElfSymbol::address);
            add(behind);
            begin = std::min((behind + kPage - 1) / kPage * kPage,
                             next == objects.end() ? end : std::min(end, next->address));
        }
        add(end);
    }
    for (const ElfSymbol& symbol : constants)
        ranges.push_back({base + symbol.address, symbol.size, declared_name(symbol.name), true});
    return ranges;
}

}  // namespace kiln
