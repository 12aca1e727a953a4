// SPDX-License-Identifier: Apache-2.0
#include "bench/drawn_choices.h"

#include <kiln/error.h>
#include <kiln/model.h>

#include <algorithm>
#include <set>

#include "bench/benchmark.h"
#include "format/format.h"

namespace kiln::bench {
namespace {

constexpr std::size_t kConsidered = 400;  // by the chooser for one problem
constexpr std::size_t kOwn = 6;           // of them that are timed, each with another tile or grid
constexpr std::size_t kSpread = 5;        // of all that it considers, evenly spread

using Considered = std::vector<ConsideredVariant>;

/// Of the templates that stand for the family, those that are there and run on this device.
std::vector<Template> anchors_of(const Service& service, const DrawnFamily& family) {
    std::vector<Template> found;
    for (const std::string_view name : family.templates) {
        try {
            Template of = service.find(name).for_target(service.target());
            if (of.runs_on(service.backend(), service.target().arch)) found.push_back(std::move(of));
        } catch (const Error&) {
            // Another template stands for the family.
        }
    }
    return found;
}

/// A boolean parameter that the template lacks counts as false, as for Chooser::choose().
bool allows(const Template& of, const std::string& name, const Value& value) {
    const Parameter* const parameter = of.parameter(name);
    return parameter != nullptr ? parameter->allows(value) : value.is_bool() && !value.as_bool();
}

/// Whether it has variants for these values, which its rules may exclude together.
bool computes(const Template& of, const Values& fixed) {
    Values own;
    for (const auto& one : fixed) {
        if (!allows(of, one.first, one.second)) return false;
        if (of.parameter(one.first) != nullptr) own.insert(one);
    }
    return of.first_variant(own).has_value();
}

/// Those that compute the problem, as one of the family's templates does: the most that compute the same.
std::vector<Template> templates_of(const Service& service, const Chooser& chooser, const DrawnFamily& family,
                                   const Values& fixed) {
    std::vector<Template> most;
    for (const Template& of : anchors_of(service, family)) {
        if (!computes(of, fixed)) continue;
        std::vector<Template> found = chooser.candidates(of, fixed);
        if (found.size() > most.size()) most = std::move(found);
    }
    return most;
}

/// What distinguishes variants most: the template, its tile, and how many blocks there are.
std::string kind_of(const Variant& variant, const Sizes& sizes) {
    const Problem problem = variant.problem(sizes);
    const ModelFacts facts = variant.model(problem.sizes);
    std::string text = formatted("{} {} {}", variant.template_name(), variant.block().count(),
                                 variant.dynamic_shared_bytes());
    if (facts.tiles)
        text = formatted("{} {} {} {:d}", variant.template_name(), facts.tiles->rows, facts.tiles->columns,
                         facts.pingpong);
    return text;
}

DrawnChoice choice_of(const Service& service, const Chooser& chooser, const DrawnFamily& family,
                      DrawnProblem problem) {
    DrawnChoice one{std::move(problem), {}, {}, {}};
    one.templates = templates_of(service, chooser, family, one.problem.fixed);
    if (one.templates.empty()) return one;
    try {
        one.choice = chooser.choose(one.templates, one.problem.fixed, one.problem.sizes);
        Considered all = chooser.considered(one.templates, one.problem.fixed, one.problem.sizes, kConsidered);
        for (ConsideredVariant& considered : all)
            considered.variant = with_overlap(considered.variant, false);
        std::set<std::string> kinds;
        for (const ConsideredVariant& considered : all)
            if (one.considered.size() < kOwn &&
                kinds.insert(kind_of(considered.variant, one.problem.sizes)).second)
                one.considered.push_back(considered);
        // And some that the model does not think much of.
        for (std::size_t i = 0; i < kSpread && !all.empty(); ++i)
            one.considered.push_back(all[all.size() * i / kSpread]);
    } catch (const Error&) {
        // Reported by its row.
    }
    return one;
}

/// The same way to compute another problem; nullopt: that is not allowed there.
std::optional<Variant> for_problem(const DrawnChoice& one, const Variant& variant,
                                   const Values& problem_values) {
    const auto of = std::ranges::find_if(
        one.templates, [&](const Template& own) { return own.name() == variant.template_name(); });
    if (of == one.templates.end()) return std::nullopt;
    Values values = variant.values();
    for (const auto& [name, value] : problem_values)
        if (values.contains(name)) values.insert_or_assign(name, value);
    try {
        Variant other = of->variant(values);
        static_cast<void>(other.problem(one.problem.sizes));
        return other;
    } catch (const VariantError&) {
        return std::nullopt;
    }
}

}  // namespace

std::string fixed_text(const Values& values) {
    std::string text;
    for (const auto& [name, value] : values) text += (text.empty() ? "" : " ") + name + "=" + value.text();
    return text;
}

std::string why_none(const Service& service, const DrawnFamily& family, const Values& fixed) {
    const std::vector<Template> anchors = anchors_of(service, family);
    if (anchors.empty()) return "no template of this family runs on " + service.target().arch;
    Values missing;
    for (const auto& one : fixed)
        if (std::ranges::none_of(anchors,
                                 [&](const Template& of) { return allows(of, one.first, one.second); }))
            missing.insert(one);
    return "no template has " + fixed_text(missing.empty() ? fixed : missing);
}

std::vector<DrawnChoice> choices_of(const Service& service, const Chooser& chooser, const DrawnFamily& family,
                                    std::uint64_t seed, int draws) {
    std::vector<DrawnChoice> all;
    for (DrawnProblem& problem : drawn_problems(family.part, seed, draws, service.backend() == Backend::host))
        all.push_back(choice_of(service, chooser, family, std::move(problem)));
    return all;
}

std::vector<Variant> others_of(const std::vector<DrawnChoice>& all, const DrawnChoice& one,
                               std::size_t most) {
    std::vector<Variant> list;
    std::set<std::string> seen;
    const auto add = [&](const Variant& variant) {
        if (list.size() < most && seen.insert(variant.text()).second) list.push_back(variant);
    };
    for (const ConsideredVariant& considered : one.considered) add(considered.variant);
    for (const DrawnChoice& other : all) {
        if (list.size() >= most) return list;
        if (other.choice)
            if (const auto variant =
                    for_problem(one, with_overlap(other.choice->variant, false), one.problem.fixed))
                add(*variant);
    }
    for (std::size_t place = 0; place < kOwn + kSpread; ++place)
        for (const DrawnChoice& other : all) {
            if (list.size() >= most) return list;
            if (place < other.considered.size())
                if (const auto variant = for_problem(one, other.considered[place].variant, one.problem.fixed))
                    add(*variant);
        }
    return list;
}

std::vector<Variant> variants_of(const std::vector<DrawnChoice>& all,
                                 std::span<const DrawnChoice* const> problems, std::size_t most) {
    std::vector<Variant> variants;
    std::set<std::string> seen;
    const auto add = [&](const Variant& variant) {
        if (seen.insert(variant.text()).second) variants.push_back(variant);
    };
    for (const DrawnChoice* const one : problems) {
        if (one->choice) add(with_overlap(one->choice->variant, false));
        for (const Variant& variant : others_of(all, *one, most)) add(variant);
    }
    return variants;
}

}  // namespace kiln::bench
