// SPDX-License-Identifier: Apache-2.0
//
// The `//@ kernel` lines of a template: its kernels' names and signatures, and the arguments of the template, which are
// those of all of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "template/directives.h"
#include "template/expression.h"
#include "template/launch_lines.h"
#include "template/signature.h"

namespace kiln {

/// A kernel of a template that has several.
struct KernelLines {
    KernelName name;
    std::vector<std::size_t> arguments;  ///< the places of its arguments among FrontMatter::signature's
    LaunchLines launch;  ///< of all but the first kernel, whose lines are the front matter's own
};

/// A variable of the module that a launch copies a tensor to.
struct ModuleVariableArgument {
    std::size_t argument = 0;  ///< its place among FrontMatter::signature's
    std::string name;
};

struct Kernels {
    /// In the order of their launches, without launch lines. Of a template with one kernel and no variables it has no
    /// arguments' places, since they are those of the signature.
    std::vector<KernelLines> kernels;
    std::vector<Location> locations;                ///< of their names in `kernel` lines
    Signature signature;                            ///< of the template
    std::vector<ModuleVariableArgument> variables;  ///< behind the kernels' own arguments, before tensor maps
};

/// text: the template's. Checks also that each line stands before the kernel that it is about. Throws TemplateError.
Kernels parse_kernel_lines(Directives& directives, std::string_view text, const std::string& file);

}  // namespace kiln
