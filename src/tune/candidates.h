// SPDX-License-Identifier: Apache-2.0
//
// The candidates of one problem: all legal variants of the templates, in the order in which the model would try
// them, a shard's part of that order, and who is next while results come in.
#pragma once

#include <kiln/service.h>
#include <kiln/template.h>
#include <kiln/tune.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace kiln {

struct Candidate {
    Variant variant;
    Problem problem;
    double model_ms = 0;
};

/// The legal variants of one template: what does not depend on the sizes, and takes up to seconds to list.
struct Space {
    Template of;
    std::vector<Variant> variants;
};

/// One per template. Unless they are fixed, parameters that say what is computed have their defaults, and so has
/// those that decide whether launches overlap (`dependent`): what an overlap with the launch before gains does not show where launches are timed one by one. Throws
/// VariantError for a template without a legal variant.
std::vector<Space> legal_spaces(const Service& service, std::span<const Template> templates,
                                const Values& fixed);

/// Throws VariantError, with the reason of the first, when no variant can take these sizes.
void check_sizes(std::span<const Space> spaces, const Sizes& sizes, bool test_sizes);

struct Candidates {
    std::vector<Candidate> ordered;     ///< those whose blocks fit, the most promising first
    std::uint64_t legal = 0;            ///< variants of the templates that can take the sizes
    std::vector<std::string> left_out;  ///< why the others can't, a sentence each
};

/// Equal requests give equal lists, on every machine with that device.
Candidates ordered_candidates(const Service& service, std::span<const Space> spaces, const Sizes& sizes,
                              bool test_sizes);

/// The candidates of one shard.
std::vector<Candidate> dealt(std::vector<Candidate> candidates, std::uint64_t shard, std::uint64_t shards);

/// Deals candidates out: by the model's order, and in turn by the neighbours (one value to the next in its
/// parameter's list) of the best so far.
class Search {
  public:
    explicit Search(const std::vector<Candidate>& candidates);

    /// The index of the next candidate; nullopt: all are out.
    std::optional<std::size_t> next();
    /// This candidate is timed.
    void timed(std::size_t candidate, double ms);
    /// It need not be tried.
    void skip(std::size_t candidate) { out_[candidate] = true; }

  private:
    void add_neighbours(std::size_t candidate);
    std::optional<std::size_t> next_neighbour();

    const std::vector<Candidate>& candidates_;
    std::unordered_map<std::string, std::size_t> by_text_;
    std::vector<bool> out_, expanded_;
    std::size_t ranked_ = 0;
    std::vector<std::pair<double, std::size_t>> best_;  ///< the few fastest, in order
    std::deque<std::size_t> neighbours_;
    std::uint64_t turn_ = 0;
};

}  // namespace kiln
