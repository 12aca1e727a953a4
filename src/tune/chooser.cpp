// SPDX-License-Identifier: Apache-2.0
//
// Uses entries for exactly these sizes first. Else the model estimates variants of all templates: it improves the
// defaults step by step, along the groups of parameters in a template's `model search` lines, and looks at the variants
// of entries for near sizes. Those entries are anchors as well: what was measured, over what the model says of the same
// variant and sizes, corrects the estimates of that template, and most of all that of that variant. Wisdom for near
// sizes is so used where the model agrees.
#include <kiln/error.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "format/format.h"
#include "tune/model.h"
#include "tune/problem_space.h"
#include "tune/wisdom_line.h"
#include "tune/wisdom_matches.h"

namespace kiln {
namespace {

constexpr double kAlike = 1;  // on the host, entries up to this much farther than the nearest one compete
constexpr double kWorthwhile = 0.98;  // of the time: a change must be estimated at least this much faster
constexpr double kHopeless = 12;  // times the best: more than split-K and other tiles than the defaults gain
constexpr double kUnfit = 1e30;   // of a variant whose blocks do not fit a multiprocessor
constexpr int kMostSteps = 8;
// How much an estimate counts against what was measured for near sizes, which has a weight of 1 for equal sizes and
// half of it for each doubling between them.
constexpr double kTemplatePrior = 0.5, kVariantPrior = 0.5;
constexpr double kMostCommon = 1.3;  // of a correction that is taken for a template without entries
// A variant that is known to be good near by is preferred to one that the model estimates a little faster, if
// it fills the device as it did there; else the other one is.
constexpr double kKnownToBeGood = 0.95, kGoodElsewhere = 1.05;
constexpr double kSameFill = 0.1;
constexpr double kSameShare = 1.25;  // of the device, where there are not enough blocks to fill it

/// A variant that is considered.
struct RankedVariant {
    Variant variant;
    double ms = 0;
    Estimate estimate;
    const Match* near = nullptr;  ///< the entry that it is from
};

/// What was measured for near sizes over what the model says of it, by template.
class Anchors {
  public:
    void add(const std::string& template_name, double ratio, double distance) {
        Sum& sum = sums_[template_name];
        const double weight = weight_of(distance);
        sum.logarithms += weight * std::log(ratio);
        sum.weights += weight;
    }
    /// Of the estimates of a template. One without entries gets what is common to the others, where that is slower than
    /// the model says, within limits.
    double factor(const std::string& template_name) const {
        const auto found = sums_.find(template_name);
        if (found != sums_.end())
            return std::exp(found->second.logarithms / (found->second.weights + kTemplatePrior));
        Sum all;
        for (const auto& [name, sum] : sums_) {
            all.logarithms += sum.logarithms;
            all.weights += sum.weights;
        }
        return std::clamp(std::exp(all.logarithms / (all.weights + kTemplatePrior)), 1.0, kMostCommon);
    }
    /// Of the variant that was measured.
    double factor(const std::string& template_name, double ratio, double distance) const {
        const double weight = weight_of(distance);
        return std::exp((weight * std::log(ratio) + kVariantPrior * std::log(factor(template_name))) /
                        (weight + kVariantPrior));
    }

  private:
    struct Sum {
        double logarithms = 0, weights = 0;
    };
    static double weight_of(double distance) { return std::exp2(-distance); }

    std::map<std::string, Sum> sums_;
};

/// The part of the places on the device that have work, on average over the waves.
double fill(const Estimate& of) { return of.waves > 0 ? of.waves / std::ceil(of.waves) : 1; }

/// Whether as large a part of the device has work.
bool fill_alike(const Estimate& a, const Estimate& b) {
    const double less = std::min(a.waves, b.waves), more = std::max(a.waves, b.waves);
    if (less > 0 && std::min(more, 1.0) > kSameShare * less) return false;
    return std::abs(fill(a) - fill(b)) <= kSameFill;
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
    text += formatted(", the best of {} variants", entry->tried);
    if (stale) text += "; stale: " + entry->template_name + " has changed since, tune it again";
    return text;
}

struct Chooser::State {
    const Service& service;
    const Wisdom wisdom;
    const std::string device;
    const Machine machine;

    State(const Service& of, Wisdom given, const std::string& name)
        : service(of),
          wisdom(std::move(given)),
          device(name.empty() && !of.has_device() ? std::string()
                                                  : as_field(name.empty() ? of.device().info().name : name)),
          machine(of.target(), device) {}

    std::optional<CandidateTemplate> contender(const Template& given, const Values& fixed, const Sizes& sizes,
                                               std::string& why) const {
        const Template of = given.for_target(machine.target);
        if (!has_parameters(of, fixed)) {
            why = of.name() + " lacks a parameter or a value that is requested";
            return std::nullopt;
        }
        try {
            const Values values = problem_values(service, of, fixed);
            Variant start = start_for(of, values, sizes);
            Problem problem = start.problem(sizes);
            return CandidateTemplate{of, values, std::move(start), std::move(problem)};
        } catch (const VariantError& error) {
            why = error.what();
            return std::nullopt;
        }
    }

    /// The usual variant where it takes the sizes, which is quick to see; else what wisdom knows for them, or any that
    /// takes them. Throws VariantError when there is none.
    Variant start_for(const Template& of, const Values& values, const Sizes& sizes) const {
        Variant usual = some_variant(of, values);
        if (takes(usual, sizes)) return usual;
        if (auto known = known_variant(wisdom, of, values, sizes, device)) return *known;
        return other_variant_for(usual, values, sizes);
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

    /// How much longer a problem takes than the entry's, where there is no model.
    static double work_ratio(const Variant& variant, const Problem& problem, const WisdomEntry& entry) {
        const Problem known = variant.problem(entry.sizes);
        return known.flops > 0 ? double(problem.flops) / double(known.flops)
                               : double(problem.bytes) / std::max(1.0, double(known.bytes));
    }

    /// The nearest entry, or one about as near that should be faster; for the host.
    const Match& nearest(const std::vector<Match>& near, const Sizes& sizes) const {
        const double least = std::ranges::min(near, {}, &Match::distance).distance;
        const Match* best = nullptr;
        double best_ms = 0;
        for (const Match& match : near) {
            if (match.distance > least + kAlike) continue;
            const double ms = match.entry->median_ms *
                              work_ratio(match.variant, match.variant.problem(sizes), *match.entry);
            if (best == nullptr || is_better(ms, match, best_ms, *best)) {
                best = &match;
                best_ms = ms;
            }
        }
        return *best;
    }

    static bool is_better(double ms, const Match& a, double other_ms, const Match& b) {
        if (ms != other_ms) return ms < other_ms;
        return a.stale != b.stale ? b.stale : a.entry->text() < b.entry->text();
    }

    /// The variants of near entries, with their corrected estimates. anchors: receives the corrections.
    std::vector<RankedVariant> anchored(const std::vector<Match>& near, const Sizes& sizes,
                                        Anchors& anchors) const {
        const Model model(machine);
        struct Known {
            const Match* match;
            Estimate there;
            double ratio;
        };
        std::vector<Known> known;
        for (const Match& match : near) {
            const auto there = model.estimate(match.variant, match.variant.problem(match.entry->sizes));
            if (!there || !(there->ms > 0)) continue;
            known.push_back({&match, *there, match.entry->median_ms / there->ms});
            anchors.add(match.entry->template_name, known.back().ratio, match.distance);
        }
        std::vector<RankedVariant> list;
        for (const Known& one : known) {
            const Match& match = *one.match;
            const auto here = model.estimate(match.variant, match.variant.problem(sizes));
            if (!here) continue;
            double ms = here->ms * anchors.factor(match.entry->template_name, one.ratio, match.distance);
            const bool is_alike = are_aligned_alike(match.entry->sizes, match.variant.problem(sizes).sizes) &&
                                  fill_alike(*here, one.there);
            ms *= is_alike ? kKnownToBeGood : kGoodElsewhere;
            list.push_back({match.variant, ms, *here, &match});
        }
        return list;
    }

    /// The best variant that the model finds from the defaults. seen: receives all that it looks at.
    RankedVariant climbed(const CandidateTemplate& one, const Sizes& sizes, double factor,
                          std::vector<RankedVariant>* seen) const {
        const Model model(machine);
        const auto weighed = [&](const Variant& variant, const std::optional<Estimate>& estimate) {
            return estimate ? RankedVariant{variant, estimate->ms * factor, *estimate, nullptr}
                            : RankedVariant{variant, kUnfit, {}, nullptr};
        };
        RankedVariant best = weighed(one.start, model.estimate(one.start, one.problem));
        if (seen != nullptr) seen->push_back(best);
        const ModelSearch& search = one.of.model_search();
        const auto& groups = service.backend() == Backend::host ? search.host_groups : search.groups;
        for (int step = 0; step < kMostSteps; ++step) {
            std::optional<RankedVariant> better;
            double better_ms = best.ms * kWorthwhile;
            for (const std::vector<std::string>& group : groups) {
                Values fixed = best.variant.values();
                bool moves = false;
                for (const std::string& name : group)
                    if (!one.values.contains(name)) moves = fixed.erase(name) > 0 || moves;
                if (!moves) continue;
                for (const Variant& variant : one.of.variants(fixed)) {
                    const auto estimate = model.estimate(variant, one.problem);
                    if (!estimate || (seen == nullptr && estimate->ms * factor >= better_ms)) continue;
                    try {
                        static_cast<void>(variant.problem(sizes));
                    } catch (const VariantError&) {
                        continue;
                    }
                    RankedVariant found = weighed(variant, estimate);
                    if (seen != nullptr) seen->push_back(found);
                    if (found.ms >= better_ms) continue;
                    better_ms = found.ms;
                    better = std::move(found);
                }
            }
            if (!better) break;
            best = std::move(*better);
        }
        return best;
    }

    /// The best of all templates by the model. The most promising template first; those whose defaults are far slower
    /// than the best found are skipped. seen: as for climbed().
    RankedVariant best_by_model(const std::vector<CandidateTemplate>& contenders, const Sizes& sizes,
                                const Anchors& anchors, std::vector<RankedVariant>* seen) const {
        struct Place {
            double ms, factor;
            const CandidateTemplate* contender;
        };
        std::vector<Place> order;
        for (const CandidateTemplate& one : contenders) {
            const double factor = anchors.factor(one.of.name());
            const double ms = Model(machine).ms(one.start, one.problem).value_or(kUnfit);
            order.push_back({ms * factor, factor, &one});
        }
        std::ranges::stable_sort(order, {}, &Place::ms);
        std::optional<RankedVariant> best;
        for (const auto& [ms, factor, contender] : order) {
            if (best && ms > kHopeless * best->ms) break;
            RankedVariant found = climbed(*contender, sizes, factor, seen);
            if (!best || found.ms < best->ms) best = std::move(found);
        }
        return *best;
    }

    /// The templates that can compute this. Throws VariantError when there is none.
    std::vector<CandidateTemplate> contenders_of(std::span<const Template> templates, const Values& fixed,
                                                 const Sizes& sizes) const {
        if (templates.empty()) throw UsageError("there is no template to choose from.");
        std::vector<CandidateTemplate> contenders;
        std::string why;
        for (const Template& of : templates)
            if (auto found = contender(of, fixed, sizes, why)) contenders.push_back(std::move(*found));
        if (contenders.empty()) throw VariantError(why);
        return contenders;
    }

    Matches matches_of(const std::vector<CandidateTemplate>& contenders) const {
        Matches found;
        for (const CandidateTemplate& one : contenders) find_matches(service, wisdom, one, device, found);
        drop_superseded(found.exact);
        drop_superseded(found.near);
        return found;
    }

    /// Of what was weighed, the variant that is taken, and where it comes from. seen: receives all others.
    Choice chosen(const std::vector<CandidateTemplate>& contenders, const Matches& matches,
                  const Sizes& sizes, std::vector<RankedVariant>* seen) const {
        const auto by_entry = [&](const Match& match, ChoiceOrigin origin) {
            return Choice{match.variant, origin, *match.entry, match.stale, matches.unusable};
        };
        const auto& [exact, near, unusable] = matches;
        const bool on_host = service.backend() == Backend::host;
        std::optional<Choice> choice;
        if (!exact.empty())
            choice = by_entry(*std::ranges::min_element(exact,
                                                        [](const Match& a, const Match& b) {
                                                            return is_better(a.entry->median_ms, a,
                                                                             b.entry->median_ms, b);
                                                        }),
                              ChoiceOrigin::wisdom);
        else if (!near.empty() && on_host)
            choice = by_entry(nearest(near, sizes), ChoiceOrigin::nearest);
        if (choice && seen == nullptr) return *choice;
        Anchors anchors;
        std::vector<RankedVariant> known =
            on_host ? std::vector<RankedVariant>() : anchored(near, sizes, anchors);
        RankedVariant best = best_by_model(contenders, sizes, anchors, seen);
        for (const RankedVariant& one : known)
            if (best.near != nullptr ? is_better(one.ms, *one.near, best.ms, *best.near) : one.ms <= best.ms)
                best = one;
        if (seen != nullptr) seen->insert(seen->end(), known.begin(), known.end());
        if (choice) return *choice;
        if (best.near != nullptr) return by_entry(*best.near, ChoiceOrigin::nearest);
        return Choice{best.variant, ChoiceOrigin::model, std::nullopt, false, unusable};
    }
};

namespace {

/// If there is nothing to compute, any variant will do: one for the default sizes.
Sizes sizes_to_compute(Sizes sizes) {
    std::erase_if(sizes, [](const auto& size) { return size.second == 0; });
    return sizes;
}

}  // namespace

Chooser::Chooser(const Service& service, Wisdom wisdom) : Chooser(service, std::move(wisdom), {}) {}
Chooser::Chooser(const Service& service, Wisdom wisdom, const std::string& device)
    : state_(std::make_unique<State>(service, std::move(wisdom), device)) {}
Chooser::~Chooser() = default;

const Wisdom& Chooser::wisdom() const { return state_->wisdom; }
std::string Chooser::calibration_problem() const { return state_->machine.calibration_problem(); }
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
    const Sizes sizes = sizes_to_compute(given);
    const std::vector<CandidateTemplate> contenders = state_->contenders_of(templates, fixed, sizes);
    const Matches matches = state_->matches_of(contenders);
    std::vector<RankedVariant> seen;
    const Choice choice = state_->chosen(contenders, matches, sizes, &seen);
    std::vector<ConsideredVariant> list;
    for (const Match& match : matches.exact)
        list.push_back({match.variant, ChoiceOrigin::wisdom, match.entry->median_ms,
                        "measured on " + match.entry->date.substr(0, match.entry->date.find('T'))});
    for (const RankedVariant& one : seen)
        if (one.ms < kUnfit)
            list.push_back({one.variant, one.near != nullptr ? ChoiceOrigin::nearest : ChoiceOrigin::model,
                            one.ms,
                            (one.near != nullptr ? "measured for " + sizes_text(one.near->entry->sizes) + "; "
                                                 : std::string()) +
                                one.estimate.text()});
    std::ranges::stable_sort(list, [&](const ConsideredVariant& a, const ConsideredVariant& b) {
        const bool first = a.variant == choice.variant, second = b.variant == choice.variant;
        if (first != second) return first;
        return a.origin != b.origin && first ? a.origin < b.origin : a.ms < b.ms;
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
    const Sizes sizes = sizes_to_compute(given);
    const std::vector<CandidateTemplate> contenders = state_->contenders_of(templates, fixed, sizes);
    return state_->chosen(contenders, state_->matches_of(contenders), sizes, nullptr);
}

}  // namespace kiln
