// SPDX-License-Identifier: Apache-2.0
//
// The kernel's declaration as the template's C++ text writes it: where it is, its arguments, and their
// types in the normal form that kiln/kernel.h compares with.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "template/expression.h"
#include "template/lexer.h"

namespace kiln {

struct Signature {
    struct Argument {
        std::string name;               ///< empty when the declaration gives none
        std::vector<std::string> type;  ///< the tokens of its type; an array is written as a pointer
    };

    Location location;  ///< of the kernel's name
    std::vector<Argument> arguments;
};

/// A kernel as a `kernel` line names it: "scale", or of a C++ template "reduce<T, BLOCK>".
struct KernelName {
    std::string name;                    ///< "reduce"
    std::string expression;              ///< "reduce<T, BLOCK>": for C++, the name with its arguments
    std::vector<std::string> arguments;  ///< "T", "BLOCK"; of a template only
    bool is_template() const { return name.size() != expression.size(); }
};

/// Finds the definition of the kernel, `extern "C" __global__ void NAME(...)` or of a template
/// `template <...> __global__ void NAME(...)`, whose arguments then have the types that it is given. nullopt when there is
/// none; throws TemplateError for one without extern "C", and for a template with another number of parameters.
std::optional<Signature> find_kernel(std::string_view text, const KernelName& name, const std::string& file);

/// The tokens of the type of a __constant__ or __device__ variable that the text declares, without const and what else says
/// nothing about its elements: "T" of `__constant__ T weights[9]`. nullopt: there is none of this name.
std::optional<std::vector<std::string>> find_module_variable(std::string_view text, std::string_view name);

/// Type parameters and the normal form of what they stand for.
using TypeNames = std::map<std::string, std::string, std::less<>>;

/// "const half*", "unsigned int", "float": without what does not change how an argument is passed.
std::string normalised_type(const std::vector<std::string>& tokens, const TypeNames& type_parameters);

/// Whether it is a texture or surface object, a number that only an application can make.
bool is_texture_or_surface(const std::vector<std::string>& type);

/// How to read an argument of this normalised type; nullopt for one that is no integer.
std::optional<ArgumentFormat> argument_format(std::string_view normalised);

}  // namespace kiln
