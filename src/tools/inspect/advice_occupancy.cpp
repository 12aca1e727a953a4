// SPDX-License-Identifier: Apache-2.0
//
// Advice on what limits the warps: registers, shared memory, the size of the grid.
#include <algorithm>

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
        std::string text = format_text("%s %s %.2g times; %s of its warps are active at most",
                                       counted(waves.blocks, "block fills", "blocks fill").c_str(),
                                       places.c_str(), waves.waves, percent(waves.mean_occupancy).c_str());
        if (waves.blocks < static_cast<std::uint64_t>(analysis.multiprocessors))
            text += format_text(
                ", and %lld of its %lld multiprocessors are idle",
                static_cast<long long>(analysis.multiprocessors) - static_cast<long long>(waves.blocks),
                static_cast<long long>(analysis.multiprocessors));
        std::string change;
        const double now = warps_of(analysis.grid, analysis.block, analysis.limits.warp_size);
        const double capacity = static_cast<double>(analysis.multiprocessors) *
                                static_cast<double>(analysis.occupancy->most_warps);
        if (const auto more = more_warps(context, now, capacity)) {
            change = more->change;
            text += format_text(". %s would launch %s of %llu threads, %.2g times as many warps",
                                change.c_str(), counted(more->blocks, "block", "blocks").c_str(),
                                static_cast<unsigned long long>(more->threads), more->warps / now);
        }
        out.push_back({Weight::warning, text, change});
        return;
    }
    if (waves.waves > 1 && waves.waves < kFewWaves && waves.efficiency < kPoorTail)
        out.push_back({Weight::hint,
                       format_text("%s are %.2f waves of %llu: the last one is partial, and %s of the block "
                                   "slots are in use on average",
                                   counted(waves.blocks, "block", "blocks").c_str(), waves.waves,
                                   static_cast<unsigned long long>(waves.blocks_at_once),
                                   percent(waves.efficiency).c_str()),
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
    std::string text =
        format_text("%s of each %s's warps at most: ", percent(occupancy.fraction()).c_str(), unit.c_str());
    if (binds(OccupancyLimit::registers)) {
        text += format_text("%d registers per thread allow %s", analysis.resources.registers.value_or(0),
                            counted(static_cast<std::uint64_t>(occupancy.blocks), "block", "blocks").c_str());
        if (occupancy.registers_for_one_more && occupancy.binding.size() == 1)
            text += format_text("; with %d or fewer one more would fit", *occupancy.registers_for_one_more);
    } else if (binds(OccupancyLimit::shared)) {
        text += format_text(
            "%llu bytes of shared memory per block allow %s",
            static_cast<unsigned long long>(analysis.static_shared_bytes + analysis.dynamic_shared_bytes),
            counted(static_cast<std::uint64_t>(occupancy.blocks), "block", "blocks").c_str());
    } else if (binds(OccupancyLimit::blocks)) {
        text += format_text("no more than %d blocks are held at once, and each has only %llu threads",
                            occupancy.by_blocks, static_cast<unsigned long long>(analysis.block.count()));
    } else {
        text += format_text("a second block of %llu threads does not fit",
                            static_cast<unsigned long long>(analysis.block.count()));
        if (occupancy.blocks > 1)
            text = format_text("%s of each %s's warps at most: %d blocks of %llu threads fit",
                               percent(occupancy.fraction()).c_str(), unit.c_str(), occupancy.blocks,
                               static_cast<unsigned long long>(analysis.block.count()));
    }
    out.push_back({Weight::hint, text, {}});
}

void advise_on_resources(const AdviceContext& context, std::vector<Advice>& out) {
    const Analysis& analysis = context.analysis;
    const Resources& resources = analysis.resources;
    if (resources.spill_bytes.value_or(0) > 0)
        out.push_back({Weight::warning,
                       format_text("registers spill: %llu bytes per thread go through local memory",
                                   static_cast<unsigned long long>(*resources.spill_bytes)),
                       {}});
    else if (resources.stack_bytes.value_or(0) > 0)
        out.push_back(
            {Weight::hint,
             format_text("%llu bytes of local memory per thread, for arrays that registers can't hold",
                         static_cast<unsigned long long>(*resources.stack_bytes)),
             {}});
    const std::uint64_t shared = analysis.static_shared_bytes + analysis.dynamic_shared_bytes;
    const auto plain =
        static_cast<std::uint64_t>(std::max<std::int64_t>(analysis.limits.shared_bytes_per_block, 0));
    if (context.target.backend == Backend::cuda && shared > plain)
        out.push_back(
            {Weight::hint,
             format_text(
                 "%llu bytes of shared memory per block are more than the %llu of every device: a launch "
                 "has to opt in, which Kiln does",
                 static_cast<unsigned long long>(shared), static_cast<unsigned long long>(plain)),
             {}});
}

}  // namespace

void advise_on_occupancy(const AdviceContext& context, std::vector<Advice>& out) {
    advise_on_resources(context, out);
    advise_on_grid(context, out);
    advise_on_limits(context, out);
}

}  // namespace kiln
