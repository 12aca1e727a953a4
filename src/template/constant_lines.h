// SPDX-License-Identifier: Apache-2.0
//
// `let NAME = EXPRESSION "text"`: a constant that follows from the parameters. It is a name for the expressions of all
// other lines and a constexpr of the source, so that what both need is computed in one place.
#pragma once

#include <kiln/template.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "template/problem_lines.h"

namespace kiln {

struct ConstantLines {
    std::vector<Constant> constants;    ///< in their order
    std::vector<ExpressionPtr> values;  ///< of them; none depends on the device
};

/// Reads the `let` lines and adds their names to `scope`, which has the parameters and the kernel's arguments. A constant
/// may use those above it. Throws TemplateError. text: of the template, whose file scope must not have the same names.
ConstantLines parse_constant_lines(std::span<Directive> lines, Scope& scope, const std::string& kernel,
                                   std::string_view text);

/// Legal are only variants for which `value` can be computed. text, reason: of the rule, for messages.
Rule value_rule(const std::string& text, const std::string& reason, const ExpressionPtr& value);
/// The rule that this constant can be computed.
Rule constant_rule(const Constant& constant, const ExpressionPtr& value);

}  // namespace kiln
