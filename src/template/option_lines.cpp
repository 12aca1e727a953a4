// SPDX-License-Identifier: Apache-2.0
//
// A line is a string in quotes, with names in braces, and perhaps a condition.
#include "template/option_lines.h"

#include <algorithm>

namespace kiln {
namespace {

bool is_known(const Scope& scope, const std::string& name) {
    return std::ranges::find(*scope.parameters, name, &Parameter::name) != scope.parameters->end() ||
           scope.derived.contains(name);
}

OptionLine parse_line(Lexer& lexer, const Scope& scope) {
    OptionLine line;
    const Token token = lexer.peek();
    line.location = lexer.location(token.begin);
    std::string text = lexer.accept_string();
    if (text.empty())
        lexer.fail(token,
                   "options are written in quotes: //@ option \"--use_fast_math\", or \"cuda: "
                   "--maxrregcount={REGS}\" if REGS > 0");
    while (true) {
        const auto open = text.find('{'), close = text.find('}', std::min(open, text.size()));
        if (open == text.npos) break;
        if (close == text.npos)
            lexer.fail(token, "a brace is not closed; {NAME} is the value of a parameter");
        std::string name = text.substr(open + 1, close - open - 1);
        if (!is_known(scope, name))
            lexer.fail(token, "{" + name + "} is no parameter and no constant of this template");
        line.parts.push_back(text.substr(0, open));
        line.names.push_back(std::move(name));
        text.erase(0, close + 1);
    }
    line.parts.push_back(std::move(text));
    if (lexer.accept("if")) {
        const Token first = lexer.peek();
        line.condition = parse_expression(lexer, scope);
        if (line.condition->kind() != ExpressionKind::truth)
            lexer.fail(first, "the condition must be true or false; " + line.condition->text() + " is not");
        if (line.condition->needs_device())
            lexer.fail(first,
                       "options can't depend on the device, since binaries are shared by all devices of an "
                       "architecture; " +
                           line.condition->text() + " does");
    }
    lexer.expect_end("the option");
    return line;
}

}  // namespace

std::vector<OptionLine> parse_option_lines(std::span<Directive> lines, const Scope& scope) {
    std::vector<OptionLine> result;
    for (Directive& line : lines) result.push_back(parse_line(line.lexer, scope));
    return result;
}

}  // namespace kiln
