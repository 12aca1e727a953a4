// SPDX-License-Identifier: Apache-2.0
//
// An analysis as JSON; docs/json.md names the fields.
#include "cli/kiln_analyze.h"

namespace kiln::cli {
namespace {

Json dim_json(const Dim3& dim) { return Json::array({dim.x, dim.y, dim.z}); }

Json sizes_json(const Sizes& sizes) {
    Json json = Json::object();
    for (const auto& [size, value] : sizes) json[size] = value;
    return json;
}

Json cost_json(const WidthCost& cost) {
    return {{"bytes", cost.bytes},
            {"requests", cost.requests},
            {"wavefronts", cost.wavefronts},
            {"ideal", cost.ideal},
            {"degree", cost.degree}};
}

Json place_json(const SourcePlace& place) {
    return {{"file", place.file},
            {"line", place.line},
            {"inner", place.inner.empty() ? Json() : Json(place.inner)}};
}

Json shared_json(const SharedLine& line) {
    Json json = place_json(line.site.place);
    json["access"] = name(line.site.kind);
    json["variable"] = line.site.variable;
    json["as_written"] = cost_json(line.site.as_written);
    json["merged"] = cost_json(line.site.merged);
    json["believed"] = cost_json(line.believed);
    json["belief"] = line.belief;
    json["misaligned"] = line.site.misaligned;
    return json;
}

Json global_json(const GlobalSite& site) {
    Json json = place_json(site.place);
    json["access"] = name(site.kind);
    json["bytes"] = site.bytes;
    json["requests"] = site.requests;
    json["sectors"] = site.sectors;
    json["ideal"] = site.ideal;
    json["merged_requests"] = site.merged_requests;
    json["merged_sectors"] = site.merged_sectors;
    json["merged_ideal"] = site.merged_ideal;
    json["misaligned"] = site.misaligned;
    return json;
}

Json recorded_json(const Analysis& analysis) {
    if (!analysis.recording) return {};
    const Recording& recording = *analysis.recording;
    Json shared = Json::array(), global = Json::array();
    for (const SharedLine& line : analysis.shared) shared.push_back(shared_json(line));
    for (const GlobalSite& site : recording.global) global.push_back(global_json(site));
    return {{"sizes", sizes_json(analysis.recorded_sizes)},
            {"blocks", recording.blocks},
            {"blocks_recorded", recording.blocks_recorded},
            {"elapsed_ms", recording.elapsed_ms},
            {"not_scaled", text_or_null(analysis.not_scaled)},
            {"shared", shared},
            {"global", global}};
}

Json occupancy_json(const std::optional<Occupancy>& found) {
    if (!found) return {};
    Json binding = Json::array();
    for (const OccupancyLimit limit : found->binding) binding.push_back(name(limit));
    return {{"blocks", found->blocks},
            {"by_threads", found->by_threads},
            {"by_registers", found->by_registers},
            {"by_shared", found->by_shared},
            {"by_blocks", found->by_blocks},
            {"binding", binding},
            {"warps", found->warps},
            {"most_warps", found->most_warps},
            {"fraction", found->fraction()},
            {"registers_for_one_more", or_null(found->registers_for_one_more)}};
}

Json waves_json(const std::optional<Waves>& found) {
    if (!found) return {};
    return {{"blocks", found->blocks},
            {"blocks_at_once", found->blocks_at_once},
            {"waves", found->waves},
            {"efficiency", found->efficiency},
            {"mean_occupancy", found->mean_occupancy}};
}

Json roofline_json(const std::optional<Roofline>& found) {
    if (!found) return {};
    return {{"unit", name(found->unit)},
            {"intensity", found->intensity},
            {"ridge", found->ridge},
            {"floor_ms", found->floor_ms},
            {"compute_ms", found->compute_ms},
            {"memory_ms", found->memory_ms},
            {"memory_bound", found->memory_bound},
            {"attainable_tflops", found->attainable_tflops}};
}

std::string_view name_of(Advice::Weight weight) {
    return weight == Advice::Weight::warning ? "warning" : weight == Advice::Weight::hint ? "hint" : "good";
}

}  // namespace

Json to_json(const Analysis& analysis, const Variant& variant, const Target& target) {
    const Resources& resources = analysis.resources;
    Json compiled = Json::array(), advice = Json::array();
    for (const CompiledAccess& access : analysis.compiled)
        compiled.push_back({{"line", access.line},
                            {"instruction", access.instruction},
                            {"count", access.count},
                            {"bytes", access.bytes},
                            {"inner", access.inner.empty() ? Json() : Json(access.inner)}});
    for (const Advice& one : analysis.advice)
        advice.push_back({{"weight", name_of(one.weight)},
                          {"text", one.text},
                          {"change", one.change.empty() ? Json() : Json(one.change)}});
    const bool recorded = analysis.recording.has_value();
    const auto if_recorded = [&](double value) { return recorded ? Json(value) : Json(); };
    Json json;
    json["template"] = variant.template_name();
    json["values"] = values_json(variant.values());
    json["backend"] = name(target.backend);
    json["arch"] = analysis.arch;
    json["chip"] = analysis.chip_name.empty() ? Json() : Json(analysis.chip_name);
    json["multiprocessors"] = analysis.multiprocessors == 0 ? Json() : Json(analysis.multiprocessors);
    json["sizes"] = sizes_json(analysis.problem.sizes);
    json["grid"] = analysis.grid.count() == 0 ? Json() : dim_json(analysis.grid);
    json["block"] = dim_json(analysis.block);
    json["cluster"] = dim_json(analysis.cluster);
    json["flops"] = analysis.problem.flops;
    json["bytes"] = analysis.problem.bytes;
    json["registers"] = or_null(resources.registers);
    json["spill_bytes"] = or_null(resources.spill_bytes);
    json["stack_bytes"] = or_null(resources.stack_bytes);
    json["static_shared_bytes"] = analysis.static_shared_bytes;
    json["dynamic_shared_bytes"] = analysis.dynamic_shared_bytes;
    json["shared_bytes_per_block"] = analysis.limits.shared_bytes_per_block;
    json["shared_bytes_per_block_optin"] = analysis.limits.shared_bytes_per_block_optin;
    json["occupancy"] = occupancy_json(analysis.occupancy);
    json["waves"] = waves_json(analysis.waves);
    json["roofline"] = roofline_json(analysis.roofline);
    json["tile_intensity"] = or_null(analysis.tile_intensity);
    json["traffic"] = {{"bytes_at_least", analysis.traffic.bytes_at_least},
                       {"tiled_bytes", or_null(analysis.traffic.tiled_bytes)},
                       {"naive_bytes", or_null(analysis.traffic.naive_bytes)}};
    const auto if_scaled = [&](double value) {
        return analysis.not_scaled.empty() ? if_recorded(value) : Json();
    };
    json["shared_wavefronts"] = if_scaled(analysis.shared_wavefronts);
    json["shared_ideal"] = if_scaled(analysis.shared_ideal);
    json["excess"] = if_recorded(analysis.excess());
    json["global_sectors"] = if_scaled(analysis.global_sectors);
    json["global_ideal"] = if_scaled(analysis.global_ideal);
    json["recorded"] = recorded_json(analysis);
    json["compiled"] = compiled;
    json["advice"] = advice;
    json["elapsed_ms"] = analysis.elapsed_ms;
    return json;
}

}  // namespace kiln::cli
