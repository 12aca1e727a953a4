// SPDX-License-Identifier: Apache-2.0
//
// Code that a caller gives as the body of a function: what can be wrong with it.
#pragma once

#include <string>
#include <string_view>

namespace kiln {

/// Why this text can't be put between the braces of a function without an effect on what follows: "line 1, column 8:
/// this ( has no )". Empty when it can: brackets and quotes are balanced, comments end, there is no preprocessor line,
/// no line continued by a backslash, no //@, and not too much of it. What it means is left to the compilers.
std::string wrong_in_code(std::string_view body);

}  // namespace kiln
