// SPDX-License-Identifier: Apache-2.0
//
// Entries of wisdom for a problem: for exactly these sizes, and for near ones.
#pragma once

#include <kiln/service.h>
#include <kiln/wisdom.h>

#include <optional>
#include <string>
#include <vector>

namespace kiln {

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
    double distance;  ///< 0: exactly these sizes
};

struct Matches {
    std::vector<Match> exact, near;
    std::vector<std::string> unusable;  ///< entries for these sizes that can't be used, and why
};

/// The sum of the doublings between them, and more where one is less aligned; nullopt: too far.
std::optional<double> distance(const Sizes& a, const Sizes& b);

/// Whether each size of both has the same alignment.
bool are_aligned_alike(const Sizes& a, const Sizes& b);

/// The entry has all of these values, but for code: what is fast with one functor is with another.
bool agrees(const Template& of, const WisdomEntry& entry, const Values& values);

/// What an entry for exactly these sizes and with these values names; nullopt: there is none that can be used.
/// device: its name; empty: any.
std::optional<Variant> known_variant(const Wisdom& wisdom, const Template& of, const Values& values,
                                     const Sizes& sizes, const std::string& device);

/// Adds the entries for a template's problem to `found`. An entry that does something else with the result, of another type
/// or with a bias, is a near one even if its sizes are equal. device: its name; empty: any.
void find_matches(const Service& service, const Wisdom& wisdom, const CandidateTemplate& one,
                  const std::string& device, Matches& found);

/// Drops stale entries of templates that have fresh ones as well. The time of a stale entry is rarely far off, so it
/// still competes with entries of other templates.
void drop_superseded(std::vector<Match>& matches);

}  // namespace kiln
