// SPDX-License-Identifier: Apache-2.0
//
// The //@ lines that say how a kernel is launched: block, grid, cluster, shared, dependent and cooperative.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "template/directives.h"
#include "template/expression.h"
#include "template/expression_parser.h"

namespace kiln {

/// How one kernel is launched.
struct LaunchLines {
    std::vector<ExpressionPtr> block, grid, cluster;  ///< one to three each; cluster may be empty
    ExpressionPtr dynamic_shared, static_shared;      ///< null when there is no such line
    ExpressionPtr dependent;                          ///< when launches may overlap; null: never
    bool cooperative = false;                         ///< all blocks run at once
    ExpressionPtr threads, shared_bytes;              ///< of a block, of all lines
};

/// Whose lines they are.
struct LaunchedKernel {
    std::size_t number = 0;  ///< among the template's, from 0
    std::string subject;     ///< of messages: "a template", or the name of one of several kernels
    Location location;       ///< of its name
};

/// scope: gets `threads` and `shared_bytes`. text: the template's. Throws TemplateError.
LaunchLines parse_launch_lines(Directives& directives, const LaunchedKernel& kernel, Scope& scope,
                               std::string_view text, const std::string& file);

}  // namespace kiln
