// SPDX-License-Identifier: Apache-2.0
//
// Names are checked against everything that a constexpr of the same name would conflict with, so that the error is
// reported for the template rather than by a compiler.
#include "template/constant_lines.h"

#include <algorithm>
#include <utility>

#include "format/format.h"
#include "template/cpp_lexer.h"
#include "template/parameter_line.h"

namespace kiln {
namespace {

int line_of(std::string_view text, std::size_t offset) {
    return 1 + static_cast<int>(std::ranges::count(text.substr(0, offset), '\n'));
}

/// Behind the <> of `template <...>`, which `at` is the first token of.
std::size_t behind_template_head(const std::vector<CppToken>& tokens, std::size_t at) {
    int depth = 0;
    for (++at; at < tokens.size(); ++at) {
        if (tokens[at].text == "<") ++depth;
        if (tokens[at].text == ">" && --depth == 0) return at + 1;
    }
    return at;
}

/// The line on which the file declares this name after a type, outside of all braces and parentheses; 0: it does not.
/// After a * it may also be a factor, which is left to the compilers.
int declared_on_line(std::string_view text, const std::vector<CppToken>& tokens, std::string_view name) {
    constexpr std::string_view kBehindName[] = {"=", ";", "[", "{", "("};
    int depth = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        const std::string_view token = tokens[i].text;
        if (token == "template" && tokens[i + 1].text == "<") {
            i = behind_template_head(tokens, i) - 1;
            continue;
        }
        if (token == "{" || token == "(") ++depth;
        if (token == "}" || token == ")") --depth;
        if (depth != 0 || token != name || i == 0) continue;
        if (tokens[i - 1].kind == CppToken::Kind::identifier &&
            std::ranges::find(kBehindName, tokens[i + 1].text) != std::end(kBehindName))
            return line_of(text, tokens[i].offset);
    }
    return 0;
}

class ConstantParser {
  public:
    ConstantParser(Scope& scope, const std::string& kernel, std::string_view text)
        : scope_(scope), kernel_(kernel), text_(text), tokens_(cpp_tokens(text)) {}

    ConstantLines parse(std::span<Directive> lines) {
        for (const char* const name : {"threads", "shared_bytes"})
            scope_.unusable.emplace(name, "it follows from lines that may use constants");
        std::vector<Token> names;
        for (Directive& line : lines) {
            names.push_back(line.lexer.peek());
            Constant constant;
            constant.name = parse_constant_name(line.lexer, "the constant's name");
            constant.line = line.line;
            check_name(line.lexer, names.back(), constant.name);
            scope_.unusable.emplace(
                constant.name,
                formatted("the constant is declared on line {}, and a constant may use those above it only",
                          line.line));
            result_.constants.push_back(std::move(constant));
        }
        for (std::size_t i = 0; i < lines.size(); ++i)
            parse_value(lines[i].lexer, names[i], result_.constants[i]);
        scope_.unusable.clear();
        return std::move(result_);
    }

  private:
    void check_name(const Lexer& lexer, const Token& token, const std::string& name) {
        const auto parameter = std::ranges::find(*scope_.parameters, name, &Parameter::name);
        if (parameter != scope_.parameters->end())
            lexer.fail(
                token,
                formatted("the constant {} has the name of the parameter on line {}; rename one of them",
                          name, parameter->line));
        const auto other = std::ranges::find(result_.constants, name, &Constant::name);
        if (other != result_.constants.end())
            lexer.fail(token, formatted("a second constant {}; the first is on line {}", name, other->line));
        const bool is_argument = std::ranges::any_of(
            *scope_.arguments, [&](const Scope::Argument& argument) { return argument.name == name; });
        if (is_argument)
            lexer.fail(token, "the constant " + name +
                                  " has the name of an argument of the kernel; rename one of them");
        if (name == kernel_)
            lexer.fail(token, "the constant " + name + " has the name of the kernel; rename one of them");
        if (const int line = declared_on_line(text_, tokens_, name); line != 0)
            lexer.fail(token, formatted("the file declares {} itself, on line {}; this line makes it a "
                                        "constant of the source: remove one of them",
                                        name, line));
    }

    void parse_value(Lexer& lexer, const Token& name, Constant& constant) {
        lexer.expect("=", "and an expression, such as let THREADS = WARPS * 32");
        const Token first = lexer.peek();
        ExpressionPtr value = parse_expression(lexer, scope_);
        if (value->kind() == ExpressionKind::type)
            lexer.fail(first, "a constant is a number, or true or false; " + value->text() + " is a type");
        if (value->needs_device())
            lexer.fail(
                first,
                "a constant can't depend on the device, since it is a part of the source, which is the "
                "same for all devices of an architecture; " +
                    value->text() + " does");
        constant.text = lexer.accept_string();
        lexer.expect_end("the constant");
        constant.is_bool = value->kind() == ExpressionKind::truth;
        constant.expression = value->text();
        for (const int used : value->parameters())
            constant.uses.push_back((*scope_.parameters)[static_cast<std::size_t>(used)].name);
        scope_.derived[constant.name] = Expression::named(value, constant.name, lexer.location(name.begin));
        scope_.unusable.erase(constant.name);
        result_.values.push_back(std::move(value));
    }

    Scope& scope_;
    const std::string& kernel_;
    std::string_view text_;
    std::vector<CppToken> tokens_;
    ConstantLines result_;
};

}  // namespace

ConstantLines parse_constant_lines(std::span<Directive> lines, Scope& scope, const std::string& kernel,
                                   std::string_view text) {
    if (lines.empty()) return {};
    return ConstantParser(scope, kernel, text).parse(lines);
}

Rule value_rule(const std::string& text, const std::string& reason, const ExpressionPtr& value) {
    // Equal to itself, unless it has no value at all.
    std::vector<Node> nodes{
        {.operation = Operator::reference, .kind = value->kind(), .value = 0, .begin = 0, .end = text.size()},
        {.operation = Operator::equal,
         .kind = ExpressionKind::truth,
         .operands = {0, 0, -1},
         .begin = 0,
         .end = text.size()},
    };
    const Location location = value->location();
    return {{text, reason, location.line, location.column},
            std::make_shared<Expression>(text, location, std::move(nodes), std::vector{value})};
}

Rule constant_rule(const Constant& constant, const ExpressionPtr& value) {
    return value_rule(constant.name + " = " + constant.expression,
                      "the constant " + constant.name + " is a part of the source", value);
}

}  // namespace kiln
