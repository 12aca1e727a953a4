// SPDX-License-Identifier: Apache-2.0
//
// && || and ?: stay what they are in C, which leaves operands unevaluated as front matter does.
#include "export/c_expression.h"

#include <limits>
#include <string_view>
#include <utility>

#include "format/format.h"

namespace kiln {
namespace {

/// Limits that differ among the devices of one architecture.
bool is_of_device(const Node& node) {
    const std::string_view name = limit_names()[static_cast<std::size_t>(node.value)].name;
    return name == "multiprocessors" || name == "l2_bytes";
}

struct Function {
    std::string_view name, definition;
};

// In the order in which they use each other.
constexpr Function kFunctions[] = {
    {"negate", R"(static kiln_i64 kiln_negate(kiln_i64 a, int* bad) {
    kiln_i64 result;
    if (__builtin_sub_overflow((kiln_i64)0, a, &result)) *bad = 1;
    return result;
}
)"},
    {"add", R"(static kiln_i64 kiln_add(kiln_i64 a, kiln_i64 b, int* bad) {
    kiln_i64 result;
    if (__builtin_add_overflow(a, b, &result)) *bad = 1;
    return result;
}
)"},
    {"subtract", R"(static kiln_i64 kiln_subtract(kiln_i64 a, kiln_i64 b, int* bad) {
    kiln_i64 result;
    if (__builtin_sub_overflow(a, b, &result)) *bad = 1;
    return result;
}
)"},
    {"multiply", R"(static kiln_i64 kiln_multiply(kiln_i64 a, kiln_i64 b, int* bad) {
    kiln_i64 result;
    if (__builtin_mul_overflow(a, b, &result)) *bad = 1;
    return result;
}
)"},
    {"divide", R"(static kiln_i64 kiln_divide(kiln_i64 a, kiln_i64 b, int* bad) {
    if (b == 0 || (b == -1 && a < -9223372036854775807LL)) {
        *bad = 1;
        return 0;
    }
    return a / b;
}
)"},
    {"remainder", R"(static kiln_i64 kiln_remainder(kiln_i64 a, kiln_i64 b, int* bad) {
    if (b == 0) *bad = 1;
    return b == 0 || b == -1 ? 0 : a % b;
}
)"},
    {"ceil_div", R"(static kiln_i64 kiln_ceil_div(kiln_i64 a, kiln_i64 b, int* bad) {
    if (b == 0 || (b == -1 && a < -9223372036854775807LL)) {
        *bad = 1;
        return 0;
    }
    return a / b + (a % b != 0 && (a % b < 0) == (b < 0));
}
)"},
    {"min", R"(static kiln_i64 kiln_min(kiln_i64 a, kiln_i64 b) { return a < b ? a : b; }
)"},
    {"max", R"(static kiln_i64 kiln_max(kiln_i64 a, kiln_i64 b) { return a > b ? a : b; }
)"},
    {"is_pow2", R"(static kiln_i64 kiln_is_pow2(kiln_i64 a) { return a > 0 && (a & (a - 1)) == 0; }
)"},
};

/// The function of an operation, and whether it may fail.
std::pair<std::string_view, bool> function_of(Operator operation) {
    switch (operation) {
        case Operator::negate:
            return {"negate", true};
        case Operator::add:
            return {"add", true};
        case Operator::subtract:
            return {"subtract", true};
        case Operator::multiply:
            return {"multiply", true};
        case Operator::divide:
            return {"divide", true};
        case Operator::remainder:
            return {"remainder", true};
        case Operator::ceil_div:
            return {"ceil_div", true};
        case Operator::min:
            return {"min", false};
        case Operator::max:
            return {"max", false};
        case Operator::is_pow2:
            return {"is_pow2", false};
        default:
            return {};
    }
}

std::string_view comparison(Operator operation) {
    switch (operation) {
        case Operator::equal:
            return "==";
        case Operator::not_equal:
            return "!=";
        case Operator::less:
            return "<";
        case Operator::less_equal:
            return "<=";
        case Operator::greater:
            return ">";
        case Operator::greater_equal:
            return ">=";
        default:
            return {};
    }
}

}  // namespace

std::string c_integer(std::int64_t value) {
    if (value == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807LL - 1)";
    return value < 0 ? formatted("({}LL)", value) : formatted("{}LL", value);
}

std::string c_arithmetic(const std::set<std::string>& used) {
    std::string text;
    for (const Function& function : kFunctions)
        if (used.contains(std::string(function.name))) text += function.definition;
    return text;
}

bool CExpressions::is_constant(const Expression& expression, const Node& node) const {
    if (node.operation == Operator::argument) return false;
    if (node.operation == Operator::limit && is_of_device(node)) return false;
    if (node.operation == Operator::reference) {
        const Expression& other = *expression.reference(node);
        return is_constant(other, other.root());
    }
    for (const int operand : node.operands)
        if (operand >= 0 && !is_constant(expression, expression.nodes()[static_cast<std::size_t>(operand)]))
            return false;
    return true;
}

std::string CExpressions::text(const Expression& expression, const Node& node) {
    if (is_constant(expression, node)) {
        Failure failure;
        const std::int64_t value = expression.evaluate(node, environment_, failure);
        if (!failure) return c_integer(value);
    }
    const auto operand = [&](std::size_t i) {
        return text(expression, expression.nodes()[static_cast<std::size_t>(node.operands[i])]);
    };
    switch (node.operation) {
        case Operator::argument:
            return formatted("a->value[{}]", node.value);
        case Operator::limit:
            return "d->" + std::string(limit_names()[static_cast<std::size_t>(node.value)].name);
        case Operator::reference: {
            const Expression& other = *expression.reference(node);
            return text(other, other.root());
        }
        case Operator::logical_not:
            return "!" + operand(0);
        case Operator::logical_and:
            return "(" + operand(0) + " && " + operand(1) + ")";
        case Operator::logical_or:
            return "(" + operand(0) + " || " + operand(1) + ")";
        case Operator::select:
            return "(" + operand(0) + " ? " + operand(1) + " : " + operand(2) + ")";
        default:
            break;
    }
    if (const std::string_view sign = comparison(node.operation); !sign.empty())
        return "(" + operand(0) + " " + std::string(sign) + " " + operand(1) + ")";
    const auto [name, may_fail] = function_of(node.operation);
    used_.emplace(name);
    std::string call = "kiln_" + std::string(name) + "(" + operand(0);
    if (node.operands[1] >= 0) call += ", " + operand(1);
    return call + (may_fail ? ", &bad)" : ")");
}

}  // namespace kiln
