// SPDX-License-Identifier: Apache-2.0
//
// Turns the numbers of an analysis into sentences. Warnings come first.
#pragma once

#include <kiln/tools/analyze.h>

#include <optional>
#include <string>
#include <vector>

#include "inspect/layout_search.h"
#include "inspect/recorded_variant.h"

namespace kiln {

struct AdviceContext {
    const Variant& variant;  ///< of the target
    const Target& target;
    const Analysis& analysis;
    std::string not_recorded;  ///< why not; empty: it was recorded, or no recording was requested
    std::optional<LayoutSearch> layout;
    std::vector<LineSectors> sectors;  ///< of the whole launch
};

std::vector<Advice> advise(const AdviceContext& context);

// The parts, in the order of the report.
void advise_on_memory_accesses(const AdviceContext& context, std::vector<Advice>& out);
void advise_on_occupancy(const AdviceContext& context, std::vector<Advice>& out);
void advise_on_roofline(const AdviceContext& context, std::vector<Advice>& out);

/// From this many excess wavefronts on, a better layout is searched.
constexpr double kExcessWorthTelling = 0.01;

/// "SM", on AMD "CU"
std::string_view multiprocessor_word(Backend backend);

}  // namespace kiln
