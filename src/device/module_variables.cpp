// SPDX-License-Identifier: Apache-2.0
//
// A variable is an object in a section for data: .nv.constant* and .nv.global* of a cubin, .data, .bss and .rodata of a
// code object or a shared object.
#include "device/module_variables.h"

#include <cxxabi.h>
#include <elf.h>
#include <kiln/error.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/elf.h"
#include "base/words.h"

namespace kiln {
namespace {

bool is_data(std::string_view section) {
    constexpr auto kSections =
        std::to_array<std::string_view>({".nv.constant", ".nv.global", ".data", ".bss", ".rodata"});
    return std::ranges::any_of(kSections, [&](std::string_view one) { return section.starts_with(one); });
}

// Of the compiler, the linker and the prelude; variables in functions; tables of classes.
bool is_own(std::string_view symbol) {
    constexpr auto kStarts = std::to_array<std::string_view>(
        {"_ZN9kiln_host", "_ZNK9kiln_host", "kiln_host_", "_ZZ", "_ZGV", "_ZTV", "_ZTI", "_ZTS", "__", "."});
    return symbol.empty() || symbol.find_first_of("$.") != std::string_view::npos || symbol == "_DYNAMIC" ||
           symbol == "_GLOBAL_OFFSET_TABLE_" || symbol == "_IO_stdin_used" ||
           std::ranges::any_of(kStarts, [&](std::string_view one) { return symbol.starts_with(one); });
}

}  // namespace

std::string demangled(std::string_view symbol) {
    std::string name(symbol);
    // "w" is a variable, and the code of a type.
    if (!symbol.starts_with("_Z")) return name;
    int status = 0;
    if (char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status)) {
        name = text;
        std::free(text);
    }
    return name;
}

std::vector<DeclaredVariable> declared_variables(std::span<const std::byte> binary) {
    std::vector<DeclaredVariable> found;
    const auto elf = ElfView::open(binary);
    if (!elf) return found;
    for (const ElfSymbol& symbol : elf->symbols()) {
        if (symbol.type != STT_OBJECT || symbol.size == 0 || symbol.section >= elf->sections().size() ||
            !is_data(elf->sections()[symbol.section].name) || is_own(symbol.name))
            continue;
        found.push_back({std::string(symbol.name), demangled(symbol.name), symbol.address, symbol.size});
    }
    std::ranges::sort(found, {}, &DeclaredVariable::name);
    return found;
}

const DeclaredVariable* find_variable(const std::vector<DeclaredVariable>& variables, std::string_view name) {
    const DeclaredVariable* ending = nullptr;
    std::size_t endings = 0;
    for (const DeclaredVariable& one : variables) {
        if (one.name == name || one.symbol == name) return &one;
        if (one.name.size() <= name.size() + 2 || !one.name.ends_with(name) ||
            one.name.substr(one.name.size() - name.size() - 2, 2) != "::")
            continue;
        ending = &one;
        ++endings;
    }
    return endings == 1 ? ending : nullptr;
}

void fail_no_variable(const std::string& kernel, std::string_view name,
                      const std::vector<DeclaredVariable>& variables) {
    std::vector<std::string> names;
    for (const DeclaredVariable& one : variables) names.push_back(one.name);
    std::string message = "the module of " + kernel + " has no variable " + std::string(name);
    if (const std::string hint = did_you_mean(name, names); !hint.empty())
        message += hint;
    else
        message += names.empty()
                       ? "; it has none at all. Variables are declared __constant__ or __device__, and the "
                         "compiler leaves out those that no kernel uses"
                       : "; there are " + join(names);
    throw UsageError(message);
}

}  // namespace kiln
