// SPDX-License-Identifier: Apache-2.0
//
// The report of a run as text and as JSON. Lists are in report_lists.cpp.
#include "cli/report.h"

#include <cmath>

#include "cli/figures.h"
#include "cli/json.h"
#include "cli/tune_report.h"
#include "cli/words.h"

namespace kiln::cli {
namespace {

std::string build_text(const Report& report) {
    std::string text = origin_text(report.cache, report.build_ms);
    if (report.load_ms) text += ", loaded in " + duration(*report.load_ms);
    return text;
}

std::string memory_text(const Report& report) {
    std::string text = format("%zu shared bytes per block", report.shared_bytes);
    if (report.registers) text += format(", %d registers per thread", *report.registers);
    if (report.blocks_per_sm)
        text += format(", %d blocks per multiprocessor at a time", *report.blocks_per_sm);
    return text;
}

std::string speed_text(const Report& report) {
    std::string text;
    if (const auto gflops = report.gflops())
        text = flops_text(*gflops) + " (" + report.flops_formula + " / median), ";
    if (const auto gbps = report.gbps())
        text += format("%.4g GB/s", *gbps) + " (" + report.bytes_formula + " / median)";
    return text;
}

std::string verdict_text(const Report& report, const Terminal& terminal) {
    if (!report.checked)
        return line(report.device ? "NOT CHECKED" : "NOT RUN",
                    report.device ? "--verify none" : "compiled only");
    const Checked& checked = *report.checked;
    return line("error", format("at most %.3g; at most %.3g of what rounding allows", checked.max_abs_error,
                                checked.max_error_over_bound)) +
           "  " +
           terminal.painted(checked.pass() ? Colour::green : Colour::red, checked.pass() ? "PASS" : "FAIL") +
           "       " + checked.how + " against an FP64 reference" +
           (checked.exact ? ", and integers exactly\n" : "\n");
}

std::string failure_of(const Verdict& verdict) {
    if (verdict.pass()) return {};
    std::string text = "wrong result:";
    if (verdict.wrong > 0) {
        const Verdict::Wrong& first = *verdict.first_wrong;
        text += format(
            " %llu of %llu compared elements are off, the first at row %lld, column %lld: %.9g, "
            "expected %.9g within %.3g.",
            static_cast<unsigned long long>(verdict.wrong), static_cast<unsigned long long>(verdict.checked),
            static_cast<long long>(first.row), static_cast<long long>(first.column), double(first.found),
            first.expected, first.bound);
        if (!std::isfinite(first.found))
            text += " C holds NaN before the launch, so an element that was never written reads like this.";
    }
    if (verdict.not_finite > 0)
        text += format(" %llu elements of C are NaN or infinite; C holds NaN before the launch.",
                       static_cast<unsigned long long>(verdict.not_finite));
    if (verdict.wrong_rows > 0)
        text += format(" %llu rows fail the test over the whole (Freivalds).",
                       static_cast<unsigned long long>(verdict.wrong_rows));
    return text;
}

Json choice_json(const std::optional<Choice>& choice) {
    if (!choice) return {};
    Json json;
    json["origin"] = name(choice->origin);
    json["text"] = choice->text();
    json["stale"] = choice->stale;
    json["wisdom"] = choice->entry ? to_json(*choice->entry) : Json();
    return json;
}

}  // namespace

std::optional<double> Report::gflops() const {
    if (!time || !(time->median_ms > 0) || !(flops > 0)) return std::nullopt;
    return flops / time->median_ms / 1e6;
}

std::optional<double> Report::gbps() const {
    if (!time || !(time->median_ms > 0) || !(bytes > 0)) return std::nullopt;
    return bytes / time->median_ms / 1e6;
}

Checked checked(const Verdict& verdict, Verify how) {
    const auto elements = static_cast<unsigned long long>(verdict.checked);
    return {verdict.max_abs_error, verdict.max_error_over_bound,
            how == Verify::full ? format("all %llu elements", elements)
                                : format("%llu elements and the sums of all rows", elements),
            failure_of(verdict), false};
}

void Checked::add_exact(const Verdict& verdict) {
    exact = verdict.pass();
    if (exact) return;
    max_abs_error = std::max(max_abs_error, verdict.max_abs_error);
    max_error_over_bound = std::max(max_error_over_bound, verdict.max_error_over_bound);
    failure = "with integers, whose sums have no rounding error: " + failure_of(verdict);
}

std::string to_text(const Report& report, const Terminal& terminal) {
    std::string text = report.kernel + "  " + report.variant_text + "\n\n";
    if (report.choice) text += line("chosen", report.choice->text());
    text += line("problem", report.problem);
    text += line("device", report.device.value_or("none, compiled only") + " (" +
                               std::string(name(report.backend)) + ", " + report.arch + ")");
    text += line("build", build_text(report));
    text += line("key", report.key);
    text += line("resources", memory_text(report));
    if (report.time) text += line("time", time_text(*report.time));
    if (const std::string speed = speed_text(report); !speed.empty()) text += line("speed", speed);
    return text + verdict_text(report, terminal);
}

std::string to_json(const Report& report) {
    Json json;
    json["kernel"] = report.kernel;
    json["variant"] = values_json(report.variant);
    json["choice"] = choice_json(report.choice);
    json["dtype"] = report.dtype;
    json["backend"] = name(report.backend);
    json["device"] = or_null(report.device);
    json["arch"] = report.arch;
    json["shape"] = {{"m", report.shape.m}, {"n", report.shape.n}, {"k", report.shape.k}};
    json["cache"] = name(report.cache);
    json["key"] = report.key;
    json["build_ms"] = report.build_ms;
    json["load_ms"] = or_null(report.load_ms);
    json["time_ms"] = time_json(report.time);
    json["gflops"] = or_null(report.gflops());
    json["gbps"] = or_null(report.gbps());
    json["shared_bytes"] = report.shared_bytes;
    json["registers"] = or_null(report.registers);
    json["blocks_per_sm"] = or_null(report.blocks_per_sm);
    // JSON has no infinity: an error that is not finite is null, and pass is false.
    json["max_abs_error"] = report.checked ? Json(report.checked->max_abs_error) : Json();
    json["max_error_over_bound"] = report.checked ? Json(report.checked->max_error_over_bound) : Json();
    json["verified"] = name(report.verified);
    json["pass"] = report.checked ? Json(report.checked->pass()) : Json();
    return dumped(json);
}

}  // namespace kiln::cli
