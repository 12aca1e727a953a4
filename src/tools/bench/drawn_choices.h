// SPDX-License-Identifier: Apache-2.0
//
// What the chooser makes of drawn problems: the variant that an application gets for each, and the variants that are timed
// next to it, which are those that the chooser considers for this problem and for the other problems of the family. Needs no
// device.
#pragma once

#include <kiln/service.h>
#include <kiln/wisdom.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/unseen_problems.h"

namespace kiln::bench {

/// A problem and what the chooser makes of it.
struct DrawnChoice {
    DrawnProblem problem;
    std::vector<Template> templates;            ///< empty: none computes it
    std::optional<Choice> choice;               ///< empty: no template takes it
    std::vector<ConsideredVariant> considered;  ///< the first few of those with different tiles or grids
};

/// Of the first `draws` problems of a family. A problem that the chooser rejects has no choice.
std::vector<DrawnChoice> choices_of(const Service& service, const Chooser& chooser, const DrawnFamily& family,
                                    std::uint64_t seed, int draws);

/// The variants to be timed for a problem next to the chosen one, at most `most`: its own, then those of the other problems.
std::vector<Variant> others_of(const std::vector<DrawnChoice>& all, const DrawnChoice& one, std::size_t most);

/// All that these problems of `all` need, each once, the chosen ones and at most `most` others for each.
std::vector<Variant> variants_of(const std::vector<DrawnChoice>& all,
                                 std::span<const DrawnChoice* const> problems, std::size_t most);

/// "T=half TRANS_B=true"
std::string fixed_text(const Values& values);

/// Why no template computes a problem with these values.
std::string why_none(const Service& service, const DrawnFamily& family, const Values& fixed);

}  // namespace kiln::bench
