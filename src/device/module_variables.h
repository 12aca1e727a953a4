// SPDX-License-Identifier: Apache-2.0
//
// The __constant__ and __device__ variables of a binary, as its symbol table names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct DeclaredVariable {
    std::string symbol;         ///< as the driver knows it: "_ZN6filter7weightsE"
    std::string name;           ///< as C++ has it: "filter::weights"
    std::uint64_t address = 0;  ///< in the file's own address space
    std::size_t bytes = 0;
};

/// Empty for what is no ELF file, such as PTX.
std::vector<DeclaredVariable> declared_variables(std::span<const std::byte> binary);

/// By its name, or by the end of its name behind "::" where only one ends so; nullptr: there is none.
const DeclaredVariable* find_variable(const std::vector<DeclaredVariable>& variables, std::string_view name);

/// UsageError that lists what there is.
[[noreturn]] void fail_no_variable(const std::string& kernel, std::string_view name,
                                   const std::vector<DeclaredVariable>& variables);

/// As C++ writes it; what is no mangled name stays as it is.
std::string demangled(std::string_view symbol);

}  // namespace kiln
