// SPDX-License-Identifier: Apache-2.0
//
// An analysis as a page of text.
#include <algorithm>
#include <numeric>

#include "cli/kiln_analyze.h"
#include "cli/option_values.h"
#include "cli/run_report.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kMostShared = 12, kMostGlobal = 8;

std::string_view unit_name(const Target& target) { return target.backend == Backend::hip ? "CU" : "SM"; }

std::string percent(double share) { return formatted("{:.{}f}%", 100 * share, 100 * share < 9.95 ? 1 : 0); }

/// "1,234,567"
std::string grouped(std::uint64_t number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
    return text;
}

std::string dim_text(const Dim3& dim) {
    std::string text = std::to_string(dim.x);
    if (dim.y > 1 || dim.z > 1) text += formatted(" x {}", dim.y);
    if (dim.z > 1) text += formatted(" x {}", dim.z);
    return text;
}

std::string sizes_line(const Template& of, const Sizes& sizes) {
    const std::string text = sizes_text(of, sizes);
    return text.empty() ? "no sizes" : text;
}

std::string head_text(const Analysis& analysis, const Variant& variant, const Target& target) {
    std::string chip = target.backend == Backend::host ? "the host" : analysis.arch;
    if (!analysis.chip_name.empty()) chip += ", " + analysis.chip_name;
    if (analysis.multiprocessors > 0) chip += formatted(", {} multiprocessors", analysis.multiprocessors);
    std::string text = analysis.variant + "\n\n" + line("target", chip);
    const bool has_problem = analysis.grid.count() > 0;
    text += line("problem", has_problem ? sizes_line(variant.origin(), analysis.problem.sizes) + ": " +
                                              tensors_text(analysis.problem)
                                        : "the template declares none");
    std::string launch = (has_problem ? grouped(analysis.grid.count()) + " " : "") + "blocks of " +
                         dim_text(analysis.block) + " threads";
    if (analysis.cluster.count() > 1) launch += " in clusters of " + dim_text(analysis.cluster);
    return text + line("launch", launch);
}

std::string arithmetic_text(const Analysis& analysis) {
    std::string text;
    const double flops = static_cast<double>(analysis.problem.flops);
    const Traffic& traffic = analysis.traffic;
    if (flops > 0 && traffic.bytes_at_least > 0)
        text += line("shape", formatted("{:.4g} GFLOP on {} at least: {:.4g} FLOP/byte", flops / 1e9,
                                        bytes_text(traffic.bytes_at_least), flops / traffic.bytes_at_least));
    else if (traffic.bytes_at_least > 0)
        text += line("shape", bytes_text(traffic.bytes_at_least) + " to read and write at least");
    if (analysis.tile_intensity)
        text += line("tile", formatted("{:.4g} FLOP per byte that a block loads", *analysis.tile_intensity));
    if (traffic.tiled_bytes) {
        std::string moved =
            bytes_text(*traffic.tiled_bytes) + " moved to and from global memory by all blocks";
        if (traffic.bytes_at_least > 0)
            moved += formatted(", {:.3g} times the least", *traffic.tiled_bytes / traffic.bytes_at_least);
        if (traffic.naive_bytes)
            moved += "; " + bytes_text(*traffic.naive_bytes) + " by the naive kernel" +
                     (*traffic.tiled_bytes > 0
                          ? formatted(", {:.3g} times as much", *traffic.naive_bytes / *traffic.tiled_bytes)
                          : "");
        text += line("traffic", moved);
    }
    return text.empty() ? text : "\nArithmetic and traffic\n" + text;
}

std::string resources_text(const Analysis& analysis) {
    const Resources& resources = analysis.resources;
    std::string registers = resources.registers ? formatted("{} per thread", *resources.registers)
                                                : std::string("not known of this binary");
    if (resources.accumulator_registers)
        registers += formatted(", {} of them accumulation registers", *resources.accumulator_registers);
    if (resources.spill_bytes)
        registers += *resources.spill_bytes == 0
                         ? std::string(", no spills")
                         : formatted(", {} bytes of spills per thread", *resources.spill_bytes);
    const std::size_t shared = analysis.static_shared_bytes + analysis.dynamic_shared_bytes;
    const Limits& limits = analysis.limits;
    std::string memory = grouped(shared) + " bytes per block (" + grouped(analysis.static_shared_bytes) +
                         " static, " + grouped(analysis.dynamic_shared_bytes) + " dynamic); at most " +
                         grouped(static_cast<std::uint64_t>(limits.shared_bytes_per_block));
    if (limits.shared_bytes_per_block_optin != limits.shared_bytes_per_block)
        memory +=
            ", " + grouped(static_cast<std::uint64_t>(limits.shared_bytes_per_block_optin)) + " by opting in";
    return "\nResources\n" + line("shared", memory) + line("registers", registers);
}

std::string occupancy_text(const Analysis& analysis, const Target& target) {
    if (!analysis.occupancy) return {};
    const Occupancy& found = *analysis.occupancy;
    std::vector<std::string> binding;
    for (const OccupancyLimit limit : found.binding) binding.emplace_back(name(limit));
    const auto limited = [](int blocks) {
        return blocks == std::numeric_limits<int>::max() ? std::string("any") : std::to_string(blocks);
    };
    std::string text = "\nOccupancy\n";
    text += line(
        "blocks",
        formatted("{} per {}: {} by threads, {} by registers, {} by shared memory, {} by blocks; {}{}",
                  found.blocks, unit_name(target), limited(found.by_threads), limited(found.by_registers),
                  limited(found.by_shared), limited(found.by_blocks), enumerate(binding, " and "),
                  binding == std::vector<std::string>{"shared memory"} ? " binds" : " bind"));
    text +=
        line("warps", formatted("{} of {}, {}{}", found.warps, found.most_warps, percent(found.fraction()),
                                found.registers_for_one_more ? formatted("; one more block with {} registers",
                                                                         *found.registers_for_one_more)
                                                             : ""));
    if (const auto& waves = analysis.waves)
        text += line(
            "waves",
            formatted("{:.3g} of {} blocks; {} of the block slots in use, {} of the warps active on average",
                      waves->waves, grouped(waves->blocks_at_once), percent(waves->efficiency),
                      percent(waves->mean_occupancy)));
    return text;
}

std::string roofline_text(const Analysis& analysis) {
    if (!analysis.roofline || analysis.chip == nullptr) return {};
    const Roofline& roof = *analysis.roofline;
    return "\nRoofline\n" +
           line("position", formatted("{:.4g} FLOP/byte, ridge at {:.4g}: {}", roof.intensity, roof.ridge,
                                      roof.memory_bound ? "bound by memory" : "bound by arithmetic")) +
           line("bound",
                formatted("{}; {} at {:.4g} TFLOP/s {}, memory at {:.4g} GB/s {}", duration(roof.floor_ms),
                          name(roof.unit), analysis.chip->tflops(roof.unit).value_or(0),
                          duration(roof.compute_ms), analysis.chip->memory_gbps, duration(roof.memory_ms)));
}

/// The positions of the `most` rows of the greatest cost, in their own order.
std::vector<std::size_t> dearest(const std::vector<std::uint64_t>& costs, std::size_t most) {
    std::vector<std::size_t> rows(costs.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    if (rows.size() <= most) return rows;
    std::ranges::stable_sort(rows, [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
    rows.resize(most);
    std::ranges::sort(rows);
    return rows;
}

std::string left_out(std::size_t count, const char* what) {
    return count == 0 ? std::string() : formatted("  and {} more {} that cost less\n", count, what);
}

/// Short enough for a column: "LDS.128".
std::string belief_text(const std::string& belief) {
    return belief.substr(0, belief.find(" in the compiled code"));
}

std::string place_text(const SourcePlace& place) {
    return formatted("{}{}", place.line, place.inner.empty() ? "" : " (" + place.inner + ")");
}

/// "2 B: 4096 (4096)"
std::string cost_text(const WidthCost& cost) {
    return formatted("{} B: {} ({})", cost.bytes, grouped(cost.wavefronts), grouped(cost.ideal));
}

std::string shared_text(const Analysis& analysis) {
    std::string text = "\nShared memory: ";
    if (analysis.shared.empty()) return text + "no accesses\n";
    text += formatted("{:.4g} wavefronts in all, {:.4g} without conflicts: {}\n", analysis.shared_wavefronts,
                      analysis.shared_ideal,
                      analysis.excess() > 0 ? (percent(analysis.excess()) + " excess").c_str() : "no excess");
    std::vector<std::uint64_t> costs;
    for (const SharedLine& shared : analysis.shared) costs.push_back(shared.believed.wavefronts);
    std::vector<std::vector<std::string>> rows = {{"line", "access", "of", "bytes", "wavefronts", "ideal",
                                                   "degree", "as written (ideal)", "merged (ideal)",
                                                   "known by"}};
    for (const std::size_t i : dearest(costs, kMostShared)) {
        const SharedLine& shared = analysis.shared[i];
        const WidthCost& cost = shared.believed;
        rows.push_back({place_text(shared.site.place), std::string(name(shared.site.kind)),
                        shared.site.variable, std::to_string(cost.bytes), grouped(cost.wavefronts),
                        grouped(cost.ideal), std::to_string(cost.degree), cost_text(shared.site.as_written),
                        cost_text(shared.site.merged), belief_text(shared.belief)});
    }
    text += table(rows, {0, 3, 4, 5, 6});
    return text + left_out(analysis.shared.size() - (rows.size() - 1), "accesses");
}

std::string global_text(const Analysis& analysis, const Variant& variant) {
    const auto& sites = analysis.recording->global;
    std::string text = "\nGlobal memory: ";
    if (!variant.origin().tensor_maps().empty()) text += "without copies by tensor maps, ";
    if (sites.empty()) return text + "no accesses\n";
    text += formatted("{:.4g} sectors of 32 bytes in all, {:.4g} at least\n", analysis.global_sectors,
                      analysis.global_ideal);
    std::vector<std::uint64_t> costs;
    for (const GlobalSite& site : sites) costs.push_back(site.sectors);
    std::vector<std::vector<std::string>> rows = {
        {"line", "access", "bytes", "requests", "sectors", "ideal", "times", "merged: sectors (ideal)"}};
    for (const std::size_t i : dearest(costs, kMostGlobal)) {
        const GlobalSite& site = sites[i];
        rows.push_back({place_text(site.place), std::string(name(site.kind)), std::to_string(site.bytes),
                        grouped(site.requests), grouped(site.sectors), grouped(site.ideal),
                        formatted("{:.3g}", static_cast<double>(site.sectors) /
                                                static_cast<double>(std::max<std::uint64_t>(site.ideal, 1))),
                        grouped(site.merged_sectors) + " (" + grouped(site.merged_ideal) + ")"});
    }
    return text + table(rows, {0, 2, 3, 4, 5, 6}) + left_out(sites.size() - (rows.size() - 1), "accesses");
}

std::string recorded_text(const Analysis& analysis, const Variant& variant) {
    const Recording& recording = *analysis.recording;
    const bool same = analysis.recorded_sizes == analysis.problem.sizes;
    return "\nRecorded on the host: " + grouped(recording.blocks_recorded) + " of " +
           grouped(recording.blocks) + " blocks" +
           (same ? "" : " at " + sizes_line(variant.origin(), analysis.recorded_sizes)) +
           "; the rows below count those, sums are of the whole launch" +
           (analysis.not_scaled.empty() ? ".\n" : " at these sizes.\n");
}

std::string advice_text(const Analysis& analysis, const Terminal& terminal) {
    if (analysis.advice.empty()) return {};
    std::string text = "\nAdvice\n";
    for (const Advice& one : analysis.advice) {
        const bool warning = one.weight == Advice::Weight::warning, good = one.weight == Advice::Weight::good;
        text += "  " +
                terminal.painted(warning ? Colour::red
                                 : good  ? Colour::green
                                         : Colour::none,
                                 warning ? "!"
                                 : good  ? "+"
                                         : "-") +
                " " + wrapped(one.text, 4, terminal.output_columns()) + "\n";
    }
    return text;
}

}  // namespace

std::string to_text(const Analysis& analysis, const Variant& variant, const Target& target,
                    const Terminal& terminal) {
    std::string text = head_text(analysis, variant, target) + arithmetic_text(analysis) +
                       resources_text(analysis) + occupancy_text(analysis, target) + roofline_text(analysis);
    if (analysis.recording)
        text += recorded_text(analysis, variant) + shared_text(analysis) + global_text(analysis, variant);
    return text + advice_text(analysis, terminal);
}

}  // namespace kiln::cli
