// SPDX-License-Identifier: Apache-2.0
//
// The report of kiln profile.
#include "cli/profile_report.h"

#include <algorithm>
#include <cmath>

#include "cli/option_values.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

std::string percent_text(double share) { return formatted("{:.1f}%", share * 100); }

std::string number_text(double value) {
    return value == std::round(value) && std::abs(value) < 1e15 ? formatted("{:.0f}", value)
                                                                : formatted("{:.4g}", value);
}

std::string figure_text(const ComparedFigure& figure, const std::optional<double>& value) {
    if (!value) return "-";
    return figure.is_share ? percent_text(*value) : number_text(*value);
}

/// The deviation of the measured value from the predicted one.
std::string difference_text(const ComparedFigure& figure) {
    if (!figure.predicted || !figure.measured) return {};
    if (figure.is_bound) return *figure.measured <= *figure.predicted + 0.005 ? "below it" : "above it";
    if (figure.is_share) {
        const double points = (*figure.measured - *figure.predicted) * 100;
        return std::abs(points) < 0.05 ? "equal" : formatted("{:+.1f} points", points);
    }
    if (figure.name == "time in ms") {
        return *figure.predicted > 0
                   ? formatted("{:.3g} times the lower bound", *figure.measured / *figure.predicted)
                   : std::string();
    }
    if (std::abs(*figure.measured - *figure.predicted) < 0.5) return "equal";
    return *figure.predicted == 0 ? formatted("{:+.0f}", *figure.measured)
                                  : formatted("{:+.2f}%", (*figure.measured / *figure.predicted - 1) * 100);
}

std::string figures_text(const ProfileReport& report) {
    std::vector<std::vector<std::string>> rows = {{"", "predicted", "measured", ""}};
    for (const ComparedFigure& figure : report.figures())
        rows.push_back(
            {figure.name,
             (figure.is_bound && figure.predicted ? "at most " : "") + figure_text(figure, figure.predicted),
             figure_text(figure, figure.measured), difference_text(figure)});
    return table(rows, {1, 2});
}

std::string thresholds_text(const ProfileReport& report, const Terminal& terminal) {
    std::vector<std::vector<std::string>> rows = {{"threshold", "wanted", "found", ""}};
    for (const ThresholdCheck& check : report.thresholds())
        rows.push_back({check.name, check.wanted, check.found,
                        !check.met ? "does not apply" : (*check.met ? "met" : "MISSED")});
    return table(rows) + "  " +
           terminal.painted(report.pass() ? Colour::green : Colour::red, report.pass() ? "PASS" : "FAIL") +
           "\n";
}

std::string recorded_text(const Analysis& analysis) {
    if (!analysis.recording) return "nothing: see the advice of 'kiln analyze'";
    const Recording& recording = *analysis.recording;
    std::string text = recording.blocks_recorded == recording.blocks
                           ? formatted("all {} blocks", recording.blocks)
                           : formatted("{} of {} blocks{}", recording.blocks_recorded, recording.blocks,
                                       analysis.not_scaled.empty() ? ", scaled" : "");
    if (!analysis.recorded_sizes.empty() && analysis.recorded_sizes != analysis.problem.sizes) {
        text += ", at";
        for (const auto& [size, value] : analysis.recorded_sizes) text += formatted(" {}={}", size, value);
    }
    return text;
}

}  // namespace

std::optional<double> ProfileReport::times_naive() const {
    if (!time || !naive_time || !(time->median_ms > 0)) return std::nullopt;
    return naive_time->median_ms / time->median_ms;
}

std::vector<ComparedFigure> ProfileReport::figures() const {
    return compare_with_measured(analysis, measured, time ? std::optional(time->median_ms) : std::nullopt);
}

std::vector<ThresholdCheck> ProfileReport::thresholds() const {
    return check_thresholds(analysis, measured, times_naive());
}

bool ProfileReport::pass() const {
    return std::ranges::none_of(thresholds(), [](const ThresholdCheck& check) { return check.met == false; });
}

std::string to_text(const ProfileReport& report, const Terminal& terminal) {
    std::string text = report.analysis.variant + "\n\n", sizes;
    for (const auto& [size, value] : report.analysis.problem.sizes)
        sizes += formatted("{}{}={}", sizes.empty() ? "" : " ", size, value);
    text += line("sizes", sizes.empty() ? "no sizes" : sizes);
    const std::string chip = report.device.empty() ? report.analysis.chip_name : report.device;
    text += line("device", (chip.empty() ? "not known" : chip) + " (" + std::string(name(report.backend)) +
                               ", " + report.analysis.arch + ")");
    text +=
        line("measured", report.tool ? std::string(name(*report.tool)) +
                                           (report.tool_version.empty() ? "" : " " + report.tool_version) +
                                           ", " + report.source
                                     : "read from " + report.source);
    text += line("recorded", recorded_text(report.analysis));
    if (report.time) text += line("time", time_text(*report.time));
    if (const auto times = report.times_naive())
        text += line("naive", formatted("{}: median {}, {:.4g} times as long", report.naive,
                                        duration(report.naive_time->median_ms), *times));
    for (const std::string& note : report.notes) text += line("note", note);
    return text + "\n" + figures_text(report) + "\n" + thresholds_text(report, terminal);
}

Json to_json(const ProfileReport& report) {
    Json sizes = Json::object(), figures = Json::array(), thresholds = Json::array();
    for (const auto& [size, value] : report.analysis.problem.sizes) sizes[size] = value;
    for (const ComparedFigure& figure : report.figures()) {
        const std::size_t begin = figure.name.find_first_not_of(' ');
        figures.push_back({{"name", figure.name.substr(begin)},
                           {"predicted", or_null(figure.predicted)},
                           {"measured", or_null(figure.measured)},
                           {"bound", figure.is_bound}});
    }
    for (const ThresholdCheck& check : report.thresholds())
        thresholds.push_back({{"name", check.name},
                              {"wanted", check.wanted},
                              {"found", check.found},
                              {"met", or_null(check.met)}});
    const auto& recording = report.analysis.recording;
    Json json;
    json["template"] = report.template_name;
    json["values"] = values_json(report.values);
    json["backend"] = name(report.backend);
    json["device"] = report.device.empty() ? Json() : Json(report.device);
    json["arch"] = report.analysis.arch;
    json["sizes"] = sizes;
    json["tool"] = report.tool ? Json(name(*report.tool)) : Json();
    json["tool_version"] = report.tool_version.empty() ? Json() : Json(report.tool_version);
    json["source"] = report.source;
    json["blocks"] = recording ? Json(recording->blocks) : Json();
    json["blocks_recorded"] = recording ? Json(recording->blocks_recorded) : Json();
    json["time_ms"] = time_json(report.time);
    json["naive"] = Json();
    if (!report.naive.empty())
        json["naive"] = {{"variant", report.naive},
                         {"time_ms", time_json(report.naive_time)},
                         {"times", or_null(report.times_naive())}};
    json["figures"] = figures;
    json["thresholds"] = thresholds;
    json["notes"] = report.notes;
    json["pass"] = report.pass();
    return json;
}

}  // namespace kiln::cli
