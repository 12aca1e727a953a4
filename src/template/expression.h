// SPDX-License-Identifier: Apache-2.0
//
// Expressions of front matter: parsed once into a flat tree, type-checked then, and evaluated in 64-bit
// integers with every overflow and division by zero reported. Booleans are 0 and 1, types are
// indices into element_types().
#pragma once

#include <kiln/template.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "template/lexer.h"

namespace kiln {

class Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

/// An integer argument of the kernel: how its bytes are read at launch.
enum class ArgumentFormat : std::uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, boolean };

enum class Operator : std::uint8_t {
    constant,
    parameter,
    limit,
    argument,
    reference,
    size_of,
    negate,
    logical_not,
    is_pow2,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    ceil_div,
    min,
    max,
    logical_and,
    logical_or,
    select,
};

enum class ExpressionKind : std::uint8_t { number, truth, type };

struct Node {
    Operator operation = Operator::constant;
    ExpressionKind kind = ExpressionKind::number;
    ArgumentFormat format = ArgumentFormat::i32;
    std::array<int, 3> operands{-1, -1, -1};  ///< nodes before this one
    std::int64_t value = 0;                   ///< a constant, or which parameter, limit, argument, reference
    std::size_t begin = 0, end = 0;           ///< its bytes in the expression's text
};

/// What names stand for. `parameters` are coded (see parameter.h).
struct Environment {
    std::span<const std::int64_t> parameters;
    const Limits* limits = nullptr;
    void* const* arguments = nullptr;
};

/// The first thing that went wrong in an evaluation.
struct Failure {
    enum class Reason : std::uint8_t { none, overflow, division_by_zero };
    Reason reason = Reason::none;
    const Expression* expression = nullptr;
    int node = 0;

    explicit operator bool() const { return reason != Reason::none; }
    /// "BM / TN divides by zero"
    std::string text() const;
};

class Expression {
  public:
    /// nodes: operands before their users, the root last. references: what `reference` nodes stand for.
    Expression(std::string text, Location location, std::vector<Node> nodes,
               std::vector<ExpressionPtr> references);

    /// The sum or the product of expressions, under a text of its own.
    static ExpressionPtr combine(Operator operation, std::vector<ExpressionPtr> parts, std::string text,
                                 Location location);

    /// The same value under a name.
    static ExpressionPtr named(ExpressionPtr value, std::string name, Location location);

    const std::string& text() const { return text_; }
    Location location() const { return location_; }
    ExpressionKind kind() const { return root().kind; }
    const std::vector<Node>& nodes() const { return nodes_; }
    const Node& root() const { return nodes_.back(); }
    const ExpressionPtr& reference(const Node& node) const {
        return references_[static_cast<std::size_t>(node.value)];
    }
    std::string_view text_of(const Node& node) const;

    /// Never throws. After a failure the result means nothing.
    std::int64_t evaluate(const Environment& environment, Failure& failure) const {
        return evaluate(root(), environment, failure);
    }
    std::int64_t evaluate(const Node& node, const Environment& environment, Failure& failure) const;

    /// The same expression with everything but launch arguments computed.
    Expression fold(const Environment& environment) const;

    /// Whether it, or what it refers to, names a device limit.
    bool needs_device() const { return needs_device_; }
    /// The parameters that it depends on, in order of appearance.
    const std::vector<int>& parameters() const { return parameters_; }
    /// Nodes, with those of what it refers to: how long evaluating takes.
    std::size_t weight() const { return weight_; }

  private:
    Node fold(const Node& node, const Environment& environment, std::vector<Node>& folded) const;

    std::string text_;
    Location location_;
    std::vector<Node> nodes_;
    std::vector<ExpressionPtr> references_;
    std::vector<int> parameters_;
    bool needs_device_ = false;
    std::size_t weight_ = 0;
};

/// device.NAME, for every field of Limits.
struct LimitName {
    std::string_view name;
    std::int64_t Limits::*field;
};
std::span<const LimitName> limit_names();

}  // namespace kiln
