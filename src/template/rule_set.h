// SPDX-License-Identifier: Apache-2.0
//
// The rules that hold for one template and target: checks them, enumerates the combinations that meet them,
// and explains which rule is violated and which values would be legal.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "template/front_matter.h"
#include "template/parameter.h"

namespace kiln {

/// Immutable. The constructor's arguments must outlive it.
class RuleSet {
  public:
    /// Without a target, rules that name a device limit are skipped; `limits` are then only used where an
    /// extent or a size names one.
    RuleSet(const FrontMatter& front_matter, const Limits& limits, bool has_target);

    /// The first rule, in the author's order and then the implicit ones, that these values violate.
    const Rule* first_violated(const Codes& codes) const;
    /// Whether the rules hold of which parameter number `level - 1` is the last; level 0: those without any.
    bool hold_at(std::size_t level, const Codes& codes) const;

    /// The paragraph for a violated rule: words, rule, place, values, and the nearest legal choice.
    std::string explain(const Rule& rule, const Codes& codes, const std::string& file) const;

    /// Whether a rule depends on this parameter.
    bool uses(std::size_t parameter) const;

    Environment environment(const Codes& codes) const { return {codes, &limits_, nullptr}; }

  private:
    bool holds(const Rule& rule, const Codes& codes) const;

    const FrontMatter& front_matter_;
    const Limits& limits_;
    std::vector<const Rule*> rules_;
    std::vector<std::vector<const Rule*>> levels_;
};

/// What each parameter may be in a walk: a fixed value, or any of its own.
using FixedCodes = std::vector<std::optional<std::int64_t>>;

enum class WalkEnd { complete, stopped, too_many_steps };

/// Calls `visit` for every legal combination that agrees with `fixed`, in the order of the parameters'
/// lists, until it returns false. Checks each rule as soon as its parameters are set.
WalkEnd walk_legal(const FrontMatter& front_matter, const RuleSet& rules, const FixedCodes& fixed,
                   const std::function<bool(const Codes&)>& visit);

/// How many combinations walk_legal would visit. Parameters that no rule names only multiply their number, and are not
/// walked through. nullopt: there are too many steps, or the number does not fit.
std::optional<std::uint64_t> count_legal(const FrontMatter& front_matter, const RuleSet& rules,
                                         const FixedCodes& fixed);

/// "BM = 16, TM = 3, BM % TM = 1": what an expression is made of, with values. Sides of its comparison
/// are among them; where it is a chain of &&, those of the first part that is false.
std::string describe_values(const Expression& expression, const std::vector<Parameter>& parameters,
                            const Environment& environment);

}  // namespace kiln
