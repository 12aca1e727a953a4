// SPDX-License-Identifier: Apache-2.0
//
// `option "cuda: --maxrregcount={REGS}" if REGS > 0`: options that a template's compiles get. What an option means is
// known to the compilers (compile/compile_options); here parameters are put into it.
#pragma once

#include <kiln/build.h>

#include <span>
#include <string>
#include <vector>

#include "template/expression.h"
#include "template/expression_parser.h"
#include "template/problem_lines.h"

namespace kiln {

struct OptionLine {
    /// Text, and behind each but the last part a value.
    std::vector<std::string> parts;
    std::vector<std::string> names;  ///< of the parameters and constants whose values they are
    ExpressionPtr condition;         ///< null: always
    Location location;
};

/// scope: parameters and constants. Throws TemplateError.
std::vector<OptionLine> parse_option_lines(std::span<Directive> lines, const Scope& scope);

}  // namespace kiln
