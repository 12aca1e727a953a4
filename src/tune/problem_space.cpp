// SPDX-License-Identifier: Apache-2.0
//
// Problem parameters are not declared but derived: a parameter is one if the template's reference has it too,
// or if the extent of a tensor depends on it. Code is none: tiles that are fast with one functor are with another.
#include "tune/problem_space.h"

#include <kiln/error.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <set>

#include "base/characters.h"
#include "base/digest.h"
#include "format/format.h"

namespace kiln {
namespace {

constexpr std::size_t kDigestDigits = 16;
constexpr std::size_t kMostTried = 4096;  // combinations of values; making them takes some ten milliseconds

bool is_off(const Value& value) { return value.is_bool() && !value.as_bool(); }

/// Whether the name occurs in `text` as a word.
bool has_word(std::string_view text, std::string_view name) {
    for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        if ((at == 0 || !is_identifier_part(text[at - 1])) &&
            (end == text.size() || !is_identifier_part(text[end])))
            return true;
    }
    return false;
}

/// Whether the expressions depend on the parameter, directly or through a constant.
bool depends(const Template& of, std::string_view expressions, const std::string& parameter) {
    return has_word(expressions, parameter) ||
           std::ranges::any_of(of.constants(), [&](const Constant& constant) {
               return has_word(expressions, constant.name) &&
                      std::ranges::find(constant.uses, parameter) != constant.uses.end();
           });
}

/// Those that are not fixed and that decide which sizes a variant takes.
std::vector<const Parameter*> size_parameters(const Template& of, const Values& fixed) {
    std::string limits;
    for (const SizeArgument& size : of.sizes()) limits += size.multiple_text + ' ' + size.most_text + ' ';
    std::vector<const Parameter*> found;
    for (const Parameter& parameter : of.parameters())
        if (!fixed.contains(parameter.name) && depends(of, limits, parameter.name))
            found.push_back(&parameter);
    return found;
}

/// Its values, at most kMostTried, those nearest to the given one first.
std::vector<Value> values_around(const Parameter& parameter, const Value& given) {
    std::vector<Value> values = parameter.allowed;
    if (!values.empty()) {
        const auto place = std::ranges::find(values, given) - values.begin();
        std::vector<Value> sorted;
        for (std::ptrdiff_t far = 0; sorted.size() < values.size(); ++far) {
            if (place - far >= 0) sorted.push_back(values[static_cast<std::size_t>(place - far)]);
            if (far > 0 && place + far < std::ssize(values))
                sorted.push_back(values[static_cast<std::size_t>(place + far)]);
        }
        return sorted;
    }
    values.push_back(given);
    std::int64_t below = given.as_int(), above = below;
    while (values.size() < kMostTried && (below > parameter.min || above < parameter.max)) {
        if (below > parameter.min) values.emplace_back(static_cast<long long>(--below));
        if (above < parameter.max) values.emplace_back(static_cast<long long>(++above));
    }
    return values;
}

}  // namespace

Variant some_variant(const Template& of, const Values& fixed) {
    try {
        return of.variant(fixed);
    } catch (const VariantError&) {
        const std::optional<Variant> legal = of.first_variant(fixed);
        if (!legal) throw;
        return *legal;
    }
}

bool takes(const Variant& variant, const Sizes& sizes) {
    try {
        static_cast<void>(variant.problem(sizes));
        return true;
    } catch (const VariantError&) {
        return false;
    }
}

Variant other_variant_for(const Variant& usual, const Values& fixed, const Sizes& sizes) {
    const Template of = usual.origin();
    const std::vector<const Parameter*> free = size_parameters(of, fixed);
    std::vector<std::vector<Value>> choices;
    std::size_t farthest = 0;
    for (const Parameter* parameter : free) {
        choices.push_back(values_around(*parameter, usual.value(parameter->name)));
        farthest += choices.back().size() - 1;
    }
    std::size_t tried = 0;
    // All combinations whose places from the i-th parameter's on add up to `far`.
    const auto found_at = [&](const auto& self, std::size_t i, std::size_t far,
                              const Values& values) -> std::optional<Variant> {
        if (i == free.size()) {
            if (far > 0 || tried++ == kMostTried) return std::nullopt;
            try {
                Variant other = some_variant(of, values);
                if (takes(other, sizes)) return other;
            } catch (const VariantError&) {
                // no legal variant has these values
            }
            return std::nullopt;
        }
        const bool is_last = i + 1 == free.size();
        for (std::size_t at = is_last ? far : 0; at <= std::min(far, choices[i].size() - 1); ++at) {
            Values more = values;
            more.emplace(free[i]->name, choices[i][at]);
            if (auto other = self(self, i + 1, far - at, more)) return other;
        }
        return std::nullopt;
    };
    for (std::size_t far = 1; far <= farthest && tried < kMostTried; ++far)
        if (auto other = found_at(found_at, 0, far, fixed)) return *other;
    static_cast<void>(usual.problem(sizes));
    return usual;
}

inline namespace KILN_ABI {

std::string template_digest(const Template& of) {
    // Any variant will do: values are in front of the template's own text.
    const Variant variant = some_variant(of);
    const Backend backend = of.target() ? of.target()->backend : Backend::host;
    const Source source = variant.source(backend);
    const std::size_t line = own_text_begin(source.text);
    std::string text = source.text.substr(line == std::string::npos ? 0 : line);
    for (const Header& header : source.headers)
        text += formatted("{} {}\n{}", header.name, header.text.size(), header.text);
    return digest_hex(text).substr(0, kDigestDigits);
}

std::vector<std::string> problem_parameters(const Service& service, const Template& of) {
    std::vector<std::string> names;
    std::vector<Template> references;
    for (const TensorArgument& tensor : of.tensors())
        if (!tensor.reference.empty()) references.push_back(service.find(tensor.reference));
    for (const Parameter& parameter : of.parameters()) {
        const bool shared = std::ranges::any_of(references, [&](const Template& reference) {
            return reference.parameter(parameter.name) != nullptr &&
                   std::ranges::find(reference.bound_parameters(), parameter.name) ==
                       reference.bound_parameters().end();
        });
        const bool shapes = std::ranges::any_of(of.tensors(), [&](const TensorArgument& tensor) {
            return tensor.role != TensorRole::scratch && (depends(of, tensor.extents_text, parameter.name) ||
                                                          depends(of, tensor.fill_text, parameter.name) ||
                                                          depends(of, tensor.condition_text, parameter.name));
        });
        if (parameter.kind == ParameterKind::code) continue;
        if (parameter.kind == ParameterKind::type || shared || shapes) names.push_back(parameter.name);
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace KILN_ABI

std::vector<std::string> output_parameters(const Service& service, const Template& of) {
    std::vector<std::string> names = problem_parameters(service, of);
    std::erase_if(names, [&](const std::string& name) {
        return std::ranges::any_of(of.tensors(), [&](const TensorArgument& tensor) {
            return tensor.role == TensorRole::input && tensor.condition_text.empty() &&
                   (depends(of, tensor.extents_text, name) || depends(of, tensor.fill_text, name));
        });
    });
    return names;
}

Values problem_values(const Service& service, const Template& of, const Values& fixed) {
    Values values = fixed;
    std::erase_if(values,
                  [&](const auto& one) { return of.parameter(one.first) == nullptr && is_off(one.second); });
    for (const std::string& name : problem_parameters(service, of))
        if (!values.contains(name)) values.emplace(name, of.default_of(name, values));
    return values;
}

bool has_parameters(const Template& of, const Values& values) {
    return std::ranges::all_of(values, [&](const auto& one) {
        const Parameter* const parameter = of.parameter(one.first);
        return parameter != nullptr ? parameter->allows(one.second) : is_off(one.second);
    });
}

Dim3 grid_of(const Variant& variant, const Sizes& sizes) {
    // All hosts that Kiln supports are little-endian, so a pointer to a 64-bit word also points to the same
    // value as a narrower integer. A grid does not depend on pointers.
    std::vector<std::int64_t> words;
    for (const KernelArgument& argument : variant.arguments()) {
        const auto size = sizes.find(argument.name);
        words.push_back(size == sizes.end() ? 0 : size->second);
    }
    std::vector<void*> pointers;
    for (std::int64_t& word : words) pointers.push_back(&word);
    const Dim3 grid = variant.grid(pointers.data());
    if (grid.count() == 0)
        throw VariantError(variant.template_name() +
                           ": with these sizes there is nothing to launch: the grid is empty");
    return grid;
}

int distance_from_default(const Variant& variant) {
    int distance = 0;
    const Template origin = variant.origin();
    for (const Parameter& parameter : origin.parameters())
        if (!(variant.value(parameter.name) == origin.default_of(parameter.name, variant.values())))
            ++distance;
    return distance;
}

}  // namespace kiln
