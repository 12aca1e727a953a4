// SPDX-License-Identifier: Apache-2.0
//
// The table of docs/kernels.md, from templates and baselines.
#include <kiln/error.h>
#include <kiln/tools/regress.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::string_view kResourcesOf = "sm_90a";

std::string cell_text(double value) {
    if (value >= 100 || value == 0) return formatted("{:.0f}", value);
    return value < 0.01 ? formatted("{:.1e}", value) : formatted("{:.2g}", value);
}

std::string joined(const std::set<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text.empty() ? "-" : text;
}

struct Row {
    std::set<std::string> run, compiled;  ///< backends and architectures
    std::set<std::string> variants;
    double worst = 0;
    bool has_worst = false;
    std::string resources = "-";
    std::string speed = "-";
    double best_share = -1;
};

bool is_of(const std::string& variant, const std::string& name) {
    return variant == name || variant.starts_with(name + " ");
}

std::string resources_text(const Baseline& of, std::size_t dynamic_shared_bytes) {
    const Resources& resources = of.resources;
    return formatted("{}, {}", resources.registers ? std::to_string(*resources.registers) : "?",
                     resources.static_shared_bytes.value_or(0) + dynamic_shared_bytes);
}

std::string speed_text(const Speed& speed, bool is_older) {
    std::string text = speed.times_naive ? cell_text(*speed.times_naive) + " x naive" : "";
    if (speed.share)
        text += formatted("{}{:.0f}% of {}", text.empty() ? "" : ", ", *speed.share * 100, speed.ceiling);
    return text + (is_older ? " (older source)" : "");
}

/// The values of a variant's text that the template still has.
Values values_of(const Template& of, const std::string& variant) {
    Values values;
    std::istringstream words(variant);
    for (std::string word; words >> word;) {
        const std::size_t equals = std::min(word.find('='), word.size());
        const Parameter* const parameter = of.parameter(word.substr(0, equals));
        if (parameter == nullptr) continue;
        try {
            values.emplace(parameter->name, parameter->parse(word.substr(equals + 1)));
        } catch (const VariantError&) {
            // Of an older version of the template.
        }
    }
    return values;
}

/// "PAD=1 BM=64": what a variant changes of the defaults; empty: nothing.
std::string changes(const Template& of, const std::string& variant) {
    const Values values = values_of(of, variant);
    std::string text;
    for (const Parameter& parameter : of.parameters()) {
        const auto chosen = values.find(parameter.name);
        if (chosen != values.end() && chosen->second != of.default_of(parameter.name, values))
            text += (text.empty() ? "" : " ") + parameter.name + "=" + chosen->second.text();
    }
    return text;
}

void add(Row& row, const Template& of, const ManifestTarget& target, const Baselines& baselines) {
    for (const auto& [variant, baseline] : baselines.variants) {
        if (!is_of(variant, of.name())) continue;
        const bool was_run = baseline.worst || !baseline.integer_result.empty() || !baseline.speeds.empty();
        (was_run ? row.run : row.compiled).insert(std::string(name(target.backend)) + " " + target.arch);
        row.variants.insert(variant);
        if (baseline.worst) {
            row.worst = std::max(row.worst, *baseline.worst);
            row.has_worst = true;
        }
        for (const auto& [device, speed] : baseline.speeds) {
            if (!speed.share && !speed.times_naive) continue;
            if (speed.share.value_or(0) <= row.best_share) continue;
            row.best_share = speed.share.value_or(0);
            const std::string what = changes(of, variant);
            row.speed = speed_text(speed, speed.ingredients != baseline.ingredients) + ", " + device +
                        (what.empty() ? "" : " (`" + what + "`)");
        }
        if (target.backend == Backend::cuda && target.arch == kResourcesOf && changes(of, variant).empty()) {
            try {
                row.resources = resources_text(baseline, of.variant().dynamic_shared_bytes());
            } catch (const std::exception&) {
                // The defaults of today's template are not legal without a device.
            }
        }
    }
}

std::string row_text(const Template& of, Row row) {
    for (const std::string& target : row.run) row.compiled.erase(target);
    return formatted("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", of.name(), of.summary(),
                     joined(row.run), joined(row.compiled), row.variants.size(),
                     row.has_worst ? cell_text(row.worst) : "-", row.resources, row.speed);
}

}  // namespace

inline namespace KILN_ABI {

std::string kernels_page(const Service& service, const std::filesystem::path& directory) {
    std::string text =
        "| template | what it is | run on | compiled only | variants | worst error / bound | registers, "
        "shared "
        "bytes (sm_90a) | best throughput |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n";
    const std::vector<ManifestTarget> targets = RegressOptions::default_targets();
    std::vector<Baselines> baselines;
    for (const ManifestTarget& target : targets) baselines.push_back(Baselines::load(directory, target));
    for (const Template& of : service.templates()) {
        if (of.is_reference()) continue;
        Row row;
        for (std::size_t i = 0; i < targets.size(); ++i) add(row, of, targets[i], baselines[i]);
        text += row_text(of, std::move(row));
    }
    return text;
}

}  // namespace KILN_ABI
}  // namespace kiln
