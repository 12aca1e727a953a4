// SPDX-License-Identifier: Apache-2.0
//
// ManifestLine: converts the written values to the legal variants of a template.
#include <kiln/error.h>
#include <kiln/manifest.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/renamed_parameters.h"
#include "base/words.h"
#include "format/format.h"
#include "template/parameter.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMostCombinations = 1'000'000;
constexpr std::size_t kLongestName = 60;

/// The values of one parameter.
struct Choice {
    const Parameter* parameter;
    bool all = false;
    bool by_default = false;    ///< the default that goes with the others' values
    std::vector<Value> values;  ///< in the order of the parameter's list; empty for all and by default

    bool is_listed() const { return !all && !by_default; }
    std::uint64_t count() const { return all ? choice_count(*parameter) : by_default ? 1 : values.size(); }
};

/// The position of a value among those of its parameter.
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
                           (name.size() <= kLongestName ? parameter_hint(of.name(), name, names) : ""));
    }
    std::vector<Choice> choices;
    for (const Parameter& parameter : of.parameters()) {
        Choice choice{&parameter, false, false, {}};
        const auto written = line.values.find(parameter.name);
        if (written == line.values.end()) {
            choice.by_default = true;
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

/// Defaults are computed from listed values, so parameters with unlisted values on which a default depends
/// are listed here.
void list_what_defaults_use(std::vector<Choice>& choices) {
    std::vector<std::string_view> used;
    const auto use = [&](const Choice& choice) {
        if (!choice.by_default) return;
        for (const std::string& name : choice.parameter->default_uses)
            if (std::ranges::find(used, name) == used.end()) used.push_back(name);
    };
    for (const Choice& choice : choices) use(choice);
    for (std::size_t i = 0; i < used.size(); ++i) {
        Choice& choice = *std::ranges::find(
            choices, used[i], [](const Choice& one) -> std::string_view { return one.parameter->name; });
        if (!choice.all) continue;
        for (std::uint64_t value = 0; value < choice.count(); ++value)
            choice.values.push_back(decode(*choice.parameter, kiln::choice(*choice.parameter, value)));
        choice.all = false;
    }
}

void check_count(const std::vector<Choice>& choices) {
    std::uint64_t product = 1;
    std::vector<std::string> factors;
    for (const Choice& choice : choices) {
        const std::uint64_t count = choice.count();  // at least one: a template with less is rejected
        product = product > kMostCombinations / count ? kMostCombinations + 1 : product * count;
        if (count != 1) factors.push_back(formatted("{} of {}", count, choice.parameter->name));
    }
    if (product > kMostCombinations)
        throw VariantError(formatted(
            "this line expands to more than {} combinations ({}); give fewer values, or write several lines",
            kMostCombinations, join(factors, " times ")));
}

/// The first combination of listed values; its successors come from `next`.
class Combinations {
  public:
    explicit Combinations(const std::vector<Choice>& choices) : choices_(choices), at_(choices.size(), 0) {}

    /// Values of parameters that may be anything are omitted. Throws VariantError for a default that does not go
    /// with the others' values.
    Values listed(const Template& of) const {
        Values given;
        for (std::size_t i = 0; i < at_.size(); ++i)
            if (choices_[i].is_listed())
                given.emplace(choices_[i].parameter->name, choices_[i].values[at_[i]]);
        Values values = given;
        for (const Choice& choice : choices_)
            if (choice.by_default)
                values.emplace(choice.parameter->name, of.default_of(choice.parameter->name, given));
        return values;
    }
    /// False after the last.
    bool next() {
        for (std::size_t i = at_.size(); i-- > 0;) {
            if (choices_[i].is_listed() && ++at_[i] < choices_[i].values.size()) return true;
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
    std::vector<Choice> choices = choices_of(line, of);
    check_count(choices);
    const bool any_all = std::ranges::any_of(choices, &Choice::all);
    list_what_defaults_use(choices);
    std::vector<Variant> variants;
    Combinations combinations(choices);
    bool several = false;
    std::optional<VariantError> unfit;  // the first default that does not go with the others' values
    for (bool more = true; more;) {
        try {
            for (Variant& variant : of.variants(combinations.listed(of)))
                variants.push_back(std::move(variant));
        } catch (const VariantError& error) {
            if (!any_all) throw;
            if (!unfit) unfit = error;
        }
        more = combinations.next();
        several = several || more;
    }
    if (variants.empty()) {
        if (unfit) throw *unfit;
        // The defaults are used for parameters that may be anything; they are not legal either, and their
        // error says why.
        (void)of.variant(Combinations(choices).listed(of));
        throw VariantError(of.name() + ": no combination of these values is legal");
    }
    if (several && any_all) sort_by_lists(variants, choices);
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
