// SPDX-License-Identifier: Apache-2.0
//
// Code that a caller gives as the body of a function: what can be wrong with it.
#pragma once

#include <kiln/template.h>

#include <optional>
#include <string>
#include <string_view>

namespace kiln {

/// Why this text can't be put between the braces of a function without an effect on what follows: "line 1, column 8:
/// this ( has no )". Empty when it can: brackets and quotes are balanced, comments end, there is no preprocessor line,
/// no line continued by a backslash, no //@, nothing that checked_includes() rejects (the time of the compile, a file of
/// the assembler), and not too much of it. What it means is left to the compilers.
std::string wrong_in_code(std::string_view body);
/// Also of LTO-IR: whether its symbol is a name, and its bytes begin as LTO-IR or a fatbin does.
std::string wrong_in_code(const Code& code);

/// The names of the arguments of "(float x, const int (&at)[2])", to pass them on: "x, at". nullopt where one has none.
std::optional<std::string> argument_names(std::string_view signature);

}  // namespace kiln
