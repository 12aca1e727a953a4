// SPDX-License-Identifier: Apache-2.0
//
// Checks what can be checked of one parameter alone: its name, its list, that a default which is a value is
// allowed, and that one which is an expression has the parameter's kind.
#include "template/parameter_line.h"

#include <kiln/error.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "base/words.h"
#include "template/code_text.h"
#include "template/element_type.h"
#include "template/parameter.h"

namespace kiln {
namespace {

/// Upper-case words that the compilers' headers define as macros, so that no constant can have the name.
constexpr std::string_view kReservedNames[] = {"NULL",    "EOF",     "NAN",     "INFINITY",
                                               "INT_MIN", "INT_MAX", "CHAR_BIT"};

}  // namespace

std::string parse_constant_name(Lexer& lexer, const std::string& what) {
    const Token token = lexer.expect_identifier(what);
    std::string name(token.text);
    const auto is_upper = [](char c) { return (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; };
    if (!std::ranges::all_of(name, is_upper) || name.front() == '_' || name.find("__") != std::string::npos) {
        std::string upper = name;
        for (char& c : upper)
            if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        lexer.fail(token, what + " " + name + " must be in UPPER_CASE, starting with a letter" +
                              (upper != name && upper.front() != '_' ? ", such as " + upper : std::string()));
    }
    if (std::ranges::find(kReservedNames, name) != std::end(kReservedNames))
        lexer.fail(token, name + " is a keyword or a macro of the compilers; take another name");
    return name;
}

namespace {

ParameterKind parse_kind(Lexer& lexer) {
    const Token token = lexer.peek();
    if (lexer.accept("int")) return ParameterKind::integer;
    if (lexer.accept("bool")) return ParameterKind::boolean;
    if (lexer.accept("type")) return ParameterKind::type;
    if (lexer.accept("float")) return ParameterKind::real;
    if (lexer.accept("code")) return ParameterKind::code;
    lexer.fail(token, "expected the parameter's kind, int, bool, type, float or code, found " +
                          Lexer::describe(token));
}

Value parse_type(Lexer& lexer) {
    const Token token = lexer.expect_identifier("a type name");
    if (find_element_type(token.text)) return std::string(token.text);
    const auto alias = find_element_type_or_alias(token.text);
    const std::vector<std::string> names = element_type_names();
    const std::string hint =
        alias ? "; write " + std::string(element_types()[static_cast<std::size_t>(*alias)].name)
              : did_you_mean(token.text, names);
    lexer.fail(token, "unknown type " + std::string(token.text) +
                          (hint.empty() ? "; the types are " + join(names) : hint));
}

Value parse_value(Lexer& lexer, ParameterKind kind) {
    if (kind == ParameterKind::integer) return static_cast<long long>(lexer.expect_integer("a value"));
    if (kind == ParameterKind::type) return parse_type(lexer);
    if (kind == ParameterKind::real) return lexer.expect_float("a value");
    const Token token = lexer.peek();
    if (lexer.accept("true")) return true;
    if (lexer.accept("false")) return false;
    lexer.fail(token, "expected true or false, found " + Lexer::describe(token));
}

void parse_range_end(Lexer& lexer, Parameter& parameter, std::int64_t min) {
    const Token token = lexer.peek();
    parameter.min = min;
    parameter.max = lexer.expect_integer("the range's end");
    if (parameter.max < min)
        lexer.fail(token, "the range " + parameter.allowed_text() +
                              " is empty; its end must not be less than its start");
    if (min < 0 && parameter.max > std::numeric_limits<std::int64_t>::max() + min)
        lexer.fail(token, "the range " + parameter.allowed_text() + " has too many values");
}

/// The list or the range behind `in`.
void parse_allowed(Lexer& lexer, Parameter& parameter) {
    std::unordered_set<std::int64_t> listed;  // codes
    do {
        const Token token = lexer.peek();
        const Value value = parse_value(lexer, parameter.kind);
        if (value.is_int() && parameter.allowed.empty() && lexer.accept(".."))
            return parse_range_end(lexer, parameter, value.as_int());
        // Before its code, so that int and int32_t are two values where a list has both.
        parameter.allowed.push_back(value);
        const auto code = encode(parameter, value);
        if (code && !listed.insert(*code).second)
            lexer.fail(token, "the value " + value.text() + " is listed twice");
    } while (lexer.accept(","));
}

/// Whether a single word or number is all that stands between here and the text or the end of the line.
bool is_one_word(Lexer lexer) {
    lexer.accept("-");
    lexer.next();
    return lexer.peek().kind == TokenKind::end || lexer.peek().kind == TokenKind::string;
}

void check_kind(const Lexer& lexer, const Token& first, const Parameter& parameter,
                const Expression& expression) {
    const auto is = [&](ParameterKind kind, ExpressionKind wanted, std::string_view what) {
        if (parameter.kind == kind && expression.kind() != wanted)
            lexer.fail(first, "the default of " + parameter.name + " must be " + std::string(what) + "; " +
                                  expression.text() + " is not");
    };
    is(ParameterKind::integer, ExpressionKind::number, "a number");
    is(ParameterKind::boolean, ExpressionKind::truth, "true or false, such as a comparison");
    is(ParameterKind::type, ExpressionKind::type, "a type");
    if (expression.needs_device())
        lexer.fail(first, "the default of " + parameter.name +
                              " can't depend on the device, since a variant without values means the same "
                              "everywhere; " +
                              expression.text() + " does");
}

/// "return x;" (float x, int row) -> float
void parse_code(Lexer& lexer, Parameter& parameter) {
    const Token first = lexer.peek();
    if (first.kind != TokenKind::string)
        lexer.fail(first, "expected the default of " + parameter.name + ", the body of a function such as " +
                              "\"return x;\", found " + Lexer::describe(first));
    const std::string body = lexer.accept_string();
    if (const std::string wrong = wrong_in_code(body); !wrong.empty())
        lexer.fail(first, "the default of " + parameter.name + " is no body of a function: " + wrong);
    parameter.default_value = Code(body);
    parameter.signature = lexer
                              .expect_parentheses("the arguments of " + parameter.name +
                                                  ", such as (float x, int row, int column)")
                              .text;
    parameter.result = "auto";
    if (!lexer.accept("-")) return;
    lexer.expect(">", "of ->, and the type that " + parameter.name + " returns");
    const Token type = lexer.next_until_string();
    if (type.kind == TokenKind::end)
        lexer.fail(type,
                   "expected the type that " + parameter.name + " returns, found " + Lexer::describe(type));
    parameter.result = type.text;
}

}  // namespace

Parameter parse_parameter_declaration(Lexer& lexer) {
    Parameter parameter;
    parameter.name = parse_constant_name(lexer, "the parameter's name");
    parameter.kind = parse_kind(lexer);
    if (parameter.kind == ParameterKind::boolean) {
        parameter.allowed = {false, true};
    } else if (parameter.kind != ParameterKind::code &&
               (parameter.kind != ParameterKind::real || lexer.peek().text != "=")) {
        lexer.expect("in", "and the allowed values, such as in 16, 32, 64 = 32");
        parse_allowed(lexer, parameter);
    }
    lexer.expect("=", "and the default value");
    return parameter;
}

ExpressionPtr parse_parameter_default(Lexer& lexer, Parameter& parameter, const Scope& scope) {
    const Token first = lexer.peek();
    const bool is_value =
        parameter.kind == ParameterKind::real ||
        (is_one_word(lexer) &&
         std::ranges::find(*scope.parameters, first.text, &Parameter::name) == scope.parameters->end() &&
         !scope.derived.contains(first.text));
    ExpressionPtr expression;
    if (parameter.kind == ParameterKind::code) {
        parse_code(lexer, parameter);
    } else if (is_value) {
        parameter.default_value = parse_value(lexer, parameter.kind);
        if (!parameter.allows(parameter.default_value))
            lexer.fail(first, "the default " + parameter.default_value.text() + " of " + parameter.name +
                                  " is not one of its values, " + parameter.allowed_text());
    } else {
        expression = parse_expression(lexer, scope);
        check_kind(lexer, first, parameter, *expression);
        parameter.default_expression = expression->text();
        for (const int used : expression->parameters())
            parameter.default_uses.push_back((*scope.parameters)[static_cast<std::size_t>(used)].name);
    }
    parameter.text = lexer.accept_string();
    lexer.expect_end("the parameter");
    return expression;
}

}  // namespace kiln
