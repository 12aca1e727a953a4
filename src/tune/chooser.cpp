// SPDX-License-Identifier: Apache-2.0
//
// Uses entries for exactly these sizes first; then entries for near sizes, with times scaled by the model;
// then the model alone, which improves the defaults step by step, along the groups of parameters in a
// template's `model search` lines.
#include <kiln/error.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tune/model.h"
#include "tune/problem_space.h"
#include "tune/wisdom_line.h"

namespace kiln {
namespace {

constexpr double kFarthest = 3;  // doublings of a size: wisdom for sizes beyond a factor of 8 is not used
constexpr double kAlike = 1;     // entries up to this much farther than the nearest one are compared by time
constexpr double kMisaligned = 1;
constexpr std::int64_t kAlignment = 16;  // elements; a larger alignment makes no difference
constexpr double kWorthwhile = 0.98;     // of the time: a change must be estimated at least this much faster
constexpr double kHopeless = 2.5;        // times the best: more than a change from the defaults gains
constexpr double kUnfit = 1e30;          // of a variant whose blocks do not fit a multiprocessor
constexpr int kMostSteps = 8;

std::int64_t alignment(std::int64_t size) {
    std::int64_t power = 1;
    while (power < kAlignment && size % (2 * power) == 0) power *= 2;
    return power;
}

/// The sum of the doublings between them, and more where one is less aligned; nullopt: too far.
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

bool is_code(const Template& of, const std::string& name) {
    const Parameter* const parameter = of.parameter(name);
    return parameter != nullptr && parameter->kind == ParameterKind::code;
}

/// The entry has all of these values, but for code: what is fast with one functor is with another.
bool agrees(const Template& of, const WisdomEntry& entry, const Values& values) {
    return std::ranges::all_of(values, [&](const auto& one) {
        if (is_code(of, one.first)) return true;
        const auto found = entry.values.find(one.first);
        return found != entry.values.end() && found->second.text() == one.second.text();
    });
}

/// The variant that an entry names, with the requested code. Throws VariantError.
Variant variant_of(const Template& of, const WisdomEntry& entry, const Values& requested) {
    Values values;
    for (const auto& [name, value] : requested)
        if (is_code(of, name)) values.emplace(name, value);
    for (const auto& [name, value] : entry.values) {
        const Parameter* const parameter = of.parameter(name);
        if (parameter == nullptr) throw VariantError(of.name() + " has no parameter " + name + " any more");
        values.emplace(name, parameter->parse(value.text()));
    }
    return of.variant(values);
}

/// A template that can compute what is requested.
struct CandidateTemplate {
    Template of;
    Values values;    ///< the requested ones, and the defaults of the other problem parameters
    Variant start;    ///< the defaults, or what is legal
    Problem problem;  ///< of it
};

struct Match {
    Variant variant;
    const WisdomEntry* entry;
    bool stale;
    double distance;
    double ms;  ///< the entry's time, or scaled to the requested sizes
};

/// Drops stale entries of templates that have fresh ones as well. The time of a stale entry is rarely far off, so it
/// still competes with entries of other templates.
void drop_superseded(std::vector<Match>& matches) {
    std::set<std::string> fresh;
    for (const Match& match : matches)
        if (!match.stale) fresh.insert(match.entry->template_name);
    std::erase_if(matches, [&](const Match& match) {
        return match.stale && fresh.contains(match.entry->template_name);
    });
}

}  // namespace

inline namespace KILN_ABI {

std::string_view name(ChoiceOrigin origin) {
    constexpr std::string_view kNames[] = {"wisdom", "nearest", "model"};
    return kNames[static_cast<int>(origin)];
}

}  // namespace KILN_ABI

std::string Choice::text() const {
    if (!entry) return "by the analytic model: there is no wisdom for this problem";
    std::string text = "by wisdom of " + entry->date.substr(0, entry->date.find('T'));
    text += origin == ChoiceOrigin::wisdom ? " for this shape"
                                           : " for the near shape " + sizes_text(entry->sizes);
    text += ", the best of " + std::to_string(entry->tried) + " variants";
    if (stale) text += "; stale: " + entry->template_name + " has changed since, tune it again";
    return text;
}

struct Chooser::State {
    const Service& service;
    const Wisdom wisdom;
    const std::string device;
    const Machine machine;

    State(const Service& of, Wisdom given)
        : service(of),
          wisdom(std::move(given)),
          device(of.has_device() ? as_field(of.device().info().name) : std::string()),
          machine(of.target(), device) {}

    std::optional<CandidateTemplate> contender(const Template& given, const Values& fixed, const Sizes& sizes,
                                               std::string& why) const {
        const Template of = given.for_target(service.target());
        if (!has_parameters(of, fixed)) {
            why = of.name() + " lacks a parameter or a value that is requested";
            return std::nullopt;
        }
        try {
            const Values values = problem_values(service, of, fixed);
            Variant start = some_variant(of, values);
            Problem problem = start.problem(sizes);
            return CandidateTemplate{of, values, std::move(start), std::move(problem)};
        } catch (const VariantError& error) {
            why = error.what();
            return std::nullopt;
        }
    }

    void find_matches(const CandidateTemplate& one, std::vector<Match>& exact, std::vector<Match>& near,
                      std::vector<std::string>& unusable) const {
        std::string digest;
        const Model model(machine);
        for (const WisdomEntry& entry : wisdom.entries()) {
            if (entry.template_name != one.of.name() || entry.arch != service.target().arch ||
                (!device.empty() && entry.device != device))
                continue;
            const bool is_exact = entry.sizes == one.problem.sizes;
            const std::optional<double> far = distance(entry.sizes, one.problem.sizes);
            if (!far || !agrees(one.of, entry, one.values)) continue;
            try {
                const Variant variant = variant_of(one.of, entry, one.values);
                const Problem problem = variant.problem(one.problem.sizes);
                if (digest.empty()) digest = template_digest(one.of);
                Match match{variant, &entry, entry.digest != digest, *far, entry.median_ms};
                if (!is_exact) {
                    match.ms *= scale(model, variant, problem, entry);
                }
                (is_exact ? exact : near).push_back(std::move(match));
            } catch (const VariantError& error) {
                // An entry for near sizes may be illegal for these.
                if (is_exact)
                    unusable.push_back("wisdom of " + entry.date.substr(0, entry.date.find('T')) +
                                       " can't be used: " + error.what());
            }
        }
    }

    /// Measured for these very sizes, else by the model.
    double ms_of(const Variant& variant, const Problem& problem) const {
        for (const WisdomEntry& entry : wisdom.entries()) {
            if (entry.template_name != variant.template_name() || entry.arch != service.target().arch ||
                entry.sizes != problem.sizes || (!device.empty() && entry.device != device) ||
                !agrees(variant.origin(), entry, variant.values()))
                continue;
            return entry.median_ms;
        }
        return Model(machine).ms(variant, problem).value_or(kUnfit);
    }

    double scale(const Model& model, const Variant& variant, const Problem& problem,
                 const WisdomEntry& entry) const {
        const Problem known = variant.problem(entry.sizes);
        if (service.backend() != Backend::host) {
            const auto there = model.ms(variant, problem), here = model.ms(variant, known);
            if (there && here && *here > 0) return *there / *here;
        }
        const double work = known.flops > 0 ? double(problem.flops) / double(known.flops)
                                            : double(problem.bytes) / std::max(1.0, double(known.bytes));
        return work;
    }

    double start_ms(const CandidateTemplate& one) const {
        return Model(machine).ms(one.start, one.problem).value_or(kUnfit);
    }

    /// The best variant that the model finds from the defaults, and its time.
    /// seen: receives all that it looks at.
    std::pair<Variant, double> climbed(const CandidateTemplate& one, const Sizes& sizes,
                                       std::vector<std::pair<Variant, double>>* seen = nullptr) const {
        const Model model(machine);
        Variant best = one.start;
        double best_ms = model.ms(best, one.problem).value_or(kUnfit);
        if (seen != nullptr) seen->emplace_back(best, best_ms);
        const ModelSearch& search = one.of.model_search();
        const auto& groups = service.backend() == Backend::host ? search.host_groups : search.groups;
        for (int step = 0; step < kMostSteps; ++step) {
            std::optional<Variant> better;
            double better_ms = best_ms * kWorthwhile;
            for (const std::vector<std::string>& group : groups) {
                Values fixed = best.values();
                bool moves = false;
                for (const std::string& name : group)
                    if (!one.values.contains(name)) moves = fixed.erase(name) > 0 || moves;
                if (!moves) continue;
                for (const Variant& variant : one.of.variants(fixed)) {
                    const auto ms = model.ms(variant, one.problem);
                    if (!ms || (seen == nullptr && *ms >= better_ms)) continue;
                    try {
                        static_cast<void>(variant.problem(sizes));
                    } catch (const VariantError&) {
                        continue;
                    }
                    if (seen != nullptr) seen->emplace_back(variant, *ms);
                    if (*ms >= better_ms) continue;
                    better = variant;
                    better_ms = *ms;
                }
            }
            if (!better) break;
            best = *better;
            best_ms = better_ms;
        }
        return {best, best_ms};
    }
};

Chooser::Chooser(const Service& service, Wisdom wisdom)
    : state_(std::make_unique<State>(service, std::move(wisdom))) {}
Chooser::~Chooser() = default;

const Wisdom& Chooser::wisdom() const { return state_->wisdom; }
const Service& Chooser::service() const { return state_->service; }

std::vector<Variant> Chooser::ranked(std::span<const Variant> variants, const Sizes& sizes) const {
    std::vector<std::pair<double, Variant>> order;
    for (const Variant& variant : variants) {
        try {
            order.emplace_back(state_->ms_of(variant, variant.problem(sizes)), variant);
        } catch (const VariantError&) {
            // these sizes are not for it
        }
    }
    std::ranges::stable_sort(order, {}, [](const auto& one) { return one.first; });
    std::vector<Variant> ranked;
    for (auto& [ms, variant] : order) ranked.push_back(std::move(variant));
    return ranked;
}

std::vector<ConsideredVariant> Chooser::considered(std::span<const Template> templates, const Values& fixed,
                                                   const Sizes& given, std::size_t most) const {
    const Choice choice = choose(templates, fixed, given);
    Sizes sizes = given;
    std::erase_if(sizes, [](const auto& size) { return size.second == 0; });
    std::vector<ConsideredVariant> list;
    std::string why;
    for (const Template& of : templates) {
        const auto contender = state_->contender(of, fixed, sizes, why);
        if (!contender) continue;
        std::vector<Match> exact, near;
        std::vector<std::string> unusable;
        state_->find_matches(*contender, exact, near, unusable);
        for (const Match& match : exact)
            list.push_back({match.variant, ChoiceOrigin::wisdom, match.ms, "measured"});
        for (const Match& match : near)
            list.push_back({match.variant, ChoiceOrigin::nearest, match.ms,
                            "measured for " + sizes_text(match.entry->sizes) + ", scaled by the model"});
        std::vector<std::pair<Variant, double>> seen;
        static_cast<void>(state_->climbed(*contender, sizes, &seen));
        for (auto& [variant, ms] : seen)
            list.push_back({std::move(variant), ChoiceOrigin::model, ms, "estimated"});
    }
    std::ranges::stable_sort(list, [&](const ConsideredVariant& a, const ConsideredVariant& b) {
        const bool first = a.variant == choice.variant, second = b.variant == choice.variant;
        return first != second ? first : a.ms < b.ms;
    });
    std::set<std::string> texts;
    std::erase_if(list,
                  [&](const ConsideredVariant& one) { return !texts.insert(one.variant.text()).second; });
    if (list.size() > most) list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
    return list;
}

Choice Chooser::choose(const Template& of, const Values& fixed, const Sizes& sizes) const {
    return choose(std::span(&of, 1), fixed, sizes);
}

Choice Chooser::choose(std::span<const Template> templates, const Values& fixed, const Sizes& given) const {
    // If there is nothing to compute, any variant will do: choose one for the default sizes.
    Sizes sizes = given;
    std::erase_if(sizes, [](const auto& size) { return size.second == 0; });
    if (templates.empty()) throw UsageError("there is no template to choose from.");
    std::vector<CandidateTemplate> contenders;
    std::string why;
    for (const Template& of : templates)
        if (auto contender = state_->contender(of, fixed, sizes, why))
            contenders.push_back(std::move(*contender));
    if (contenders.empty()) throw VariantError(why);

    std::vector<Match> exact, near;
    std::vector<std::string> unusable;
    for (const CandidateTemplate& contender : contenders)
        state_->find_matches(contender, exact, near, unusable);
    const auto is_better = [](const Match& a, const Match& b) {
        if (a.ms != b.ms) return a.ms < b.ms;
        return a.stale != b.stale ? b.stale : a.entry->text() < b.entry->text();
    };
    const auto chosen = [&](const Match& match, ChoiceOrigin origin) {
        return Choice{match.variant, origin, *match.entry, match.stale, unusable};
    };
    drop_superseded(exact);
    if (!exact.empty()) return chosen(*std::ranges::min_element(exact, is_better), ChoiceOrigin::wisdom);
    if (!near.empty()) {
        const double nearest = std::ranges::min(near, {}, &Match::distance).distance;
        std::erase_if(near, [&](const Match& match) { return match.distance > nearest + kAlike; });
        drop_superseded(near);
        return chosen(*std::ranges::min_element(near, is_better), ChoiceOrigin::nearest);
    }
    // The most promising template first. Templates whose defaults are far slower than the best found are
    // skipped.
    std::vector<std::pair<double, const CandidateTemplate*>> order;
    for (const CandidateTemplate& contender : contenders)
        order.emplace_back(state_->start_ms(contender), &contender);
    std::ranges::stable_sort(order, {}, [](const auto& one) { return one.first; });
    std::optional<std::pair<Variant, double>> best;
    for (const auto& [ms, contender] : order) {
        if (best && ms > kHopeless * best->second) break;
        auto found = state_->climbed(*contender, sizes);
        if (!best || found.second < best->second) best = std::move(found);
    }
    return Choice{best->first, ChoiceOrigin::model, std::nullopt, false, unusable};
}

}  // namespace kiln
