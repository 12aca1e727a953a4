// SPDX-License-Identifier: Apache-2.0
//
// A precedence-climbing parser. Nesting and size are bounded, since templates may come from anyone.
#include "template/expression_parser.h"

#include <algorithm>

#include "base/words.h"
#include "template/element_type.h"

namespace kiln {
namespace {

constexpr int kDeepest = 100;
constexpr std::size_t kMostNodes = 1000;
constexpr std::size_t kMostWeight = 10'000;  // each constant that is used twice may double it

struct BinaryOperator {
    std::string_view symbol;
    Operator operation;
    int precedence;  ///< a higher one binds tighter
    bool gives_truth;
};

constexpr BinaryOperator kBinaryOperators[] = {
    {"||", Operator::logical_or, 1, true}, {"&&", Operator::logical_and, 2, true},
    {"==", Operator::equal, 3, true},      {"!=", Operator::not_equal, 3, true},
    {"<", Operator::less, 4, true},        {"<=", Operator::less_equal, 4, true},
    {">", Operator::greater, 4, true},     {">=", Operator::greater_equal, 4, true},
    {"+", Operator::add, 5, false},        {"-", Operator::subtract, 5, false},
    {"*", Operator::multiply, 6, false},   {"/", Operator::divide, 6, false},
    {"%", Operator::remainder, 6, false},
};

struct Function {
    std::string_view name;
    Operator operation;
    std::size_t operands;
    ExpressionKind kind;
};

constexpr Function kFunctions[] = {
    {"ceil_div", Operator::ceil_div, 2, ExpressionKind::number},
    {"min", Operator::min, 2, ExpressionKind::number},
    {"max", Operator::max, 2, ExpressionKind::number},
    {"is_pow2", Operator::is_pow2, 1, ExpressionKind::truth},
};

class Parser {
  public:
    Parser(Lexer& lexer, const Scope& scope) : lexer_(lexer), scope_(scope), begin_(lexer.peek().begin) {}

    ExpressionPtr parse() {
        ternary();  // leaves its root last
        const std::string_view text = lexer_.slice(begin_, nodes_.back().end);
        for (Node& node : nodes_) {
            node.begin -= begin_;
            node.end -= begin_;
        }
        return std::make_shared<Expression>(std::string(text), lexer_.location(begin_), std::move(nodes_),
                                            std::move(references_));
    }

  private:
    /// Counts the nesting for as long as it lives.
    struct Nesting {
        Nesting(Parser& parser, const Token& token) : depth(parser.depth_) {
            if (++depth > kDeepest)
                parser.lexer_.fail(token, "this expression is nested more than 100 levels deep");
        }
        ~Nesting() { --depth; }
        int& depth;
    };

    Node& at(int index) { return nodes_[static_cast<std::size_t>(index)]; }

    int add(const Node& node, const Token& token) {
        if (nodes_.size() == kMostNodes)
            lexer_.fail(token, "this expression has more than 1000 terms and operators");
        nodes_.push_back(node);
        return static_cast<int>(nodes_.size()) - 1;
    }

    int leaf(Operator operation, ExpressionKind kind, std::int64_t value, const Token& token) {
        return add(
            {.operation = operation, .kind = kind, .value = value, .begin = token.begin, .end = token.end},
            token);
    }

    void require_number(int operand, const Token& user) {
        if (at(operand).kind == ExpressionKind::type)
            lexer_.fail(user,
                        "a type can only be compared with == and != or given to sizeof, not used with " +
                            std::string(user.text));
    }

    int ternary() {
        const Nesting nesting(*this, lexer_.peek());
        const int condition = binary(1);
        const Token question = lexer_.peek();
        if (!lexer_.accept("?")) return condition;
        require_number(condition, question);
        const int yes = ternary();
        require_number(yes, question);
        lexer_.expect(":", "of the ?: that was opened");
        const int no = ternary();
        require_number(no, question);
        const bool both_truth = at(yes).kind == ExpressionKind::truth && at(no).kind == ExpressionKind::truth;
        return add({.operation = Operator::select,
                    .kind = both_truth ? ExpressionKind::truth : ExpressionKind::number,
                    .operands = {condition, yes, no},
                    .begin = at(condition).begin,
                    .end = at(no).end},
                   question);
    }

    int binary(int lowest_precedence) {
        int left = unary();
        for (;;) {
            const Token token = lexer_.peek();
            const auto found = std::ranges::find(kBinaryOperators, token.text, &BinaryOperator::symbol);
            if (token.kind != TokenKind::symbol || found == std::end(kBinaryOperators) ||
                found->precedence < lowest_precedence)
                return left;
            lexer_.next();
            const int right = binary(found->precedence + 1);
            check_operands(left, right, token);
            left = add({.operation = found->operation,
                        .kind = found->gives_truth ? ExpressionKind::truth : ExpressionKind::number,
                        .operands = {left, right, -1},
                        .begin = at(left).begin,
                        .end = at(right).end},
                       token);
        }
    }

    void check_operands(int left, int right, const Token& token) {
        const bool left_is_type = at(left).kind == ExpressionKind::type;
        const bool right_is_type = at(right).kind == ExpressionKind::type;
        if (token.text == "==" || token.text == "!=") {
            if (left_is_type != right_is_type) lexer_.fail(token, "a type can't be compared with a number");
            return;
        }
        require_number(left, token);
        require_number(right, token);
    }

    int unary() {
        const Token token = lexer_.peek();
        const bool negate = lexer_.accept("-");
        if (!negate && !lexer_.accept("!")) {
            if (lexer_.accept("+")) lexer_.fail(token, "a leading + is not supported; leave it out");
            return primary();
        }
        const Nesting nesting(*this, token);
        const int operand = unary();
        require_number(operand, token);
        return add({.operation = negate ? Operator::negate : Operator::logical_not,
                    .kind = negate ? ExpressionKind::number : ExpressionKind::truth,
                    .operands = {operand, -1, -1},
                    .begin = token.begin,
                    .end = at(operand).end},
                   token);
    }

    int primary() {
        const Token token = lexer_.peek();
        if (token.kind == TokenKind::number) {
            const std::int64_t value = lexer_.expect_integer("a number");
            return leaf(Operator::constant, ExpressionKind::number, value, token);
        }
        if (token.kind == TokenKind::identifier) return name();
        if (!lexer_.accept("("))
            lexer_.fail(token, "expected a number, a name or (, found " + Lexer::describe(token));
        const int inner = ternary();
        const std::size_t end = lexer_.peek().end;
        lexer_.expect(")", "that closes the (");
        at(inner).begin = token.begin;
        at(inner).end = end;
        return inner;
    }

    int name() {
        const Token token = lexer_.next();
        if (token.text == "true" || token.text == "false")
            return leaf(Operator::constant, ExpressionKind::truth, token.text == "true", token);
        if (token.text == "sizeof") return size_of(token);
        if (token.text == "device") return limit(token);
        for (const Function& function : kFunctions)
            if (function.name == token.text) return call(function, token);

        const auto parameter = std::ranges::find(*scope_.parameters, token.text, &Parameter::name);
        if (parameter != scope_.parameters->end()) {
            if (parameter->kind == ParameterKind::real)
                lexer_.fail(token, parameter->name + " is a float, and expressions compute with integers");
            if (parameter->kind == ParameterKind::code)
                lexer_.fail(token, parameter->name + " is code, and expressions compute with integers");
            const ExpressionKind kind = parameter->kind == ParameterKind::type      ? ExpressionKind::type
                                        : parameter->kind == ParameterKind::boolean ? ExpressionKind::truth
                                                                                    : ExpressionKind::number;
            return leaf(Operator::parameter, kind, parameter - scope_.parameters->begin(), token);
        }
        if (const auto derived = scope_.derived.find(token.text); derived != scope_.derived.end()) {
            weight_ += derived->second->weight();
            if (weight_ > kMostWeight)
                lexer_.fail(token, "this expression has more than 10000 terms and operators, with those of " +
                                       std::string(token.text) + " and the other constants that it uses");
            references_.push_back(derived->second);
            return leaf(Operator::reference, derived->second->kind(),
                        static_cast<std::int64_t>(references_.size()) - 1, token);
        }
        if (scope_.arguments) {
            const auto argument = std::ranges::find(*scope_.arguments, token.text, &Scope::Argument::name);
            if (argument != scope_.arguments->end()) return launch_argument(*argument, token);
        }
        if (const auto type = find_element_type(token.text))
            return leaf(Operator::constant, ExpressionKind::type, *type, token);
        fail_unknown(token);
    }

    int launch_argument(const Scope::Argument& argument, const Token& token) {
        if (!scope_.may_use_arguments)
            lexer_.fail(token, argument.name +
                                   " is an argument of the kernel, known only at launch; only grid and what "
                                   "depends on sizes may use it");
        if (!argument.format)
            lexer_.fail(token, "the argument " + argument.name + " is " + argument.type +
                                   "; expressions may only use integer arguments");
        if (!argument.is_known)
            lexer_.fail(token, "the argument " + argument.name + " has no value yet; a line //@ size " +
                                   argument.name + " = EXPRESSION above gives it one");
        return add({.operation = Operator::argument,
                    .kind = ExpressionKind::number,
                    .format = *argument.format,
                    .value = &argument - scope_.arguments->data(),
                    .begin = token.begin,
                    .end = token.end},
                   token);
    }

    int limit(const Token& device) {
        lexer_.expect(".", "after device");
        const Token field = lexer_.expect_identifier("a device limit");
        std::vector<std::string> names;
        for (const LimitName& known : limit_names()) {
            if (known.name == field.text) {
                const auto index = &known - limit_names().data();
                const int node = leaf(Operator::limit, ExpressionKind::number, index, device);
                at(node).end = field.end;
                return node;
            }
            names.emplace_back(known.name);
        }
        const std::string hint = did_you_mean(field.text, names);
        lexer_.fail(field, "there is no device limit " + std::string(field.text) +
                               (hint.empty() ? "; the limits are " + join(names) : hint));
    }

    int size_of(const Token& token) {
        const Nesting nesting(*this, token);
        lexer_.expect("(", "after sizeof");
        const Token operand_token = lexer_.peek();
        const int operand = operand_token.kind == TokenKind::identifier ? name() : -1;
        if (operand < 0 || at(operand).kind != ExpressionKind::type)
            lexer_.fail(operand_token, "sizeof takes a type parameter or a type name, found " +
                                           Lexer::describe(operand_token));
        const std::size_t end = lexer_.peek().end;
        lexer_.expect(")", "after the type");
        return add({.operation = Operator::size_of,
                    .kind = ExpressionKind::number,
                    .operands = {operand, -1, -1},
                    .begin = token.begin,
                    .end = end},
                   token);
    }

    int call(const Function& function, const Token& token) {
        const std::string signature =
            std::string(function.name) + (function.operands == 1 ? "(x)" : "(a, b)");
        lexer_.expect("(", "after " + std::string(function.name) + ", which is used as " + signature);
        Node node{.operation = function.operation, .kind = function.kind, .begin = token.begin};
        for (std::size_t i = 0; i < function.operands; ++i) {
            if (i > 0) lexer_.expect(",", "in " + signature);
            node.operands[i] = ternary();
            require_number(node.operands[i], token);
        }
        node.end = lexer_.peek().end;
        lexer_.expect(")", "at the end of " + signature);
        return add(node, token);
    }

    [[noreturn]] void fail_unknown(const Token& token) {
        if (const auto why = scope_.unusable.find(token.text); why != scope_.unusable.end())
            lexer_.fail(token, std::string(token.text) + " can't be used here: " + why->second);
        std::vector<std::string> names{"device", "true", "false", "sizeof"};
        for (const Function& function : kFunctions) names.emplace_back(function.name);
        for (const Parameter& parameter : *scope_.parameters) names.push_back(parameter.name);
        for (const auto& [derived, expression] : scope_.derived) names.push_back(derived);
        if (scope_.may_use_arguments && scope_.arguments)
            for (const auto& argument : *scope_.arguments)
                if (argument.format) names.push_back(argument.name);
        for (std::string& type : element_type_names()) names.push_back(std::move(type));
        lexer_.fail(token, "the name " + std::string(token.text) + " is not known here" +
                               did_you_mean(token.text, names));
    }

    Lexer& lexer_;
    const Scope& scope_;
    std::size_t begin_;
    int depth_ = 0;
    std::size_t weight_ = 0;  // of what is referred to
    std::vector<Node> nodes_;
    std::vector<ExpressionPtr> references_;
};

}  // namespace

ExpressionPtr parse_expression(Lexer& lexer, const Scope& scope) { return Parser(lexer, scope).parse(); }

ExpressionPtr parse_number(Lexer& lexer, const Scope& scope) {
    const Token first = lexer.peek();
    ExpressionPtr expression = parse_expression(lexer, scope);
    if (expression->kind() == ExpressionKind::type)
        lexer.fail(first, "expected a number, found the type " + expression->text());
    return expression;
}

}  // namespace kiln
