// SPDX-License-Identifier: Apache-2.0
//
// Some of a template's legal variants, for templates that have far too many to list: those at the ends of each
// parameter, and random ones.
#pragma once

#include <kiln/error.h>
#include <kiln/template.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace kiln::test {

namespace detail {

/// The legal variant with these values in which `changes` parameters of `others`, from number `first` on, may
/// have other values than their defaults, and all further ones have theirs.
inline std::optional<Variant> with_changes(const Template& of, const std::vector<std::string>& others,
                                           const Values& fixed, std::size_t first, int changes) {
    if (changes == 0) {
        const auto legal = of.variants(fixed);
        if (legal.empty()) return std::nullopt;
        return legal.front();
    }
    for (std::size_t i = first; i < others.size(); ++i) {
        Values freed = fixed;
        freed.erase(others[i]);
        if (auto found = with_changes(of, others, freed, i + 1, changes - 1)) return found;
    }
    return std::nullopt;
}

/// A legal variant with parameter[i] = value that has as few other changes as possible, three at most.
inline std::optional<Variant> nearest(const Template& of, const std::string& name, const Value& value) {
    constexpr int kMostChanges = 3;
    Values fixed;
    std::vector<std::string> others;
    for (const Parameter& parameter : of.parameters()) {
        fixed.insert_or_assign(
            parameter.name, parameter.name == name ? value : of.default_of(parameter.name, {{name, value}}));
        // Any float, or any text, is a value of such a one: there is no list to try.
        const bool is_open = parameter.kind == ParameterKind::code ||
                             (parameter.kind == ParameterKind::real && parameter.allowed.empty());
        if (parameter.name != name && !is_open) others.push_back(parameter.name);
    }
    for (int changes = 0; changes <= kMostChanges; ++changes)
        if (auto found = with_changes(of, others, fixed, 0, changes)) return found;
    return std::nullopt;
}

}  // namespace detail

/// The default; variants in which each parameter takes its first and its last value, and each type parameter
/// every value, up to `together` of them in one variant and what else must change with them. Each variant
/// once. A value that no such variant has is left out: it may be there only to be rejected with a reason
/// (TILE = 64 of gemm_square).
inline std::vector<Variant> corners(const Template& of, int together) {
    std::vector<Variant> result = {of.variant()};
    std::vector<std::pair<std::string, Value>> open;
    for (const bool last : {false, true}) {
        for (const Parameter& parameter : of.parameters()) {
            if (parameter.kind == ParameterKind::type) {
                for (const Value& value : parameter.allowed)
                    if (!last) open.emplace_back(parameter.name, value);
            } else if (!parameter.allowed.empty()) {
                open.emplace_back(parameter.name,
                                  last ? parameter.allowed.back() : parameter.allowed.front());
            } else if (parameter.kind == ParameterKind::integer) {
                open.emplace_back(parameter.name,
                                  Value(static_cast<long long>(last ? parameter.max : parameter.min)));
            }
        }
    }
    const auto close = [&](const Variant& variant) {
        std::erase_if(open, [&](const auto& one) { return variant.value(one.first) == one.second; });
    };
    close(result.front());
    while (!open.empty()) {
        const auto [name, value] = open.front();
        open.erase(open.begin());
        std::optional<Variant> found = detail::nearest(of, name, value);
        if (!found) continue;
        int taken = 1;
        for (std::size_t i = 0; i < open.size() && taken < together; ++i) {
            const auto& [other, end] = open[i];
            // What was changed stays.
            if (found->value(other) != result.front().value(other)) continue;
            Values values = found->values();
            values.insert_or_assign(other, end);
            const auto legal = of.variants(values);
            if (!legal.empty()) found = legal.front(), ++taken;
        }
        close(*found);
        result.push_back(std::move(*found));
    }
    return result;
}

/// Up to `count` different legal variants, drawn value by value; each legal one is as likely as another.
/// Fewer where a template has few, or where few of its combinations are legal.
inline std::vector<Variant> random_variants(const Template& of, std::mt19937& random, std::size_t count) {
    constexpr int kTries = 2000;
    std::vector<Variant> result;
    for (int i = 0; i < kTries && result.size() < count; ++i) {
        Values values;
        for (const Parameter& parameter : of.parameters()) {
            if (!parameter.allowed.empty()) {
                values.insert_or_assign(parameter.name,
                                        parameter.allowed[random() % parameter.allowed.size()]);
            } else if (parameter.kind == ParameterKind::integer) {
                std::uniform_int_distribution<std::int64_t> range(parameter.min, parameter.max);
                values.insert_or_assign(parameter.name, Value(static_cast<long long>(range(random))));
            } else {
                values.insert_or_assign(parameter.name, parameter.default_value);
            }
        }
        // Not variant(), which searches the nearest legal choice for its error message.
        auto legal = of.variants(values);
        if (!legal.empty() && std::ranges::find(result, legal.front()) == result.end())
            result.push_back(std::move(legal.front()));
    }
    return result;
}

}  // namespace kiln::test
