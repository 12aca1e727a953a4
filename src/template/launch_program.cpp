// SPDX-License-Identifier: Apache-2.0
//
// Straight-line code only. An expression with && || or ?: must leave operands unevaluated, and one that is
// very deep would need a larger stack: those are rare in grids and are evaluated as trees.
#include "template/launch_program.h"

#include <algorithm>

#include "template/arithmetic.h"

namespace kiln {
namespace {

constexpr std::size_t kStackSize = 16;

bool is_straight(const Node& node) {
    return node.operation != Operator::logical_and && node.operation != Operator::logical_or &&
           node.operation != Operator::select && node.operation != Operator::reference &&
           node.operation != Operator::size_of;
}

/// How many values the stack holds at most while this node is computed.
std::size_t depth(const Expression& expression, const Node& node) {
    std::size_t deepest = 1;
    for (std::size_t i = 0; i < node.operands.size(); ++i)
        if (node.operands[i] >= 0)
            deepest = std::max(
                deepest,
                i + depth(expression, expression.nodes()[static_cast<std::size_t>(node.operands[i])]));
    return deepest;
}

}  // namespace

LaunchProgram::LaunchProgram(const Expression& expression, const Environment& environment)
    : folded_(expression.fold(environment)) {
    if (std::ranges::all_of(folded_.nodes(), is_straight) && depth(folded_, folded_.root()) <= kStackSize)
        compile(folded_.root());
}

void LaunchProgram::compile(const Node& node) {
    Instruction instruction{node.operation, node.format, false, node.value};
    for (std::size_t i = 0; i < node.operands.size() && node.operands[i] >= 0; ++i) {
        const Node& operand = folded_.nodes()[static_cast<std::size_t>(node.operands[i])];
        if (i == 1 && operand.operation == Operator::constant) {
            instruction.takes_constant = true;
            instruction.value = operand.value;
        } else {
            compile(operand);
        }
    }
    instructions_.push_back(instruction);
}

std::int64_t LaunchProgram::run(const Environment& environment, bool& failed) const {
    Failure failure;
    if (instructions_.empty()) {
        const std::int64_t value = folded_.evaluate(environment, failure);
        failed = static_cast<bool>(failure);
        return value;
    }
    std::int64_t stack[kStackSize];
    std::size_t count = 0;
    for (const Instruction& instruction : instructions_) {
        switch (instruction.operation) {
            case Operator::constant:
                stack[count++] = instruction.value;
                break;
            case Operator::argument:
                stack[count++] = arithmetic::read_argument(environment.arguments[instruction.value],
                                                           instruction.format, failure.reason);
                break;
            case Operator::negate:
            case Operator::logical_not:
            case Operator::is_pow2:
                stack[count - 1] =
                    arithmetic::apply(instruction.operation, stack[count - 1], 0, failure.reason);
                break;
            default: {
                const std::int64_t right = instruction.takes_constant ? instruction.value : stack[--count];
                stack[count - 1] =
                    arithmetic::apply(instruction.operation, stack[count - 1], right, failure.reason);
            }
        }
    }
    failed = failure.reason != Failure::Reason::none;
    return stack[0];
}

}  // namespace kiln
