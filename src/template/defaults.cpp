// SPDX-License-Identifier: Apache-2.0
//
// A depth-first walk orders the parameters; after that, computing a default uses those before it in this order.
#include "template/defaults.h"

#include <kiln/error.h>

#include <algorithm>

namespace kiln {
namespace {

/// Visits, for each parameter, those that its default uses.
class Walk {
  public:
    explicit Walk(const FrontMatter& front_matter)
        : front_matter_(front_matter), is_done_(front_matter.parameters.size(), false) {}

    DefaultOrder run() {
        for (std::size_t i = 0; i < is_done_.size() && result_.cycle.empty(); ++i) visit(i);
        if (!result_.cycle.empty()) result_.order.clear();
        return std::move(result_);
    }

  private:
    void visit(std::size_t index) {
        if (is_done_[index]) return;
        const auto again = std::ranges::find(path_, index);
        if (again != path_.end()) {
            result_.cycle.assign(again, path_.end());
            return;
        }
        path_.push_back(index);
        if (const ExpressionPtr& expression = front_matter_.defaults[index])
            for (const int used : expression->parameters())
                if (result_.cycle.empty()) visit(static_cast<std::size_t>(used));
        path_.pop_back();
        is_done_[index] = true;
        result_.order.push_back(index);
    }

    const FrontMatter& front_matter_;
    std::vector<bool> is_done_;
    std::vector<std::size_t> path_;
    DefaultOrder result_;
};

/// Computes the default of number `index` from `codes`, which has what it uses.
std::optional<std::int64_t> computed(const FrontMatter& front_matter, std::size_t index, const Codes& codes,
                                     std::string& why) {
    const Parameter& parameter = front_matter.parameters[index];
    const ExpressionPtr& expression = front_matter.defaults[index];
    if (!expression) return encode(parameter, parameter.default_value);
    const Environment environment{codes, nullptr, nullptr};
    Failure failure;
    const std::int64_t code = expression->evaluate(environment, failure);
    if (!failure)
        if (const Value value = decode(parameter, code); parameter.allows(value))
            return encode(parameter, value);
    const std::string values = describe_values(*expression, front_matter.parameters, environment);
    const std::string with = values.empty() ? "" : " with " + values;
    if (failure)
        why = "the default of " + parameter.name + " can't be computed" + with + ", since " + failure.text();
    else
        why = "the default " + expression->text() + " of " + parameter.name + " is " +
              code_text(parameter, code) + with + ", not one of its values, " + parameter.allowed_text();
    return std::nullopt;
}

}  // namespace

DefaultOrder default_order(const FrontMatter& front_matter) { return Walk(front_matter).run(); }

std::optional<std::int64_t> default_code(const FrontMatter& front_matter, std::size_t index,
                                         const FixedCodes& given, std::string& why) {
    // Only what the default uses, itself or through others, is computed: defaults of others may be wrong.
    std::vector<bool> is_used(given.size(), false);
    is_used[index] = true;
    const std::vector<std::size_t>& order = front_matter.default_order;
    for (std::size_t i = order.size(); i-- > 0;) {
        const ExpressionPtr& expression = front_matter.defaults[order[i]];
        if (!is_used[order[i]] || !expression || (order[i] != index && given[order[i]])) continue;
        for (const int used : expression->parameters()) is_used[static_cast<std::size_t>(used)] = true;
    }
    Codes codes(given.size(), 0);
    for (const std::size_t i : order) {
        if (!is_used[i]) continue;
        if (i != index && given[i]) {
            codes[i] = *given[i];
            continue;
        }
        const auto code = computed(front_matter, i, codes, why);
        if (!code || i == index) return code;
        codes[i] = *code;
    }
    return std::nullopt;  // not reached: `order` has every parameter
}

std::int64_t default_code(const FrontMatter& front_matter, std::size_t index, const FixedCodes& given) {
    std::string why;
    if (const auto code = default_code(front_matter, index, given, why)) return *code;
    throw VariantError(front_matter.kernel + ": " + why + "; give " + front_matter.parameters[index].name +
                       " a value");
}

Codes with_defaults(const FrontMatter& front_matter, const FixedCodes& given) {
    Codes codes(given.size(), 0);
    for (const std::size_t i : front_matter.default_order) {
        std::string why;
        const auto code = given[i] ? given[i] : computed(front_matter, i, codes, why);
        if (!code)
            throw VariantError(front_matter.kernel + ": " + why + "; give " +
                               front_matter.parameters[i].name + " a value");
        codes[i] = *code;
    }
    return codes;
}

}  // namespace kiln
