// SPDX-License-Identifier: Apache-2.0
//
// Finds templates that compute the same: those with the same naive template, whose tensors have equal extents
// for a set of distinct sizes.
#include <kiln/error.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <set>

#include "base/words.h"
#include "format/format.h"
#include "tune/problem_space.h"

namespace kiln {
namespace {

/// The ending of the names of naive templates.
constexpr std::string_view kNaiveEnding = "_naive";

/// Sizes that make extents distinguishable, times 128, since every template should support such multiples.
constexpr std::int64_t kTelling[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
constexpr std::int64_t kMultiple = 128;

/// The last of the naive templates that `of` is measured by; empty: one of them is not there, or its file is wrong.
std::string root_of(const Service& service, Template of) {
    std::set<std::string> seen;
    try {
        while (!of.naive().empty() && seen.insert(of.name()).second) of = service.find(of.naive());
    } catch (const Error&) {
        return {};
    }
    return of.name();
}

/// What is computed, as text: the tensors except scratch; empty: unknown.
std::string signature(const Service& service, const Template& of, const Values& fixed) {
    if (!of.is_runnable() || !has_parameters(of, fixed)) return {};
    Sizes sizes;
    for (const SizeArgument& size : of.sizes()) sizes.emplace(size.name, 0);
    if (sizes.size() > std::size(kTelling)) return {};
    std::size_t i = 0;
    for (auto& [name, value] : sizes) value = kMultiple * kTelling[i++];
    try {
        const Values values = problem_values(service, of, fixed);
        const Problem problem = [&] {
            try {
                return of.variant(values).problem(sizes);
            } catch (const VariantError&) {
                const std::optional<Variant> legal = of.first_variant(values);
                if (!legal) throw;
                return legal->problem(sizes);
            }
        }();
        std::set<std::string> tensors;
        for (const Tensor& tensor : problem.tensors) {
            if (tensor.role == TensorRole::scratch) continue;
            std::string text = formatted("{} {} {}", tensor.name, tensor.type, static_cast<int>(tensor.role));
            for (const std::int64_t extent : tensor.extents) text += formatted(" {}", extent);
            tensors.insert(text);
        }
        std::string text;
        for (const auto& [name, value] : sizes) text += name + " ";
        for (const std::string& tensor : tensors) text += "; " + tensor;
        return text;
    } catch (const Error&) {
        return {};  // it has no variant for this target, or its reference does not exist
    }
}

}  // namespace

std::vector<Template> Chooser::alternatives(const Template& of, const Values& fixed) const {
    const Service& service = this->service();
    const Template mine = of.for_target(service.target());
    const std::string wanted = signature(service, mine, fixed);
    const std::string root = root_of(service, mine);
    std::vector<Template> found;
    for (const Template& candidate : service.readable_templates()) {
        if (candidate.name() == mine.name()) {
            found.push_back(mine);
            continue;
        }
        if (wanted.empty() || root.empty() || candidate.is_reference() || candidate.name() == root ||
            !candidate.runs_on(service.backend(), service.target().arch) || candidate.naive().empty())
            continue;
        if (root_of(service, candidate) == root && signature(service, candidate, fixed) == wanted)
            found.push_back(candidate);
    }
    if (std::ranges::none_of(found, [&](const Template& one) { return one.name() == mine.name(); }))
        found.push_back(mine);
    return found;
}

std::vector<Template> Chooser::candidates(const Template& of, const Values& fixed) const {
    std::vector<Template> found = alternatives(of, fixed);
    if (found.size() > 1 && of.name().ends_with(kNaiveEnding))
        std::erase_if(found, [&](const Template& one) { return one.name() == of.name(); });
    return found;
}

namespace {

/// What the names of templates that end in _naive begin with, in their order.
std::vector<std::string> families(const Service& service) {
    std::vector<std::string> found;
    for (const Template& one : service.readable_templates())
        if (one.name().ends_with(kNaiveEnding))
            found.push_back(one.name().substr(0, one.name().size() - kNaiveEnding.size()));
    return found;
}

}  // namespace

inline namespace KILN_ABI {

Template find_family(const Service& service, std::string_view name) {
    const auto naive = [&]() -> std::optional<Template> {
        try {
            return service.find(std::string(name) + std::string(kNaiveEnding));
        } catch (const Error&) {
            return std::nullopt;
        }
    };
    try {
        return service.find(name);
    } catch (const Error& error) {
        if (auto found = naive()) return *found;
        if (dynamic_cast<const UsageError*>(&error) == nullptr) throw;  // a file of templates is wrong
        const std::vector<std::string> known = families(service);
        const auto near = nearest(name, known);
        if (!near) throw;
        throw UsageError("there is no template or family of templates '" + std::string(name) +
                         "'; did you mean " + *near + "? The families are " + enumerate(known) +
                         "; 'kiln list' has all templates, and each stands for those that compute the same.");
    }
}

}  // namespace KILN_ABI
}  // namespace kiln
