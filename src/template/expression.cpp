// SPDX-License-Identifier: Apache-2.0
//
// Evaluating and folding. Parsing is in expression_parser.cpp.
#include "template/expression.h"

#include <algorithm>

#include "template/arithmetic.h"
#include "template/element_type.h"

namespace kiln {
namespace {

constexpr LimitName kLimits[] = {
    {"threads_per_block", &Limits::threads_per_block},
    {"warp_size", &Limits::warp_size},
    {"shared_bytes_per_block", &Limits::shared_bytes_per_block},
    {"shared_bytes_per_block_optin", &Limits::shared_bytes_per_block_optin},
    {"shared_bytes_per_multiprocessor", &Limits::shared_bytes_per_multiprocessor},
    {"registers_per_block", &Limits::registers_per_block},
    {"registers_per_multiprocessor", &Limits::registers_per_multiprocessor},
    {"threads_per_multiprocessor", &Limits::threads_per_multiprocessor},
    {"blocks_per_multiprocessor", &Limits::blocks_per_multiprocessor},
    {"blocks_per_cluster", &Limits::blocks_per_cluster},
    {"multiprocessors", &Limits::multiprocessors},
    {"l2_bytes", &Limits::l2_bytes},
    {"grid_x", &Limits::grid_x},
    {"grid_y", &Limits::grid_y},
    {"grid_z", &Limits::grid_z},
};
static_assert(sizeof(Limits) == std::size(kLimits) * sizeof(std::int64_t), "every limit has a name in rules");

}  // namespace

std::span<const LimitName> limit_names() { return kLimits; }

std::string Failure::text() const {
    if (!*this) return {};
    const std::string where(expression->text_of(expression->nodes()[static_cast<std::size_t>(node)]));
    return where + (reason == Failure::Reason::overflow ? " overflows 64 bits" : " divides by zero");
}

Expression::Expression(std::string text, Location location, std::vector<Node> nodes,
                       std::vector<ExpressionPtr> references)
    : text_(std::move(text)),
      location_(location),
      nodes_(std::move(nodes)),
      references_(std::move(references)),
      weight_(nodes_.size()) {
    const auto depend_on = [&](int parameter) {
        if (std::ranges::find(parameters_, parameter) == parameters_.end()) parameters_.push_back(parameter);
    };
    for (const Node& node : nodes_) {
        if (node.operation == Operator::parameter) depend_on(static_cast<int>(node.value));
        needs_device_ |= node.operation == Operator::limit;
        if (node.operation != Operator::reference) continue;
        for (int parameter : reference(node)->parameters()) depend_on(parameter);
        needs_device_ |= reference(node)->needs_device();
        weight_ += reference(node)->weight();
    }
}

ExpressionPtr Expression::combine(Operator operation, std::vector<ExpressionPtr> parts, std::string text,
                                  Location location) {
    std::vector<Node> nodes;
    const auto add = [&](Node node) {
        node.end = text.size();
        nodes.push_back(node);
        return static_cast<int>(nodes.size()) - 1;
    };
    const std::int64_t neutral = operation == Operator::multiply ? 1 : 0;
    int total = parts.empty() ? add({.value = neutral}) : -1;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const int part = add({.operation = Operator::reference, .value = static_cast<std::int64_t>(i)});
        total = total < 0 ? part : add({.operation = operation, .operands = {total, part, -1}});
    }
    return std::make_shared<Expression>(std::move(text), location, std::move(nodes), std::move(parts));
}

ExpressionPtr Expression::named(ExpressionPtr value, std::string name, Location location) {
    const Node node{
        .operation = Operator::reference, .kind = value->kind(), .value = 0, .begin = 0, .end = name.size()};
    return std::make_shared<Expression>(std::move(name), location, std::vector{node},
                                        std::vector{std::move(value)});
}

std::string_view Expression::text_of(const Node& node) const {
    return std::string_view(text_).substr(node.begin, node.end - node.begin);
}

std::int64_t Expression::evaluate(const Node& node, const Environment& environment, Failure& failure) const {
    const auto operand = [&](std::size_t i) {
        return evaluate(nodes_[static_cast<std::size_t>(node.operands[i])], environment, failure);
    };
    const auto index = static_cast<std::size_t>(node.value);
    Failure::Reason reason = Failure::Reason::none;
    std::int64_t result = 0;
    switch (node.operation) {
        case Operator::constant:
            return node.value;
        case Operator::parameter:
            return environment.parameters[index];
        case Operator::limit:
            return environment.limits->*kLimits[index].field;
        case Operator::argument:
            result = arithmetic::read_argument(environment.arguments[index], node.format, reason);
            break;
        case Operator::reference:
            return references_[index]->evaluate(environment, failure);
        case Operator::size_of:
            return element_types()[static_cast<std::size_t>(operand(0))].bytes;
        case Operator::logical_and:
            return operand(0) != 0 && operand(1) != 0;
        case Operator::logical_or:
            return operand(0) != 0 || operand(1) != 0;
        case Operator::select:
            return operand(0) != 0 ? operand(1) : operand(2);
        default: {
            const std::int64_t first = operand(0);
            const std::int64_t second = node.operands[1] < 0 ? 0 : operand(1);
            result = arithmetic::apply(node.operation, first, second, reason);
        }
    }
    if (reason != Failure::Reason::none && !failure)
        failure = {reason, this, static_cast<int>(&node - nodes_.data())};
    return result;
}

Expression Expression::fold(const Environment& environment) const {
    std::vector<Node> folded;
    folded.push_back(fold(root(), environment, folded));
    return Expression(text_, location_, std::move(folded), references_);
}

Node Expression::fold(const Node& node, const Environment& environment, std::vector<Node>& folded) const {
    Node result = node;
    if (node.operation == Operator::argument) return result;
    const std::size_t size_before = folded.size();
    bool constant = true;
    for (int& operand : result.operands) {
        if (operand < 0) continue;
        const Node part = fold(nodes_[static_cast<std::size_t>(operand)], environment, folded);
        constant &= part.operation == Operator::constant;
        operand = static_cast<int>(folded.size());
        folded.push_back(part);
    }
    if (!constant) return result;
    Failure failure;
    const std::int64_t value = evaluate(node, environment, failure);
    // What fails stays as it is, so that it fails again where the error can be reported.
    if (failure) return result;
    folded.resize(size_before);
    return {.operation = Operator::constant,
            .kind = node.kind,
            .value = value,
            .begin = node.begin,
            .end = node.end};
}

}  // namespace kiln
