// SPDX-License-Identifier: Apache-2.0
//
// What an exported function is for: a problem, the values that say what is computed, with the variants that compute it;
// and the arguments that the function has in C.
#pragma once

#include <kiln/service.h>
#include <kiln/tools/export.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct ExportedProblem {
    std::vector<std::pair<std::string, std::string>> values;  ///< name and text of what says what is computed
    std::string name;                                         ///< "kiln_gemm_tiled_T_half"
    std::vector<const ExportedVariant*> variants;             ///< sorted by architecture
};

/// Variants of one template, sorted into problems, and within these by architecture, the most specific first. They must outlive
/// the result.
std::vector<ExportedProblem> exported_problems(const Service& service,
                                               std::span<const ExportedVariant> variants);

/// Of a type of C.
bool is_c_integer(const std::string& c_type);

/// What C needs to know of a problem's arguments: all that the kernel has before its tensor maps. Callers pass what one of its
/// variants takes: in scratch alone they differ, and the kernels of others leave it alone.
struct ExportedArguments {
    std::vector<std::string> types, names;
    std::vector<std::string> declared_types;  ///< by the template: "const float*"
    std::vector<bool> is_passed;       ///< by callers; else it is a pointer that all variants leave null
    std::vector<std::size_t> sizes;    ///< those that a size line declares
    std::vector<std::size_t> scratch;  ///< tensors

    /// Throws UsageError for what C can't pass.
    explicit ExportedArguments(const ExportedProblem& problem);

    std::string declared(std::size_t i) const { return types[i] + " " + names[i]; }
    /// A launch's.
    std::string all() const;
    /// Integers: what a choice depends on.
    std::string integers() const;
    std::string integers_with_scratch() const;
};

}  // namespace kiln
