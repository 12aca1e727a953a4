// SPDX-License-Identifier: Apache-2.0
//
// Launches of one kernel vary by some per cent, so the last comparison has many of the few that are left.
#include "bench/variant_times.h"

#include <kiln/error.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <set>

#include "format/format.h"
#include "run/inputs.h"
#include "run/problem_launch.h"
#include "run/result_check.h"

namespace kiln::bench {
namespace {

struct Round {
    std::size_t most;  ///< variants, the chosen one not counted
    double slowest;    ///< times the fastest
    int launches;
};
constexpr Round kRounds[] = {{std::numeric_limits<std::size_t>::max(), 1e9, 1}, {12, 1.6, 4}, {4, 1.15, 15}};
constexpr std::size_t kVariantSample = 1024;  // elements of an output that are checked

struct Entry {
    std::unique_ptr<ProblemLaunch> own;  ///< empty: the chosen one
    Variant variant;
    Launch launch;
    double us = 0;
};

/// What is wrong with its results; empty: nothing.
std::string wrong_of(Benchmark& bench, ProblemLaunch& launch) {
    ResultCheck check(bench.references(), launch.variant(), launch.problem(), false);
    launch.refill_results();
    launch.launch_and_wait();
    for (const auto& memory : launch.tensors()) {
        const Tensor& tensor = memory->tensor();
        if (tensor.role == TensorRole::input) continue;
        for (const Overrun& place : memory->overruns()) return "it wrote " + place.text();
        if (!is_result(tensor)) continue;
        CheckRequest request{Check::sample, false, random_word(kInputSeed, 2), kVariantSample};
        const OutputCheck found = check.output(launch, *memory, request);
        if (found.wrong + found.unwritten > 0)
            return formatted("{} of {} elements of {} are wrong", found.wrong, found.checked, tensor.name);
    }
    for (const auto& [tensor, count] : launch.unwritten())
        return formatted("{} elements of {} were never written", count, tensor);
    return {};
}

std::vector<Entry> entries_of(Benchmark& bench, const VerifiedLaunch& chosen, SharedTensors& shared,
                              const std::vector<Variant>& variants,
                              const std::function<void(Problem&)>& adjust) {
    std::vector<Entry> entries;
    entries.push_back({{}, chosen.variant(), [&chosen] { chosen.launch(); }});
    std::set<std::string> seen = {chosen.variant().text()};
    for (const Variant& variant : variants) {
        if (!seen.insert(variant.text()).second) continue;
        try {
            Problem problem = variant.problem(chosen.problem().sizes);
            if (adjust) adjust(problem);
            auto own = std::make_unique<ProblemLaunch>(bench.service(), bench.service().build(variant),
                                                       std::move(problem), shared);
            if (own->is_empty()) continue;
            own->launch_and_wait();
            const ProblemLaunch* const launch = own.get();
            entries.push_back({std::move(own), variant, [launch] { launch->launch(); }});
        } catch (const Error&) {
            // It does not take these sizes, can't be compiled, or asks for more than the device has. After a fault the
            // next launch fails as well.
            bench.stream().synchronize();
        }
    }
    return entries;
}

void time_round(Benchmark& bench, std::vector<Entry>& entries, const Round& round) {
    // The chosen one is first and stays.
    const auto others = entries.begin() + 1;
    std::sort(others, entries.end(), [](const Entry& a, const Entry& b) { return a.us < b.us; });
    const double fastest = std::ranges::min_element(entries, {}, &Entry::us)->us * round.slowest;
    std::size_t count = 1;
    while (count < entries.size() && count <= round.most && entries[count].us <= fastest) ++count;
    std::vector<Launch> launches;
    for (std::size_t i = 0; i < count; ++i) launches.push_back(entries[i].launch);
    const auto times = bench.interleaved_us(launches, round.launches);
    for (std::size_t i = 0; i < count; ++i) entries[i].us = spread_of(times[i]).median;
}

}  // namespace

VariantTimes time_variants(Benchmark& bench, const VerifiedLaunch& chosen, SharedTensors& shared,
                           const std::vector<Variant>& variants,
                           const std::function<void(Problem&)>& adjust) {
    std::vector<Entry> entries = entries_of(bench, chosen, shared, variants, adjust);
    for (const Round& round : kRounds) time_round(bench, entries, round);
    VariantTimes result{{entries.front().variant, entries.front().us}, {}, {}};
    std::sort(entries.begin() + 1, entries.end(), [](const Entry& a, const Entry& b) { return a.us < b.us; });
    bool is_verified = false;  // one that is right; slower ones don't matter
    for (std::size_t i = 1; i < entries.size(); ++i) {
        Entry& entry = entries[i];
        if (!is_verified && entry.us < result.chosen.us) {
            const std::string wrong = wrong_of(bench, *entry.own);
            if (!wrong.empty()) {
                result.failures.push_back(entry.variant.text() + ": " + wrong);
                continue;
            }
            is_verified = true;
        }
        result.others.push_back({entry.variant, entry.us});
    }
    return result;
}

}  // namespace kiln::bench
