// SPDX-License-Identifier: Apache-2.0
//
// Devices that tuned shards of the same work are combined.
#include "cli/tune_report.h"

#include <algorithm>
#include <map>

#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kFailuresShown = 5;

/// A shape over all devices.
struct Merged {
    Sizes sizes;
    std::vector<WisdomEntry> best;
    std::vector<std::string> left_out;
    std::uint64_t legal = 0, fitting = 0, timed = 0, resumed = 0;
    std::vector<TuneFailure> failures;
    std::optional<double> default_ms;
    double seconds = 0;
};

std::vector<Merged> merged(const TuneSummary& summary) {
    std::vector<Merged> shapes;
    for (const TuneReport& report : summary.reports)
        for (std::size_t i = 0; i < report.shapes.size(); ++i) {
            if (shapes.size() <= i) shapes.resize(i + 1);
            const TunedShape& one = report.shapes[i];
            Merged& all = shapes[i];
            if (!one.sizes.empty()) all.sizes = one.sizes;
            all.best.insert(all.best.end(), one.best.begin(), one.best.end());
            all.left_out = one.left_out;
            all.legal = std::max(all.legal, one.legal);
            all.fitting += one.fitting;
            all.timed += one.timed;
            all.resumed += one.resumed;
            all.failures.insert(all.failures.end(), one.failures.begin(), one.failures.end());
            if (one.default_ms) all.default_ms = one.default_ms;
            all.seconds = std::max(all.seconds, one.seconds);
        }
    for (Merged& all : shapes) {
        Wisdom wisdom;
        wisdom.merge(all.best);
        all.best = wisdom.entries();
        std::ranges::sort(all.best, {}, &WisdomEntry::median_ms);
    }
    return shapes;
}

std::string values_text(const WisdomEntry& entry) {
    std::string text = entry.template_name;
    for (const auto& [name, value] : entry.values) text += " " + name + "=" + value.text();
    return text;
}

/// The first line of the reason.
std::string failure_text(const TuneFailure& failure) {
    return failure.variant + ": " + failure.reason.substr(0, failure.reason.find('\n'));
}

std::uint64_t wrong(const Merged& shape) {
    return static_cast<std::uint64_t>(std::ranges::count_if(shape.failures, &TuneFailure::wrong));
}

}  // namespace

bool TuneSummary::found_all() const {
    const std::vector<Merged> shapes = merged(*this);
    return !shapes.empty() &&
           std::ranges::none_of(shapes, [](const Merged& shape) { return shape.best.empty(); });
}

std::string wisdom_sizes_text(const Sizes& sizes) {
    std::string text;
    for (const auto& [name, value] : sizes)
        text += formatted("{}{}={}", text.empty() ? "" : " ", name, value);
    return text;
}

std::string nothing_text(const TunedShape& shape) {
    if (shape.failures.empty()) return "no variant was tried.";
    return formatted("{} variants were tried, and failed; the first, {}", shape.failures.size(),
                     failure_text(shape.failures.front()));
}

std::string to_text(const TuneSummary& summary) {
    std::string text;
    bool is_any_found = false;
    for (const Merged& shape : merged(summary)) {
        is_any_found = is_any_found || !shape.best.empty();
        text += wisdom_sizes_text(shape.sizes) + " on " + summary.device + " (" + summary.arch + ")\n";
        for (const WisdomEntry& entry : shape.best) {
            text += line("best", duration(entry.median_ms) + "  " + values_text(entry));
        }
        if (shape.best.empty())
            text +=
                line("best", shape.failures.empty() ? "none: no variant was tried"
                                                    : "none: no variant was found that builds and is right");
        if (shape.default_ms && !shape.best.empty())
            text += line("defaults", formatted("{}, {:.2f} times the best", duration(*shape.default_ms),
                                               *shape.default_ms / shape.best.front().median_ms));
        text += line(
            "timed",
            formatted("{} of {} variants in {}{}", shape.timed, shape.fitting, duration(shape.seconds * 1000),
                      shape.resumed == 0 ? "" : formatted(", {} of them before", shape.resumed)));
        for (const std::string& reason : shape.left_out) text += line("left out", reason);
        if (!shape.failures.empty()) {
            text += line("failed",
                         formatted("{}, {} of them with wrong results", shape.failures.size(), wrong(shape)));
            for (std::size_t i = 0; i < std::min(shape.failures.size(), kFailuresShown); ++i) {
                text += "    " + failure_text(shape.failures[i]) + "\n";
            }
            if (shape.failures.size() > kFailuresShown)
                text += formatted("    and {} more\n", shape.failures.size() - kFailuresShown);
        }
    }
    text += line("wisdom", summary.file.string() + (is_any_found ? "" : ", to which nothing was added"));
    return text;
}

Json to_json(const WisdomEntry& entry) {
    Json sizes = Json::object();
    for (const auto& [name, value] : entry.sizes) sizes[name] = value;
    Json json;
    json["template"] = entry.template_name;
    json["values"] = values_json(entry.values);
    json["problem_values"] = entry.problem_values;
    json["sizes"] = sizes;
    json["device"] = entry.device;
    json["arch"] = entry.arch;
    json["median_ms"] = entry.median_ms;
    json["tried"] = entry.tried;
    json["digest"] = entry.digest;
    json["compiler"] = entry.compiler;
    json["date"] = entry.date;
    return json;
}

Json to_json(const TuneSummary& summary) {
    Json shapes = Json::array();
    for (const Merged& shape : merged(summary)) {
        Json sizes = Json::object(), best = Json::array(), failed = Json::array();
        for (const auto& [name, value] : shape.sizes) sizes[name] = value;
        for (const WisdomEntry& entry : shape.best) best.push_back(to_json(entry));
        for (const TuneFailure& failure : shape.failures)
            failed.push_back(
                {{"variant", failure.variant}, {"wrong", failure.wrong}, {"reason", failure.reason}});
        Json json;
        json["sizes"] = sizes;
        json["best"] = best;
        json["default_ms"] = or_null(shape.default_ms);
        json["left_out"] = shape.left_out;
        json["legal"] = shape.legal;
        json["fitting"] = shape.fitting;
        json["timed"] = shape.timed;
        json["resumed"] = shape.resumed;
        json["failed"] = failed;
        json["seconds"] = shape.seconds;
        shapes.push_back(json);
    }
    double seconds = 0;
    bool stopped = false;
    for (const TuneReport& report : summary.reports) {
        seconds = std::max(seconds, report.seconds);
        stopped = stopped || report.stopped;
    }
    Json json;
    json["templates"] = summary.templates;
    json["device"] = summary.device;
    json["arch"] = summary.arch;
    json["devices"] = summary.reports.size();
    json["budget_seconds"] = summary.budget_seconds;
    json["seconds"] = seconds;
    json["interrupted"] = stopped;
    json["wisdom"] = summary.file.string();
    json["shapes"] = shapes;
    return json;
}

}  // namespace kiln::cli
