// SPDX-License-Identifier: Apache-2.0
//
// What an analysis means, in sentences: each computed from its figures. Warnings come first.
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
    std::string not_recorded;  ///< why; empty: it was, or nobody asked for it
    std::optional<LayoutSearch> layout;
    std::vector<LineSectors> sectors;  ///< of the whole launch
};

std::vector<Advice> advise(const AdviceContext& context);

// Its parts, in the order in which they are told.
void advise_on_memory_accesses(const AdviceContext& context, std::vector<Advice>& out);
void advise_on_occupancy(const AdviceContext& context, std::vector<Advice>& out);
void advise_on_roofline(const AdviceContext& context, std::vector<Advice>& out);

/// Excess wavefronts that are worth a search for a better layout.
constexpr double kExcessWorthTelling = 0.01;

/// "SM", on AMD "CU"
std::string_view multiprocessor_word(Backend backend);

}  // namespace kiln
