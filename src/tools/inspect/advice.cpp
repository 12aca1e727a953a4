// SPDX-License-Identifier: Apache-2.0
//
// The order of advice, and a summary of what is in order when there are no warnings.
#include "inspect/advice.h"

#include <algorithm>

#include "inspect/text_format.h"

namespace kiln {
namespace {

using Weight = Advice::Weight;

/// The checks that found no problem; empty: none did.
std::string good_text(const AdviceContext& context) {
    const Analysis& analysis = context.analysis;
    std::vector<std::string> parts;
    if (analysis.recording && !analysis.shared.empty() && analysis.excess() <= kExcessWorthTelling)
        parts.push_back(analysis.excess() > 0.0005
                            ? percent(analysis.excess()) + " excess wavefronts in shared memory"
                            : "no bank conflicts");
    if (analysis.recording && analysis.global_ideal > 0 &&
        analysis.global_sectors <= 1.05 * analysis.global_ideal)
        parts.push_back("global accesses touch few sectors more than they need");
    if (analysis.resources.spill_bytes == std::uint64_t{0}) parts.push_back("no spills");
    if (analysis.waves && analysis.waves->mean_occupancy >= 0.5)
        parts.push_back("up to " + percent(analysis.waves->mean_occupancy) + " of the warps active");
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i)
        text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
    return text.empty() ? text : "in order: " + text;
}

}  // namespace

std::string_view multiprocessor_word(Backend backend) { return backend == Backend::hip ? "CU" : "SM"; }

std::vector<Advice> advise(const AdviceContext& context) {
    std::vector<Advice> advice;
    if (!context.not_recorded.empty())
        advice.push_back({Weight::warning,
                          "not recorded, so its accesses to memory are not known: " + context.not_recorded,
                          {}});
    if (!context.analysis.not_scaled.empty())
        advice.push_back({Weight::hint,
                          "sums are of the recorded sizes, since those of the shape are not known: " +
                              context.analysis.not_scaled + "; a line '//@ flops' says what a block does",
                          {}});
    advise_on_memory_accesses(context, advice);
    advise_on_occupancy(context, advice);
    advise_on_roofline(context, advice);
    const bool warned =
        std::ranges::any_of(advice, [](const Advice& one) { return one.weight == Weight::warning; });
    if (!warned)
        if (std::string text = good_text(context); !text.empty())
            advice.push_back({Weight::good, std::move(text), {}});
    std::ranges::stable_sort(advice, std::ranges::greater{}, &Advice::weight);
    return advice;
}

}  // namespace kiln
