// SPDX-License-Identifier: Apache-2.0
//
// Suggests legal values in place of values that violate a rule.
#pragma once

#include <string>

#include "template/rule_set.h"

namespace kiln {

/// " PAD = 0, 2, 4, 8 would do.": for each parameter of the rule, the values with which, all else kept,
/// every rule holds. Where no single change helps, the legal combination with the fewest changes, if a
/// bounded search finds one; else nothing.
std::string suggestion(const FrontMatter& front_matter, const RuleSet& rules, const Rule& violated,
                       const Codes& codes);

}  // namespace kiln
