// SPDX-License-Identifier: Apache-2.0
//
// Front-matter expressions as C. Everything that is known when a variant is made becomes a number; launch arguments are
// a->value[I], and what a device has is d->FIELD. Each operation is a call of a function that reports overflow and
// division by zero, as the library's own arithmetic does.
#pragma once

#include <set>
#include <string>

#include "template/template_data.h"

namespace kiln {

class CExpressions {
  public:
    explicit CExpressions(const VariantData& variant)
        : environment_(variant.origin->rules.environment(variant.codes)) {}

    std::string text(const Expression& expression) { return text(expression, expression.root()); }
    /// Of the arithmetic that was used: "add", "ceil_div". c_arithmetic() defines them.
    const std::set<std::string>& used() const { return used_; }

  private:
    std::string text(const Expression& expression, const Node& node);
    bool is_constant(const Expression& expression, const Node& node) const;

    Environment environment_;
    std::set<std::string> used_;
};

/// "42LL"
std::string c_integer(std::int64_t value);

/// The definitions of these functions.
std::string c_arithmetic(const std::set<std::string>& used);

}  // namespace kiln
