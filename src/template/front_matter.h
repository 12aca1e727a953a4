// SPDX-License-Identifier: Apache-2.0
//
// The //@ lines of a template, parsed and checked against the kernel's declaration.
#pragma once

#include <kiln/template.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "template/constant_lines.h"
#include "template/expression.h"
#include "template/kernel_lines.h"
#include "template/launch_lines.h"
#include "template/model_lines.h"
#include "template/option_lines.h"
#include "template/problem_lines.h"
#include "template/signature.h"

namespace kiln {

struct FrontMatter : LaunchLines {
    std::string kernel;
    /// All of them, in the order of their launches. Of a template with one kernel and no variables it has no arguments'
    /// places, since they are those of the signature.
    std::vector<KernelLines> kernels;
    std::string summary;
    std::vector<Parameter> parameters;
    std::vector<ExpressionPtr> defaults;     ///< of the parameters; null: Parameter::default_value
    std::vector<std::size_t> default_order;  ///< of the parameters, each behind those that its default uses
    ConstantLines constants;
    std::vector<Rule> rules;  ///< the author's, in their order
    std::vector<Rule> implicit_rules;
    std::vector<std::string> dependent_uses;    ///< the parameters that decide it
    std::vector<std::string> bound_parameters;  ///< of a reference: those that only its bound depends on
    ExpressionPtr opt_level;                    ///< of ptxas; null: its own
    std::vector<Backend> backends;
    std::vector<std::string> archs;
    std::vector<std::filesystem::path> include_directories;  ///< as written, in their order
    std::vector<OptionLine> options;                         ///< of its compiles
    Signature signature;
    std::vector<ModuleVariableArgument> variables;  ///< behind the kernels' own arguments, before tensor maps
    ProblemLines problem;
    ModelLines model;
    bool is_reference = false;  ///< see Template::is_reference
};

/// Of the first kernel, whose lines are the front matter's own, or another.
inline const LaunchLines& launch_lines(const FrontMatter& front_matter, std::size_t kernel) {
    return kernel == 0 ? front_matter : front_matter.kernels[kernel].launch;
}

/// Throws TemplateError. `text` must be valid UTF-8 without NUL bytes.
FrontMatter parse_front_matter(std::string_view text, const std::string& file);

}  // namespace kiln
