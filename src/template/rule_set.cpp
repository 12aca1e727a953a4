// SPDX-License-Identifier: Apache-2.0
//
// Checking and enumeration. Messages of violations are made here; alternatives come from suggestion.cpp.
#include "template/rule_set.h"

#include <algorithm>

#include "base/words.h"
#include "format/format.h"
#include "template/suggestion.h"

namespace kiln {
namespace {

/// Half a second of work; only ranges that should not be enumerated lead to more.
constexpr std::uint64_t kMostSteps = 20'000'000;

class LegalValueSearch {
  public:
    LegalValueSearch(const FrontMatter& front_matter, const RuleSet& rules, const FixedCodes& fixed,
                     const std::function<bool(const Codes&)>& visit)
        : rules_(rules), visit_(visit), codes_(front_matter.parameters.size()) {
        for (std::size_t i = 0; i < codes_.size(); ++i) {
            const Parameter& parameter = front_matter.parameters[i];
            Choices one{parameter.min, choice_count(parameter), {}};
            if (fixed[i])
                one.listed = {*fixed[i]};
            else if (!parameter.allowed.empty() || parameter.kind == ParameterKind::real)
                for (std::uint64_t k = 0; k < one.count; ++k) one.listed.push_back(choice(parameter, k));
            if (!one.listed.empty()) one.count = one.listed.size();
            choices_.push_back(std::move(one));
        }
    }

    WalkEnd run() { return rules_.hold_at(0, codes_) ? descend(0) : WalkEnd::complete; }

  private:
    struct Choices {
        std::int64_t first;  ///< of a range
        std::uint64_t count;
        Codes listed;  ///< empty for a range
    };

    WalkEnd descend(std::size_t level) {
        if (level == codes_.size()) return visit_(codes_) ? WalkEnd::complete : WalkEnd::stopped;
        const Choices& choices = choices_[level];
        for (std::uint64_t i = 0; i < choices.count; ++i) {
            if (++steps_ > kMostSteps) return WalkEnd::too_many_steps;
            codes_[level] = choices.listed.empty()
                                ? static_cast<std::int64_t>(static_cast<std::uint64_t>(choices.first) + i)
                                : choices.listed[i];
            if (!rules_.hold_at(level + 1, codes_)) continue;
            if (const WalkEnd end = descend(level + 1); end != WalkEnd::complete) return end;
        }
        return WalkEnd::complete;
    }

    const RuleSet& rules_;
    const std::function<bool(const Codes&)>& visit_;
    Codes codes_;
    std::vector<Choices> choices_;
    std::uint64_t steps_ = 0;
};

bool is_comparison(Operator operation) {
    return operation >= Operator::equal && operation <= Operator::greater_equal;
}

/// Nodes whose value is obvious from their name or text.
bool is_leaf(Operator operation) { return operation <= Operator::reference; }

bool is_plain(Operator operation) { return operation < Operator::reference; }

/// The part of a chain of && that decides that it is false.
const Node& deciding_part(const Expression& expression, const Environment& environment) {
    const Node* node = &expression.root();
    while (node->operation == Operator::logical_and) {
        Failure failure;
        const Node& left = expression.nodes()[static_cast<std::size_t>(node->operands[0])];
        const bool left_holds = expression.evaluate(left, environment, failure) != 0 && !failure;
        node = left_holds ? &expression.nodes()[static_cast<std::size_t>(node->operands[1])] : &left;
    }
    return *node;
}

class ValueList {
  public:
    ValueList(const std::vector<Parameter>& parameters, const Environment& environment)
        : parameters_(parameters), environment_(environment) {}

    void add_names(const Expression& expression) {
        for (const Node& node : expression.nodes()) {
            if (node.operation == Operator::parameter) {
                const auto index = static_cast<std::size_t>(node.value);
                add(parameters_[index].name, code_text(parameters_[index], environment_.parameters[index]));
            } else if (node.operation == Operator::limit || node.operation == Operator::argument) {
                add_value(expression, node);
            } else if (node.operation == Operator::reference) {
                const Expression& referenced = *expression.reference(node);
                add_names(referenced);
                // The only part of a sum or product has the same value as the whole, and a longer text.
                const bool is_whole = expression.nodes().size() == 1;
                if (!is_whole && !is_plain(referenced.root().operation))
                    add_value(referenced, referenced.root());
            }
        }
    }

    void add_sides(const Expression& expression, const Node& comparison) {
        for (std::size_t i = 0; i < 2; ++i) {
            const Node& side = expression.nodes()[static_cast<std::size_t>(comparison.operands[i])];
            const bool is_literal =
                side.operation == Operator::negate &&
                expression.nodes()[static_cast<std::size_t>(side.operands[0])].operation ==
                    Operator::constant;
            if (!is_leaf(side.operation) && !is_literal) add_value(expression, side);
        }
    }

    std::string text() const { return join(items_); }

  private:
    void add_value(const Expression& expression, const Node& node) {
        Failure failure;
        const std::int64_t value = expression.evaluate(node, environment_, failure);
        if (failure) return;
        const bool is_constant = node.operation == Operator::reference && node.kind == ExpressionKind::truth;
        add(std::string(expression.text_of(node)),
            is_constant ? value != 0 ? "true" : "false" : std::to_string(value));
    }

    void add(const std::string& name, const std::string& value) {
        std::string item = name + " = " + value;
        if (std::ranges::find(items_, item) == items_.end()) items_.push_back(std::move(item));
    }

    const std::vector<Parameter>& parameters_;
    const Environment& environment_;
    std::vector<std::string> items_;
};

}  // namespace

RuleSet::RuleSet(const FrontMatter& front_matter, const Limits& limits, bool has_target)
    : front_matter_(front_matter), limits_(limits), levels_(front_matter.parameters.size() + 1) {
    for (const auto* rules : {&front_matter.rules, &front_matter.implicit_rules}) {
        for (const Rule& rule : *rules) {
            if (rule.expression->needs_device() && !has_target) continue;
            const std::vector<int>& parameters = rule.expression->parameters();
            const int last = parameters.empty() ? -1 : *std::ranges::max_element(parameters);
            rules_.push_back(&rule);
            levels_[static_cast<std::size_t>(last + 1)].push_back(&rule);
        }
    }
}

bool RuleSet::holds(const Rule& rule, const Codes& codes) const {
    Failure failure;
    return rule.expression->evaluate(environment(codes), failure) != 0 && !failure;
}

const Rule* RuleSet::first_violated(const Codes& codes) const {
    for (const Rule* rule : rules_)
        if (!holds(*rule, codes)) return rule;
    return nullptr;
}

bool RuleSet::hold_at(std::size_t level, const Codes& codes) const {
    return std::ranges::all_of(levels_[level], [&](const Rule* rule) { return holds(*rule, codes); });
}

bool RuleSet::uses(std::size_t parameter) const {
    return std::ranges::any_of(rules_, [&](const Rule* rule) {
        const std::vector<int>& parameters = rule->expression->parameters();
        return std::ranges::find(parameters, static_cast<int>(parameter)) != parameters.end();
    });
}

std::string RuleSet::explain(const Rule& rule, const Codes& codes, const std::string& file) const {
    const Constraint& constraint = rule.constraint;
    std::string message = front_matter_.kernel + ": ";
    message += constraint.text.empty() ? "the rule " : constraint.text + ". The rule ";
    message += formatted("{} ({}:{}:{})", constraint.expression, file, constraint.line, constraint.column);
    Failure failure;
    rule.expression->evaluate(environment(codes), failure);
    message += failure ? " can't be computed, since " + failure.text() : " does not hold";
    const std::string values =
        describe_values(*rule.expression, front_matter_.parameters, environment(codes));
    message += values.empty() ? "." : ": " + values + ".";
    return message + suggestion(front_matter_, *this, rule, codes);
}

WalkEnd walk_legal(const FrontMatter& front_matter, const RuleSet& rules, const FixedCodes& fixed,
                   const std::function<bool(const Codes&)>& visit) {
    return LegalValueSearch(front_matter, rules, fixed, visit).run();
}

std::optional<std::uint64_t> count_legal(const FrontMatter& front_matter, const RuleSet& rules,
                                         const FixedCodes& fixed) {
    FixedCodes walked = fixed;
    std::uint64_t factor = 1, count = 0;
    bool overflows = false;
    for (std::size_t i = 0; i < fixed.size(); ++i) {
        if (fixed[i] || rules.uses(i)) continue;
        const Parameter& parameter = front_matter.parameters[i];
        walked[i] = choice(parameter, 0);
        const std::uint64_t choices = choice_count(parameter);  // 0: all of 64 bits
        overflows = __builtin_mul_overflow(factor, choices, &factor) || choices == 0 || overflows;
    }
    const WalkEnd end = walk_legal(front_matter, rules, walked, [&](const Codes&) {
        ++count;
        return true;
    });
    if (end != WalkEnd::complete) return std::nullopt;
    if (count == 0) return 0;
    overflows = __builtin_mul_overflow(factor, count, &count) || overflows;
    return overflows ? std::nullopt : std::optional(count);
}

std::string describe_values(const Expression& expression, const std::vector<Parameter>& parameters,
                            const Environment& environment) {
    ValueList list(parameters, environment);
    list.add_names(expression);
    if (expression.kind() == ExpressionKind::truth) {
        const Node& part = deciding_part(expression, environment);
        if (is_comparison(part.operation)) list.add_sides(expression, part);
    }
    return list.text();
}

}  // namespace kiln
