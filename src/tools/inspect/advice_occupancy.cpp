// SPDX-License-Identifier: Apache-2.0
//
// Advice on what limits the warps: registers, shared memory, the size of the grid.
#include <algorithm>

#include "format/format.h"
#include "inspect/advice.h"
#include "inspect/launch_extent.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

using Weight = Advice::Weight;

constexpr double kFewWarps = 0.5;   // of the most
constexpr double kPoorTail = 0.85;  // of the block slots in use
constexpr double kFewWaves = 10;    // with more waves, the last one does not matter
constexpr double kWorthMore = 1.3;  // times the warps: the least improvement that is reported

double warps_of(const Dim3& grid, const Dim3& block, std::int64_t warp_size) {
    const auto size = static_cast<std::uint64_t>(warp_size);
    const std::uint64_t of_block = (block.count() + size - 1) / size;
    return static_cast<double>(grid.count()) * static_cast<double>(of_block);
}

/// A single change of a parameter with which the same problem has more warps.
struct MoreWarps {
    std::string change;
    double warps = 0;
    std::uint64_t blocks = 0, threads = 0;
};

std::optional<MoreWarps> more_warps(const AdviceContext& context, double now, double capacity) {
    const Analysis& analysis = context.analysis;
    const Template of = context.variant.origin();
    std::optional<MoreWarps> best;
    for (const Parameter& parameter : of.parameters()) {
        if (parameter.kind != ParameterKind::integer) continue;
        for (const Value& value : parameter.allowed) {
            if (value == context.variant.value(parameter.name)) continue;
            Values values = context.variant.values();
            values.insert_or_assign(parameter.name, value);
            try {
                const std::optional<Variant> legal = of.first_variant(values);
                if (!legal) continue;
                const Problem problem = legal->problem(analysis.problem.sizes);
                if (problem.flops != analysis.problem.flops || problem.bytes != analysis.problem.bytes)
                    continue;
                const Dim3 grid = grid_of(*legal, problem), block = legal->block();
                const double warps = std::min(capacity, warps_of(grid, block, analysis.limits.warp_size));
                if (warps < kWorthMore * now || (best && warps <= best->warps)) continue;
                best = MoreWarps{parameter.name + "=" + value.text(), warps, grid.count(), block.count()};
            } catch (const std::exception&) {
                // The variant does not support these sizes.
            }
        }
    }
    return best;
}

void advise_on_grid(const AdviceContext& context, std::vector<Advice>& out) {
    const Analysis& analysis = context.analysis;
    if (!analysis.waves || !analysis.occupancy || analysis.occupancy->blocks == 0) return;
    const Waves& waves = *analysis.waves;
    const std::string places = std::string(analysis.chip_name.empty() ? "the chip" : analysis.chip_name);
    if (waves.waves < 1 && waves.mean_occupancy < kFewWarps) {
        std::string text = formatted("{} {} {:.2g} times; {} of its warps are active at most",
                                     counted(waves.blocks, "block fills", "blocks fill"), places, waves.waves,
                                     percent(waves.mean_occupancy));
        if (waves.blocks < static_cast<std::uint64_t>(analysis.multiprocessors))
            text += formatted(
                ", and {} of its {} multiprocessors are idle",
                static_cast<long long>(analysis.multiprocessors) - static_cast<long long>(waves.blocks),
                analysis.multiprocessors);
        std::string change;
        const double now = warps_of(analysis.grid, analysis.block, analysis.limits.warp_size);
        const double capacity = static_cast<double>(analysis.multiprocessors) *
                                static_cast<double>(analysis.occupancy->most_warps);
        if (const auto more = more_warps(context, now, capacity)) {
            change = more->change;
            text += formatted(". {} would launch {} of {} threads, {:.2g} times as many warps", change,
                              counted(more->blocks, "block", "blocks"), more->threads, more->warps / now);
        }
        out.push_back({Weight::warning, text, change});
        return;
    }
    if (waves.waves > 1 && waves.waves < kFewWaves && waves.efficiency < kPoorTail)
        out.push_back({Weight::hint,
                       formatted("{} are {:.2f} waves of {}: the last one is partial, and {} of the block "
                                 "slots are in use on average",
                                 counted(waves.blocks, "block", "blocks"), waves.waves, waves.blocks_at_once,
                                 percent(waves.efficiency)),
                       {}});
}

void advise_on_limits(const AdviceContext& context, std::vector<Advice>& out) {
    const Analysis& analysis = context.analysis;
    if (!analysis.occupancy) return;
    const Occupancy& occupancy = *analysis.occupancy;
    const std::string unit(multiprocessor_word(context.target.backend));
    if (occupancy.blocks == 0) {
        std::string by;
        for (const OccupancyLimit limit : occupancy.binding)
            by += (by.empty() ? "" : ", ") + std::string(name(limit));
        out.push_back({Weight::warning, "not one block fits a multiprocessor, by its " + by, {}});
        return;
    }
    if (occupancy.fraction() >= kFewWarps) return;
    const auto binds = [&](OccupancyLimit limit) {
        return std::ranges::find(occupancy.binding, limit) != occupancy.binding.end();
    };
    std::string text = formatted("{} of each {}'s warps at most: ", percent(occupancy.fraction()), unit);
    if (binds(OccupancyLimit::registers)) {
        text += formatted("{} registers per thread allow {}", analysis.resources.registers.value_or(0),
                          counted(static_cast<std::uint64_t>(occupancy.blocks), "block", "blocks"));
        if (occupancy.registers_for_one_more && occupancy.binding.size() == 1)
            text += formatted("; with {} or fewer one more would fit", *occupancy.registers_for_one_more);
    } else if (binds(OccupancyLimit::shared)) {
        text += formatted("{} bytes of shared memory per block allow {}",
                          analysis.static_shared_bytes + analysis.dynamic_shared_bytes,
                          counted(static_cast<std::uint64_t>(occupancy.blocks), "block", "blocks"));
    } else if (binds(OccupancyLimit::blocks)) {
        text += formatted("no more than {} blocks are held at once, and each has only {} threads",
                          occupancy.by_blocks, analysis.block.count());
    } else {
        text += formatted("a second block of {} threads does not fit", analysis.block.count());
        if (occupancy.blocks > 1)
            text = formatted("{} of each {}'s warps at most: {} blocks of {} threads fit",
                             percent(occupancy.fraction()), unit, occupancy.blocks, analysis.block.count());
    }
    out.push_back({Weight::hint, text, {}});
}

void advise_on_resources(const AdviceContext& context, std::vector<Advice>& out) {
    const Analysis& analysis = context.analysis;
    const Resources& resources = analysis.resources;
    if (resources.spill_bytes.value_or(0) > 0)
        out.push_back({Weight::warning,
                       formatted("registers spill: {} bytes per thread go through local memory",
                                 *resources.spill_bytes),
                       {}});
    else if (resources.stack_bytes.value_or(0) > 0)
        out.push_back({Weight::hint,
                       formatted("{} bytes of local memory per thread, for arrays that registers can't hold",
                                 *resources.stack_bytes),
                       {}});
    const std::uint64_t shared = analysis.static_shared_bytes + analysis.dynamic_shared_bytes;
    const auto plain =
        static_cast<std::uint64_t>(std::max<std::int64_t>(analysis.limits.shared_bytes_per_block, 0));
    if (context.target.backend == Backend::cuda && shared > plain)
        out.push_back({Weight::hint,
                       formatted("{} bytes of shared memory per block are more than the {} of every device: "
                                 "a launch has to opt in, which Kiln does",
                                 shared, plain),
                       {}});
}

}  // namespace

void advise_on_occupancy(const AdviceContext& context, std::vector<Advice>& out) {
    advise_on_resources(context, out);
    advise_on_grid(context, out);
    advise_on_limits(context, out);
}

}  // namespace kiln
