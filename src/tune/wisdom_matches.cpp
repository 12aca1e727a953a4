// SPDX-License-Identifier: Apache-2.0
//
// Sizes are near if none differs by more than a factor of eight.
#include "tune/wisdom_matches.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tune/problem_space.h"

namespace kiln {
namespace {

constexpr double kFarthest = 3;  // doublings of a size: wisdom for sizes beyond a factor of 8 is not used
constexpr double kMisaligned = 1;
constexpr double kOther = 0.5;           // where something else is done with the result
constexpr std::int64_t kAlignment = 16;  // elements; a larger alignment makes no difference

std::int64_t alignment(std::int64_t size) {
    std::int64_t power = 1;
    while (power < kAlignment && size % (2 * power) == 0) power *= 2;
    return power;
}

bool is_code(const Template& of, const std::string& name) {
    const Parameter* const parameter = of.parameter(name);
    return parameter != nullptr && parameter->kind == ParameterKind::code;
}

/// The variant that an entry names, with the requested code and the requested values of `others`. Throws VariantError.
Variant variant_of(const Template& of, const WisdomEntry& entry, const Values& requested,
                   const std::vector<std::string>& others = {}) {
    Values values;
    for (const auto& [name, value] : requested)
        if (is_code(of, name) || std::ranges::find(others, name) != others.end()) values.emplace(name, value);
    for (const auto& [name, value] : entry.values) {
        const Parameter* const parameter = of.parameter(name);
        if (parameter == nullptr) throw VariantError(of.name() + " has no parameter " + name + " any more");
        values.emplace(name, parameter->parse(value.text()));
    }
    return of.variant(values);
}

bool has_value(const Template& of, const WisdomEntry& entry, const std::string& name, const Value& value) {
    const auto found = entry.values.find(name);
    if (found != entry.values.end()) return found->second.text() == value.text();
    // A parameter that the template has got since the entry was made had its default.
    const Parameter* const parameter = of.parameter(name);
    return parameter != nullptr && parameter->default_value.text() == value.text();
}

/// Whether the entry is of this template and its target, and of the device unless that is empty.
bool is_of(const WisdomEntry& entry, const Template& of, const std::string& device) {
    return entry.template_name == of.name() && entry.arch == of.target()->arch &&
           (device.empty() || entry.device == device);
}

/// Whether what both read has the same types, but for tensors that only one of them has.
bool read_alike(const Variant& a, const Variant& b, const Sizes& sizes) {
    const Problem one = a.problem(sizes), other = b.problem(sizes);
    const std::vector<TensorArgument>& tensors = a.origin().tensors();
    return std::ranges::all_of(tensors, [&](const TensorArgument& tensor) {
        if (tensor.role != TensorRole::input || !tensor.condition_text.empty()) return true;
        const auto mine = std::ranges::find(one.tensors, tensor.name, &Tensor::name);
        const auto theirs = std::ranges::find(other.tensors, tensor.name, &Tensor::name);
        return mine != one.tensors.end() && theirs != other.tensors.end() && mine->type == theirs->type;
    });
}

}  // namespace

std::optional<double> distance(const Sizes& a, const Sizes& b) {
    if (a.size() != b.size()) return std::nullopt;
    double sum = 0;
    for (auto one = a.begin(), other = b.begin(); one != a.end(); ++one, ++other) {
        if (one->first != other->first) return std::nullopt;
        const double doublings =
            std::abs(std::log2(static_cast<double>(one->second) / static_cast<double>(other->second)));
        if (doublings > kFarthest) return std::nullopt;
        sum += doublings;
        if (alignment(one->second) != alignment(other->second)) sum += kMisaligned;
    }
    return sum;
}

bool are_aligned_alike(const Sizes& a, const Sizes& b) {
    return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
        return alignment(one.second) == alignment(other.second);
    });
}

bool agrees(const Template& of, const WisdomEntry& entry, const Values& values) {
    return std::ranges::all_of(values, [&](const auto& one) {
        return is_code(of, one.first) || has_value(of, entry, one.first, one.second);
    });
}

std::optional<Variant> known_variant(const Wisdom& wisdom, const Template& of, const Values& values,
                                     const Sizes& sizes, const std::string& device) {
    for (const WisdomEntry& entry : wisdom.entries()) {
        if (!is_of(entry, of, device) || !agrees(of, entry, values)) continue;
        try {
            Variant variant = variant_of(of, entry, values);
            if (variant.problem(sizes).sizes == entry.sizes) return variant;
        } catch (const VariantError&) {
            // it is no longer legal, or not for these sizes
        }
    }
    return std::nullopt;
}

void find_matches(const Service& service, const Wisdom& wisdom, const CandidateTemplate& one,
                  const std::string& device, Matches& found) {
    std::string digest;
    std::optional<std::vector<std::string>> output;  // of the template
    // The requested values that an entry may differ in; nullopt: it differs in others.
    const auto differing = [&](const WisdomEntry& entry) -> std::optional<std::vector<std::string>> {
        std::vector<std::string> names;
        for (const auto& [name, value] : one.values) {
            if (is_code(one.of, name) || has_value(one.of, entry, name, value)) continue;
            if (service.backend() == Backend::host) return std::nullopt;
            if (!output) output = output_parameters(service, one.of);
            if (std::ranges::find(*output, name) == output->end()) return std::nullopt;
            names.push_back(name);
        }
        return names;
    };
    for (const WisdomEntry& entry : wisdom.entries()) {
        if (!is_of(entry, one.of, device)) continue;
        const std::optional<double> far = distance(entry.sizes, one.problem.sizes);
        if (!far) continue;
        const auto others = differing(entry);
        if (!others) continue;
        const bool is_exact = others->empty() && entry.sizes == one.problem.sizes;
        try {
            const Variant variant = variant_of(one.of, entry, one.values, *others);
            static_cast<void>(variant.problem(one.problem.sizes));
            static_cast<void>(variant.problem(entry.sizes));  // which the template may no longer take
            if (!others->empty() && !read_alike(variant, variant_of(one.of, entry, one.values), entry.sizes))
                continue;
            if (digest.empty()) digest = template_digest(one.of);
            (is_exact ? found.exact : found.near)
                .push_back({variant, &entry, entry.digest != digest, *far + (others->empty() ? 0 : kOther)});
        } catch (const VariantError& error) {
            // An entry for near sizes may be illegal for these.
            if (is_exact)
                found.unusable.push_back("wisdom of " + entry.date.substr(0, entry.date.find('T')) +
                                         " can't be used: " + error.what());
        }
    }
}

void drop_superseded(std::vector<Match>& matches) {
    std::set<std::string> fresh;
    for (const Match& match : matches)
        if (!match.stale) fresh.insert(match.entry->template_name);
    std::erase_if(matches, [&](const Match& match) {
        return match.stale && fresh.contains(match.entry->template_name);
    });
}

}  // namespace kiln
