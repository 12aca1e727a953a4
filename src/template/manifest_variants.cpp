// SPDX-License-Identifier: Apache-2.0
//
// ManifestLine: from values as written to the legal variants of a template.
#include <kiln/error.h>
#include <kiln/manifest.h>

#include <algorithm>
#include <utility>

#include "base/words.h"
#include "template/parameter.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostCombinations = 1'000'000;
constexpr std::size_t kLongestName = 60;

/// The values of one parameter.
struct Choice {
    const Parameter* parameter;
    bool all = false;
    std::vector<Value> values;  ///< in the order of the parameter's list; empty for all

    std::uint64_t count() const { return all ? choice_count(*parameter) : values.size(); }
};

/// Where a value stands among those of its parameter.
std::int64_t rank(const Parameter& parameter, const Value& value) {
    const auto code = encode(parameter, value);
    if (parameter.allowed.empty()) return *code;
    const auto same = [&](const Value& one) { return encode(parameter, one) == code; };
    return std::ranges::find_if(parameter.allowed, same) - parameter.allowed.begin();
}

/// In the order of the template's parameters. Throws VariantError for a name or value that is not there.
std::vector<Choice> choices_of(const ManifestLine& line, const Template& of) {
    for (const auto& [name, values] : line.values) {
        if (of.parameter(name) != nullptr) continue;
        const std::vector<std::string> names = parameter_names(of.parameters());
        const std::string list = names.empty() ? "it has none at all" : "it has " + join(names);
        throw VariantError(of.name() + " has no parameter " + name.substr(0, kLongestName) + "; " + list +
                           (name.size() <= kLongestName ? did_you_mean(name, names) : ""));
    }
    std::vector<Choice> choices;
    for (const Parameter& parameter : of.parameters()) {
        Choice choice{&parameter, false, {}};
        const auto written = line.values.find(parameter.name);
        if (written == line.values.end()) {
            choice.values = {parameter.default_value};
        } else if (written->second == std::vector<std::string>{"*"}) {
            choice.all = true;
        } else {
            for (const std::string& text : written->second) choice.values.push_back(parameter.parse(text));
            std::ranges::sort(choice.values, {}, [&](const Value& value) { return rank(parameter, value); });
            choice.values.erase(std::unique(choice.values.begin(), choice.values.end()), choice.values.end());
        }
        choices.push_back(std::move(choice));
    }
    return choices;
}

void check_count(const std::vector<Choice>& choices) {
    std::uint64_t product = 1;
    std::vector<std::string> factors;
    for (const Choice& choice : choices) {
        const std::uint64_t count = choice.count();  // at least one: a template with less is refused
        product = product > kMostCombinations / count ? kMostCombinations + 1 : product * count;
        if (count != 1) factors.push_back(std::to_string(count) + " of " + choice.parameter->name);
    }
    if (product > kMostCombinations)
        throw VariantError("this line stands for more than " + std::to_string(kMostCombinations) +
                           " combinations (" + join(factors, " times ") +
                           "); give fewer values, or write several lines");
}

/// The first combination of listed values; its successors come from `next`.
class Combinations {
  public:
    explicit Combinations(const std::vector<Choice>& choices) : choices_(choices), at_(choices.size(), 0) {}

    /// Those of parameters that may be anything are left out.
    Values listed() const {
        Values values;
        for (std::size_t i = 0; i < at_.size(); ++i)
            if (!choices_[i].all) values.emplace(choices_[i].parameter->name, choices_[i].values[at_[i]]);
        return values;
    }
    /// False after the last.
    bool next() {
        for (std::size_t i = at_.size(); i-- > 0;) {
            if (!choices_[i].all && ++at_[i] < choices_[i].values.size()) return true;
            at_[i] = 0;
        }
        return false;
    }

  private:
    const std::vector<Choice>& choices_;
    std::vector<std::size_t> at_;
};

/// By the first parameter, then the second, and so on: as if the whole line were one walk.
void sort_by_lists(std::vector<Variant>& variants, const std::vector<Choice>& choices) {
    std::vector<std::pair<std::vector<std::int64_t>, Variant>> ranked;
    for (Variant& variant : variants) {
        std::vector<std::int64_t> ranks;
        for (const Choice& choice : choices)
            ranks.push_back(rank(*choice.parameter, variant.value(choice.parameter->name)));
        ranked.emplace_back(std::move(ranks), std::move(variant));
    }
    std::ranges::sort(
        ranked, {}, [](const auto& item) -> const auto& { return item.first; });
    variants.clear();
    for (auto& [ranks, variant] : ranked) variants.push_back(std::move(variant));
}

std::vector<Variant> expand(const ManifestLine& line, const Template& of) {
    const std::vector<Choice> choices = choices_of(line, of);
    check_count(choices);
    std::vector<Variant> variants;
    Combinations combinations(choices);
    const Values first = combinations.listed();
    bool several = false;
    for (bool more = true; more;) {
        for (Variant& variant : of.variants(combinations.listed())) variants.push_back(std::move(variant));
        more = combinations.next();
        several = several || more;
    }
    if (variants.empty()) {
        // The defaults stand in for what may be anything; they are not legal either, and say why.
        (void)of.variant(first);
        throw VariantError(of.name() + ": no combination of these values is legal");
    }
    if (several && std::ranges::any_of(choices, &Choice::all)) sort_by_lists(variants, choices);
    return variants;
}

}  // namespace

std::vector<Variant> ManifestLine::variants(const Template& of, const std::string& file) const {
    try {
        return expand(*this, of);
    } catch (const VariantError& error) {
        throw TemplateError(file, line, 1, error.what());
    }
}

}  // namespace kiln
