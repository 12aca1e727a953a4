// SPDX-License-Identifier: Apache-2.0
//
// `param NAME int in 16, 32, 64 = 64 "text"`: one parameter's declaration.
#pragma once

#include <kiln/template.h>

#include "template/lexer.h"

namespace kiln {

/// Reads the line from behind the word `param` to its end. Throws TemplateError.
Parameter parse_parameter_line(Lexer& lexer);

}  // namespace kiln
