// SPDX-License-Identifier: Apache-2.0
//
// Front-matter text -> Expression, with C's precedence. Names and kinds are checked here, so that
// evaluating can only fail by overflow or division by zero.
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

/// What an expression may name, in addition to device limits, type names and functions.
struct Scope {
    struct Argument {
        std::string name;
        std::string type;                      ///< as declared, for messages
        std::optional<ArgumentFormat> format;  ///< not set: no integer
        bool is_known = true;                  ///< false: a size that no line above has given a default
    };

    const std::vector<Parameter>* parameters = nullptr;
    std::map<std::string, ExpressionPtr, std::less<>> derived;  ///< constants (`let`), threads, shared_bytes
    std::map<std::string, std::string, std::less<>> unusable;   ///< names that can't be used here, and why
    const std::vector<Argument>* arguments = nullptr;           ///< of the kernel
    bool may_use_arguments = false;
};

/// Reads the longest expression from here. Throws TemplateError at the offending token.
ExpressionPtr parse_expression(Lexer& lexer, const Scope& scope);
/// The same, of a number: a type is an error.
ExpressionPtr parse_number(Lexer& lexer, const Scope& scope);

}  // namespace kiln
