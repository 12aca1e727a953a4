// SPDX-License-Identifier: Apache-2.0
//
// Of variants with equal estimates, those near the defaults come first, and each further one counts as slightly
// slower. So the first candidates are spread over the most promising tiles.
#include "tune/candidates.h"

#include <kiln/error.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tune/model.h"
#include "tune/problem_space.h"

namespace kiln {
namespace {

constexpr double kRepeatPenalty = 0.06;
constexpr std::uint64_t kMostListed = 60'000;  // legal variants; ordering them takes a second
constexpr std::size_t kKept = 5;               // of the fastest, whose neighbours are tried

double choices(const Parameter& parameter) {
    return parameter.allowed.empty() ? static_cast<double>(parameter.max - parameter.min) + 1
                                     : static_cast<double>(parameter.allowed.size());
}

/// All legal variants. If there are too many to list, parameters are fixed at their defaults: first those that the model
/// does not read, from the last one on, since authors declare important ones first; then those with the most values.
std::vector<Variant> legal_variants(const Template& of, Values fixed) {
    const auto is_free = [&](const Parameter& parameter) {
        return !fixed.contains(parameter.name) && choices(parameter) > 1;
    };
    const auto keep = [&](const Parameter& parameter) {
        fixed.insert_or_assign(parameter.name, of.default_of(parameter.name, fixed));
    };
    const auto are_too_many = [&] { return of.variant_count(fixed).value_or(kMostListed + 1) > kMostListed; };
    const std::vector<std::string>& modelled = of.model_search().parameters;
    for (std::size_t i = of.parameters().size(); i-- > 0 && are_too_many();) {
        const Parameter& parameter = of.parameters()[i];
        if (is_free(parameter) && std::ranges::find(modelled, parameter.name) == modelled.end())
            keep(parameter);
    }
    while (are_too_many()) {
        const Parameter* widest = nullptr;
        for (const Parameter& parameter : of.parameters())
            if (is_free(parameter) && (widest == nullptr || choices(parameter) > choices(*widest)))
                widest = &parameter;
        if (widest == nullptr) break;
        keep(*widest);
    }
    return of.variants(fixed);
}

std::string text_of(const std::string& template_name, const Values& values) {
    std::string text = template_name;
    for (const auto& [name, value] : values) text += " " + name + "=" + value.text();
    return text;
}

/// nullopt: it does not support these sizes; sets `why` if that is empty.
std::optional<Problem> problem_of(const Variant& variant, const Sizes& sizes, bool test_sizes,
                                  std::string& why) {
    try {
        return variant.problem(sizes, test_sizes);
    } catch (const VariantError& error) {
        if (why.empty()) why = error.what();
        return std::nullopt;
    }
}

}  // namespace

std::vector<VariantSpace> legal_spaces(const Service& service, std::span<const Template> templates,
                                       const Values& fixed) {
    std::vector<VariantSpace> spaces;
    for (const Template& of : templates) {
        Values values = problem_values(service, of, fixed);
        for (const std::string& name : of.dependent_uses())
            if (!values.contains(name)) values.emplace(name, of.default_of(name, values));
        std::vector<Variant> variants = legal_variants(of, values);
        // The error of the defaults explains best what is not allowed.
        if (variants.empty()) static_cast<void>(of.variant(values));
        if (variants.empty())
            throw VariantError(of.name() + " has no legal variant with the values that are given");
        spaces.push_back({of, std::move(variants)});
    }
    return spaces;
}

void check_sizes(std::span<const VariantSpace> spaces, const Sizes& sizes, bool test_sizes) {
    std::string why;
    for (const VariantSpace& space : spaces)
        for (const Variant& variant : space.variants)
            if (problem_of(variant, sizes, test_sizes, why)) return;
    throw VariantError(why);
}

Candidates ordered_candidates(const Service& service, std::span<const VariantSpace> spaces,
                              const Sizes& sizes, bool test_sizes) {
    const Machine machine(service.target(), service.has_device() ? service.device().info().name : "");
    const Model model(machine);
    Candidates result;
    std::vector<Candidate> candidates;
    for (const VariantSpace& space : spaces) {
        // Except for a few templates, all variants support the same sizes. The first variant's reason is
        // reported.
        std::string why;
        bool is_taken = false;
        for (const Variant& variant : space.variants) {
            std::optional<Problem> problem = problem_of(variant, sizes, test_sizes, why);
            if (!problem) continue;
            is_taken = true;
            const std::optional<double> ms = model.ms(variant, *problem);
            if (ms) candidates.push_back({variant, std::move(*problem), *ms});
        }
        if (is_taken)
            result.legal += space.variants.size();
        else
            result.left_out.push_back(why);
    }
    struct Place {
        double score;
        int distance;
        std::size_t index;
    };
    std::vector<Place> places;
    for (std::size_t i = 0; i < candidates.size(); ++i)
        places.push_back({candidates[i].model_ms, distance_from_default(candidates[i].variant), i});
    const auto by_text = [&](const Place& a, const Place& b) {
        return candidates[a.index].variant.text() < candidates[b.index].variant.text();
    };
    std::ranges::sort(places, [&](const Place& a, const Place& b) {
        if (a.score != b.score) return a.score < b.score;
        if (a.distance != b.distance) return a.distance < b.distance;
        return by_text(a, b);
    });
    std::size_t alike = 0;
    double group = -1;
    for (Place& place : places) {
        alike = place.score == group ? alike + 1 : 0;
        group = place.score;
        place.score *= 1 + kRepeatPenalty * std::log2(1 + static_cast<double>(alike));
    }
    std::ranges::sort(places, [&](const Place& a, const Place& b) {
        return a.score != b.score ? a.score < b.score : by_text(a, b);
    });
    result.ordered.reserve(candidates.size());
    for (const Place& place : places) result.ordered.push_back(std::move(candidates[place.index]));
    return result;
}

std::vector<Candidate> of_shard(std::vector<Candidate> candidates, std::uint64_t shard,
                                std::uint64_t shards) {
    if (shards <= 1) return candidates;
    std::vector<Candidate> mine;
    for (std::size_t i = shard; i < candidates.size(); i += shards) mine.push_back(std::move(candidates[i]));
    return mine;
}

CandidateQueue::CandidateQueue(const std::vector<Candidate>& candidates, std::span<const Variant> first)
    : candidates_(candidates), out_(candidates.size()), expanded_(candidates.size()) {
    for (std::size_t i = 0; i < candidates.size(); ++i)
        by_text_.emplace(text_of(candidates[i].variant.template_name(), candidates[i].variant.values()), i);
    const auto begin_with = [&](const Variant& variant) {
        const auto found = by_text_.find(text_of(variant.template_name(), variant.values()));
        if (found != by_text_.end()) first_.push_back(found->second);
    };
    if (!first.empty()) begin_with(first.front());
    // Then each template's defaults.
    std::map<std::string, std::pair<int, std::size_t>> nearest;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const std::pair<int, std::size_t> place(distance_from_default(candidates[i].variant), i);
        const auto [found, is_new] = nearest.try_emplace(candidates[i].variant.template_name(), place);
        if (!is_new) found->second = std::min(found->second, place);
    }
    for (const auto& [name, place] : nearest) first_.push_back(place.second);
    for (std::size_t i = 1; i < first.size(); ++i) begin_with(first[i]);
}

std::optional<std::size_t> CandidateQueue::next() {
    std::optional<std::size_t> found = next_of(first_);
    // Two neighbours of the best, then one from the model's order.
    if (!found && turn_++ % 3 != 2) found = next_neighbour();
    while (!found && ranked_ < candidates_.size()) {
        const std::size_t candidate = ranked_++;
        if (!out_[candidate]) found = candidate;
    }
    if (!found) found = next_neighbour();
    if (found) out_[*found] = true;
    return found;
}

std::optional<std::size_t> CandidateQueue::next_neighbour() {
    if (neighbours_.empty())
        for (const auto& [ms, candidate] : best_)
            if (!expanded_[candidate]) {
                add_neighbours(candidate);
                if (!neighbours_.empty()) break;
            }
    return next_of(neighbours_);
}

std::optional<std::size_t> CandidateQueue::next_of(std::deque<std::size_t>& queue) const {
    while (!queue.empty()) {
        const std::size_t candidate = queue.front();
        queue.pop_front();
        if (!out_[candidate]) return candidate;
    }
    return std::nullopt;
}

void CandidateQueue::timed(std::size_t candidate, double ms) {
    out_[candidate] = true;
    const std::pair<double, std::size_t> entry(ms, candidate);
    best_.insert(std::ranges::lower_bound(best_, entry), entry);
    if (best_.size() > kKept) best_.pop_back();
    // A new best: its neighbours come before those of the former best.
    if (best_.front().second == candidate && !expanded_[candidate]) {
        std::deque<std::size_t> before = std::move(neighbours_);
        neighbours_.clear();
        add_neighbours(candidate);
        neighbours_.insert(neighbours_.end(), before.begin(), before.end());
    }
}

void CandidateQueue::add_neighbours(std::size_t candidate) {
    expanded_[candidate] = true;
    const Variant& variant = candidates_[candidate].variant;
    const Template origin = variant.origin();
    for (const Parameter& parameter : origin.parameters()) {
        const Value& value = variant.value(parameter.name);
        std::vector<Value> beside;
        if (value.is_bool()) {
            beside = {!value.as_bool()};
        } else if (parameter.allowed.empty() && value.is_int()) {
            beside = {value.as_int() - 1, value.as_int() + 1};
        } else {
            const auto at = std::ranges::find(parameter.allowed, value);
            if (at == parameter.allowed.end()) continue;
            if (at != parameter.allowed.begin()) beside.push_back(*(at - 1));
            if (at + 1 != parameter.allowed.end()) beside.push_back(*(at + 1));
        }
        for (const Value& other : beside) {
            Values values = variant.values();
            values.insert_or_assign(parameter.name, other);
            const auto found = by_text_.find(text_of(variant.template_name(), values));
            if (found != by_text_.end() && !out_[found->second]) neighbours_.push_back(found->second);
        }
    }
}

}  // namespace kiln
