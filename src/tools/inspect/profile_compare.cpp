// SPDX-License-Identifier: Apache-2.0
//
// Compares an analysis with measurements, and checks thresholds.
#include <kiln/tools/profile.h>

#include <algorithm>

#include "format/format.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

std::string times(double factor) { return formatted("{:.3g} times", factor); }

// Tolerance for a threshold that is met exactly, since values were divided.
constexpr double kRounding = 1e-9;

template <class T>
std::optional<double> widened(const std::optional<T>& value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

ThresholdCheck check(std::string name, std::string wanted, const std::optional<double>& found, bool met,
                     const std::string& shown, const std::string& why_not) {
    if (!found) return {std::move(name), std::move(wanted), why_not, std::nullopt};
    return {std::move(name), std::move(wanted), shown, met};
}

}  // namespace

std::optional<double> Measured::excess() const {
    if (shared_wavefronts && shared_ideal && *shared_ideal > 0) return *shared_wavefronts / *shared_ideal - 1;
    if (lds_cycles && lds_conflict_cycles && *lds_cycles > *lds_conflict_cycles)
        return *lds_conflict_cycles / (*lds_cycles - *lds_conflict_cycles);
    return std::nullopt;
}

std::optional<int> Measured::blocks() const {
    if (!blocks_by_threads || !blocks_by_registers || !blocks_by_shared || !blocks_by_blocks)
        return std::nullopt;
    return std::min({*blocks_by_threads, *blocks_by_registers, *blocks_by_shared, *blocks_by_blocks});
}

inline namespace KILN_ABI {

std::vector<ComparedFigure> compare_with_measured(const Analysis& analysis, const Measured& measured,
                                                  std::optional<double> median_ms) {
    std::vector<ComparedFigure> figures;
    const auto add = [&](std::string name, std::optional<double> predicted, std::optional<double> found,
                         bool is_share = false, bool is_bound = false) {
        if (predicted || found) figures.push_back({std::move(name), predicted, found, is_share, is_bound});
    };
    using Figure = std::optional<double>;
    const bool recorded = analysis.recording.has_value();
    const bool scaled = recorded && analysis.not_scaled.empty();
    add("shared wavefronts", scaled ? Figure(analysis.shared_wavefronts) : Figure(),
        measured.shared_wavefronts);
    add("shared ideal", scaled ? Figure(analysis.shared_ideal) : Figure(), measured.shared_ideal);
    add("shared excess", recorded && analysis.shared_ideal > 0 ? Figure(analysis.excess()) : Figure(),
        measured.excess(), true);
    add("global sectors", scaled ? Figure(analysis.global_sectors) : Figure(), measured.global_sectors);
    add("global ideal", scaled ? Figure(analysis.global_ideal) : Figure(), measured.global_ideal);
    add("LDS cycles", {}, measured.lds_cycles);
    add("LDS conflict cycles", {}, measured.lds_conflict_cycles);
    const bool has_waves = analysis.waves && analysis.waves->mean_occupancy > 0;
    add("warps active", has_waves ? Figure(analysis.waves->mean_occupancy) : Figure(), measured.warps_active,
        true, true);
    add("registers", widened(analysis.resources.registers), widened(measured.registers));
    add("shared bytes", static_cast<double>(analysis.static_shared_bytes + analysis.dynamic_shared_bytes),
        widened(measured.shared_bytes));
    const auto& occupancy = analysis.occupancy;
    const auto limit = [&](int Occupancy::*member) {
        return occupancy ? Figure((*occupancy).*member) : Figure();
    };
    add("blocks per SM", limit(&Occupancy::blocks), widened(measured.blocks()));
    add("  by threads", limit(&Occupancy::by_threads), widened(measured.blocks_by_threads));
    add("  by registers", limit(&Occupancy::by_registers), widened(measured.blocks_by_registers));
    // The profiler's value is for the shared-memory carve-out that the driver chose for this launch.
    add("  by shared memory", limit(&Occupancy::by_shared), widened(measured.blocks_by_shared), false, true);
    add("  by blocks", limit(&Occupancy::by_blocks), widened(measured.blocks_by_blocks));
    add("time in ms", analysis.roofline ? Figure(analysis.roofline->floor_ms) : Figure(), median_ms);
    return figures;
}

std::vector<ThresholdCheck> check_thresholds(const Analysis& analysis, const Measured& measured,
                                             std::optional<double> times_naive,
                                             const Thresholds& thresholds) {
    const std::optional<double> excess = measured.excess();
    const bool uses_shared = measured.shared_ideal.value_or(1) > 0 && measured.lds_cycles.value_or(1) > 0;
    std::vector<ThresholdCheck> checks;
    checks.push_back(
        check("excess wavefronts", "at most " + percent(thresholds.most_excess) + " of the ideal", excess,
              excess.value_or(0) <= thresholds.most_excess + kRounding, percent(excess.value_or(0)),
              uses_shared ? "not measured" : "no shared memory is accessed"));

    const std::optional<double> active = measured.warps_active;
    std::string wanted = percent(thresholds.fewest_warps_active) + " or more";
    if (!analysis.waves)
        checks.push_back({"warps active", wanted, "how many waves the problem has is not known", {}});
    else if (analysis.waves->waves < 1)
        checks.push_back({"warps active", wanted, "the problem does not fill the chip", {}});
    else
        checks.push_back(check("warps active", wanted, active,
                               active.value_or(0) >= thresholds.fewest_warps_active - kRounding,
                               percent(active.value_or(0)), "not measured"));

    checks.push_back(check("speed against naive", times(thresholds.least_times_naive) + " or more",
                           times_naive, times_naive.value_or(0) >= thresholds.least_times_naive - kRounding,
                           times(times_naive.value_or(0)), "not timed, or none is declared"));
    return checks;
}

}  // namespace KILN_ABI
}  // namespace kiln
