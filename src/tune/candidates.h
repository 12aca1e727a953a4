// SPDX-License-Identifier: Apache-2.0
//
// The candidates of one problem: all legal variants of the templates, ordered by the model; the part of that
// order that belongs to a shard; and a queue that adapts the order to the results.
#pragma once

#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/tune.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln {

struct Candidate {
    Variant variant;
    Problem problem;
    double model_ms = 0;
};

/// The legal variants of one template. They do not depend on the sizes, and may take seconds to list.
struct VariantSpace {
    Template of;
    std::vector<Variant> variants;
};

/// One per template. Parameters of the problem have their defaults unless they are fixed, and so have those that decide
/// whether launches overlap (`dependent`), since the gain of an overlap does not show when launches are timed one by
/// one. Throws VariantError for a template without a legal variant.
std::vector<VariantSpace> legal_spaces(const Service& service, std::span<const Template> templates,
                                       const Values& fixed);

/// Throws VariantError, with the first variant's reason, when no variant supports these sizes.
void check_sizes(std::span<const VariantSpace> spaces, const Sizes& sizes, bool test_sizes);

struct Candidates {
    std::vector<Candidate> ordered;     ///< those whose blocks fit, the fastest by the model first
    std::uint64_t legal = 0;            ///< variants of the templates that support the sizes
    std::vector<std::string> left_out;  ///< for each other template, a sentence that says why not
};

/// Equal requests give equal lists on all machines with the same device.
Candidates ordered_candidates(const Service& service, std::span<const VariantSpace> spaces,
                              const Sizes& sizes, bool test_sizes);

/// The candidates of one shard.
std::vector<Candidate> of_shard(std::vector<Candidate> candidates, std::uint64_t shard, std::uint64_t shards);

/// Decides which candidate is tried next: alternately the next one in the model's order and neighbours of the
/// best so far. A neighbour differs in one parameter, by one step in its list of values.
class CandidateQueue {
  public:
    /// first: what to begin with, before and behind the defaults of each template; those that are no candidates are
    /// passed over.
    explicit CandidateQueue(const std::vector<Candidate>& candidates, std::span<const Variant> first = {});

    /// The index of the next candidate; nullopt: none is left.
    std::optional<std::size_t> next();
    /// Records the time of a candidate.
    void timed(std::size_t candidate, double ms);
    /// Removes a candidate that need not be tried.
    void skip(std::size_t candidate) { out_[candidate] = true; }

  private:
    void add_neighbours(std::size_t candidate);
    std::optional<std::size_t> next_neighbour();
    std::optional<std::size_t> next_of(std::deque<std::size_t>& queue) const;

    const std::vector<Candidate>& candidates_;
    std::unordered_map<std::string, std::size_t> by_text_;
    std::vector<bool> out_, expanded_;
    std::size_t ranked_ = 0;
    std::vector<std::pair<double, std::size_t>> best_;  ///< the few fastest, in order
    std::deque<std::size_t> first_, neighbours_;
    std::uint64_t turn_ = 0;
};

}  // namespace kiln
