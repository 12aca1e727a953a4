// SPDX-License-Identifier: Apache-2.0
//
// `param NAME int in 16, 32, 64 = 64 "text"`: one parameter's declaration. The default may be an expression over
// other parameters, wherever they are declared, so that a line is read in two steps: all declarations first.
// `param NAME code = "return x;" (float x) -> float "text"`: a function whose body the caller gives.
#pragma once

#include <kiln/template.h>

#include "template/expression_parser.h"
#include "template/lexer.h"

namespace kiln {

/// A name in UPPER_CASE that no compiler has as a macro. what: for messages, "the parameter's name".
std::string parse_constant_name(Lexer& lexer, const std::string& what);

/// Reads the line after the word `param` up to its `=`. Throws TemplateError.
Parameter parse_parameter_declaration(Lexer& lexer);

/// Reads the rest of the line, the default and the text, into `parameter`. Returns the default if it is an
/// expression that names parameters; null if it is a value, which is checked. `scope`: all parameters.
ExpressionPtr parse_parameter_default(Lexer& lexer, Parameter& parameter, const Scope& scope);

}  // namespace kiln
