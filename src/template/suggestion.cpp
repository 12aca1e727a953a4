// SPDX-License-Identifier: Apache-2.0
//
// Tries one parameter at a time, then searches combinations with two changes, three and so on, nearest values
// first.
#include "template/suggestion.h"

#include <algorithm>
#include <numeric>

#include "base/words.h"
#include "template/arithmetic.h"

namespace kiln {
namespace {

constexpr std::size_t kMostTried = 1000;             ///< values of one range
constexpr std::size_t kMostShown = 8;                ///< values of one parameter
constexpr std::uint64_t kMostSearchSteps = 300'000;  ///< of the search: a few tens of milliseconds

/// The parameter's other values, nearest first; of a long range only the nearest.
Codes other_choices(const Parameter& parameter, std::int64_t current) {
    const std::uint64_t count = choice_count(parameter);
    std::uint64_t first = 0;
    if (parameter.allowed.empty() && count > kMostTried) {
        const std::uint64_t index = arithmetic::distance(parameter.min, current);
        first = std::min(index - std::min(index, kMostTried / 2), count - kMostTried);
    }
    Codes codes;
    for (std::uint64_t i = first; i < count && (codes.size() < kMostTried || !parameter.allowed.empty()); ++i)
        if (const std::int64_t code = choice(parameter, i); code != current) codes.push_back(code);
    if (parameter.kind == ParameterKind::integer)
        std::ranges::stable_sort(codes, {},
                                 [&](std::int64_t code) { return arithmetic::distance(code, current); });
    return codes;
}

std::size_t list_position(const Parameter& parameter, std::int64_t code) {
    if (parameter.allowed.empty()) return arithmetic::distance(parameter.min, code);
    std::size_t i = 0;
    while (choice(parameter, i) != code) ++i;
    return i;
}

/// "PAD = 0, 2, 4, 8", or nothing.
std::string single_change(const Parameter& parameter, std::size_t index, const RuleSet& rules, Codes codes) {
    Codes legal;
    for (std::int64_t code : other_choices(parameter, codes[index])) {
        codes[index] = code;
        if (!rules.first_violated(codes)) legal.push_back(code);
    }
    if (legal.empty()) return {};
    const std::size_t hidden = legal.size() - std::min(legal.size(), kMostShown);
    legal.resize(legal.size() - hidden);
    std::ranges::sort(legal, {}, [&](std::int64_t code) { return list_position(parameter, code); });
    std::vector<std::string> words;
    for (std::int64_t code : legal) words.push_back(code_text(parameter, code));
    return parameter.name + " = " + join(words) + (hidden > 0 ? " (the nearest of them)" : "");
}

/// Finds the combination with the fewest changes, two or more.
class NearestSearch {
  public:
    NearestSearch(const FrontMatter& front_matter, const RuleSet& rules, const Codes& codes)
        : rules_(rules), wanted_(codes), codes_(codes) {
        for (std::size_t i = 0; i < codes.size(); ++i)
            others_.push_back(other_choices(front_matter.parameters[i], codes[i]));
    }

    bool run() {
        if (!rules_.hold_at(0, codes_)) return false;
        for (std::size_t changes = 2; changes <= codes_.size() && steps_ < kMostSearchSteps; ++changes)
            if (descend(0, changes)) return true;
        return false;
    }

    const Codes& found() const { return codes_; }

  private:
    bool descend(std::size_t level, std::size_t changes) {
        if (level == codes_.size()) return changes == 0;
        if (changes > codes_.size() - level) return false;
        codes_[level] = wanted_[level];
        if (attempt(level, changes)) return true;
        if (changes == 0) return false;
        for (std::int64_t code : others_[level]) {
            codes_[level] = code;
            if (attempt(level, changes - 1)) return true;
            if (steps_ >= kMostSearchSteps) return false;
        }
        return false;
    }

    bool attempt(std::size_t level, std::size_t changes) {
        return ++steps_ < kMostSearchSteps && rules_.hold_at(level + 1, codes_) &&
               descend(level + 1, changes);
    }

    const RuleSet& rules_;
    const Codes& wanted_;
    Codes codes_;
    std::vector<Codes> others_;
    std::uint64_t steps_ = 0;
};

}  // namespace

std::string suggestion(const FrontMatter& front_matter, const RuleSet& rules, const Rule& violated,
                       const Codes& codes) {
    const std::vector<Parameter>& parameters = front_matter.parameters;
    std::vector<std::string> changes;
    for (int parameter : violated.expression->parameters()) {
        const auto index = static_cast<std::size_t>(parameter);
        if (std::string change = single_change(parameters[index], index, rules, codes); !change.empty())
            changes.push_back(std::move(change));
    }
    if (!changes.empty()) return std::string(" ").append(join(changes, ", or ")) + " would do.";

    NearestSearch search(front_matter, rules, codes);
    if (!search.run()) return {};
    for (std::size_t i = 0; i < codes.size(); ++i)
        if (search.found()[i] != codes[i])
            changes.push_back(parameters[i].name + " = " + code_text(parameters[i], search.found()[i]));
    return " The nearest legal choice is " + join(changes) + ".";
}

}  // namespace kiln
