// SPDX-License-Identifier: Apache-2.0
//
// A row of a table is a comparison: the first of a problem names it, the others stand below.
#include "cli/kiln_bench_report.h"

#include <algorithm>
#include <cmath>

#include "cli/figures.h"

namespace kiln::cli {
namespace {

constexpr int kDigits = 4;
constexpr const char* kInterrupted = "Interrupted: what follows was not measured.";

/// "12.34", "0.8821", "12340": so many digits, no exponent.
std::string rounded(double value, int digits = kDigits) {
    const double magnitude =
        value == 0 || !std::isfinite(value) ? 0 : std::floor(std::log10(std::abs(value)));
    return format("%.*f", std::clamp(digits - 1 - static_cast<int>(magnitude), 0, 6), value);
}

std::string spread_text(const BenchSpread& spread) {
    return rounded(spread.min, 3) + " to " + rounded(spread.max, 3);
}

std::string limits_text(const std::optional<double>& must, const std::optional<double>& aim) {
    std::string text;
    if (must) text += rounded(*must, 3);
    if (aim) text += (text.empty() ? "- / " : " / ") + rounded(*aim, 3);
    return text;
}

/// "met", "below aim" (and not below what must be), "MISSED"; empty: nothing is asked.
std::string verdict(bool meets_must, bool meets_aim, const std::optional<double>& must,
                    const std::optional<double>& aim) {
    if (!must && !aim) return {};
    if (must && !meets_must) return "MISSED";
    if (aim && !meets_aim) return "below aim";
    return "met";
}

std::string verdict(double ratio, const std::optional<double>& must, const std::optional<double>& aim) {
    return verdict(!must || ratio >= *must, !aim || ratio >= *aim, must, aim);
}

std::string result_text(const std::optional<bool>& verified) {
    if (!verified) return {};
    return *verified ? "right" : "WRONG";
}

struct Line {
    std::string problem, median, spread, rate, with, with_median, with_spread, ratio, limits, verdict, result,
        detail;

    std::vector<std::string> words() const {
        return {problem,     median, spread, rate,    with,   with_median,
                with_spread, ratio,  limits, verdict, result, detail};
    }
};

const std::vector<std::string> kHeader = {"problem",    "Kiln",  "min to max", "rate", "beside", "median",
                                          "min to max", "ratio", "must / aim", "",     "result", ""};
const std::vector<std::size_t> kRight = {1, 2, 3, 5, 6, 7, 8};

/// "gemm_wgmma (wisdom)": without the values, which make a table wide.
std::string variant_text(const BenchRow& row) {
    const bool one = row.variant.find(';') == std::string::npos;
    return (one ? row.variant.substr(0, row.variant.find(' ')) : row.variant) +
           (row.origin.empty() ? "" : " (" + row.origin + ")");
}

/// The variants of a suite, each once, with the problems that they were chosen for.
std::vector<std::pair<std::string, std::string>> variants_of(const BenchSuite& suite) {
    std::vector<std::pair<std::string, std::string>> list;
    for (const BenchRow& row : suite.rows) {
        if (row.variant.empty()) continue;
        const auto found = std::ranges::find(list, row.variant, &std::pair<std::string, std::string>::first);
        if (found == list.end())
            list.emplace_back(row.variant, row.problem);
        else
            found->second += "; " + row.problem;
    }
    return list;
}

std::vector<Line> lines_of(const BenchRow& row) {
    std::vector<Line> lines(1);
    Line& first = lines.front();
    first.problem = row.problem;
    first.result = result_text(row.verified);
    first.detail = variant_text(row);
    if (row.kiln) {
        first.median = rounded(row.kiln->median) + " " + row.unit;
        first.spread = spread_text(*row.kiln);
        if (row.most_must || row.most_aim) {
            first.limits = "<= " + limits_text(row.most_must, row.most_aim);
            first.verdict =
                verdict(!row.most_must || row.kiln->median <= *row.most_must,
                        !row.most_aim || row.kiln->median <= *row.most_aim, row.most_must, row.most_aim);
        }
    }
    if (row.rate) first.rate = rounded(*row.rate) + " " + row.rate_unit;
    for (const BenchComparison& one : row.comparisons) {
        Line line;
        line.with = one.is_ceiling ? "of " + one.with : one.with;
        if (one.time) {
            line.with_median = rounded(one.time->median) + " " + row.unit;
            if (one.time->count > 1) line.with_spread = spread_text(*one.time);
        }
        line.ratio = rounded(one.ratio, 3);
        line.limits = limits_text(one.must, one.aim);
        line.verdict = verdict(one.ratio, one.must, one.aim);
        line.result = result_text(one.verified);
        line.detail = one.detail;
        lines.push_back(std::move(line));
    }
    return lines;
}

std::string mean_text(const BenchMean& mean) {
    std::string text = "geometric mean " + rounded(mean.ratio, 3) + " of " + mean.with + ", the least " +
                       rounded(mean.least, 3) + ", of " + std::to_string(mean.rows) +
                       (mean.rows == 1 ? " row" : " rows");
    if (mean.must || mean.aim)
        text += "; must / aim " + limits_text(mean.must, mean.aim) + ": " +
                verdict(mean.ratio, mean.must, mean.aim);
    return text;
}

std::string ceilings_text(const BenchReport& report) {
    std::string text;
    const auto add = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
    if (report.copy_gbps > 0) add("copy " + rounded(report.copy_gbps) + " GB/s (" + report.copy_source + ")");
    if (report.matrix_tflops > 0)
        add("matrix " + rounded(report.matrix_tflops) + " TFLOP/s (" + report.matrix_source + ")");
    if (report.fma_tflops > 0) add("FP32 " + rounded(report.fma_tflops, 3) + " TFLOP/s (data sheet)");
    return text;
}

Json spread_json(const std::optional<BenchSpread>& spread) {
    if (!spread) return {};
    return {{"min", spread->min}, {"median", spread->median}, {"max", spread->max}, {"count", spread->count}};
}

Json to_json(const BenchRow& row) {
    Json comparisons = Json::array();
    for (const BenchComparison& one : row.comparisons)
        comparisons.push_back({{"with", one.with},
                               {"detail", one.detail},
                               {"is_ceiling", one.is_ceiling},
                               {"time", spread_json(one.time)},
                               {"ratio", one.ratio},
                               {"must", or_null(one.must)},
                               {"aim", or_null(one.aim)},
                               {"verified", or_null(one.verified)}});
    Json json;
    json["problem"] = row.problem;
    json["variant"] = row.variant.empty() ? Json() : Json(row.variant);
    json["origin"] = row.origin.empty() ? Json() : Json(row.origin);
    json["unit"] = row.unit;
    json["time"] = spread_json(row.kiln);
    json["rate"] = or_null(row.rate);
    json["rate_unit"] = row.rate_unit.empty() ? Json() : Json(row.rate_unit);
    json["verified"] = or_null(row.verified);
    json["most_must"] = or_null(row.most_must);
    json["most_aim"] = or_null(row.most_aim);
    json["comparisons"] = comparisons;
    json["meets_must"] = or_null(row.meets_must());
    json["meets_aim"] = or_null(row.meets_aim());
    json["failures"] = row.failures;
    json["notes"] = row.notes;
    return json;
}

/// A cell of a Markdown table.
std::string cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
        text.insert(at, 1, '\\');
    return text;
}

std::string markdown_row(const std::vector<std::string>& words) {
    std::string text = "|";
    for (const std::string& word : words) text += " " + cell(word) + " |";
    return text + "\n";
}

}  // namespace

Json to_json(const BenchReport& report) {
    Json suites = Json::array();
    for (const BenchSuite& suite : report.suites) {
        Json rows = Json::array(), means = Json::array();
        for (const BenchRow& row : suite.rows) rows.push_back(to_json(row));
        for (const BenchMean& mean : suite.means)
            means.push_back({{"with", mean.with},
                             {"ratio", mean.ratio},
                             {"least", mean.least},
                             {"rows", mean.rows},
                             {"must", or_null(mean.must)},
                             {"aim", or_null(mean.aim)}});
        suites.push_back({{"name", suite.name},
                          {"title", suite.title},
                          {"rows", rows},
                          {"means", means},
                          {"notes", suite.notes},
                          {"failures", suite.failures},
                          {"seconds", suite.seconds}});
    }
    const auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
    Json json;
    json["backend"] = kiln::name(report.backend);
    json["device"] = report.device;
    json["arch"] = report.arch;
    json["driver"] = report.driver;
    json["ceilings"] = {{"copy_gbps", known(report.copy_gbps)},
                        {"copy_source", report.copy_source},
                        {"matrix_tflops", known(report.matrix_tflops)},
                        {"matrix_source", report.matrix_source},
                        {"fma_tflops", known(report.fma_tflops)}};
    json["suites"] = suites;
    json["interrupted"] = report.interrupted;
    json["missed"] = report.missed();
    json["pass"] = report.pass();
    return json;
}

std::string to_text(const BenchReport& report, const Terminal& terminal) {
    std::string text = report.device + " (" + report.arch + ")\n";
    if (const std::string ceilings = ceilings_text(report); !ceilings.empty())
        text += line("ceilings", ceilings);
    for (const BenchSuite& suite : report.suites) {
        std::vector<std::vector<std::string>> rows = {kHeader};
        for (const BenchRow& row : suite.rows)
            for (const Line& one : lines_of(row)) rows.push_back(one.words());
        text += "\n" + suite.name + ": " + suite.title + "\n";
        if (rows.size() > 1) text += table(rows, kRight);
        for (const BenchRow& row : suite.rows)
            for (const std::string& failure : row.failures)
                text += "  " + terminal.painted(Colour::red, "FAILED") + "  " + row.problem + ": " + failure +
                        "\n";
        for (const std::string& failure : suite.failures)
            text += "  " + terminal.painted(Colour::red, "FAILED") + "  " + failure + "\n";
        for (const auto& [variant, problems] : variants_of(suite))
            text += line("variant", variant + ": " + problems);
        for (const BenchMean& mean : suite.means) text += line("mean", mean_text(mean));
        for (const BenchRow& row : suite.rows)
            for (const std::string& note : row.notes) text += line("note", row.problem + ": " + note);
        for (const std::string& note : suite.notes) text += line("note", note);
        text += line("took", format("%.1f s", suite.seconds));
    }
    if (report.interrupted) text += std::string("\n") + kInterrupted + "\n";
    const std::vector<std::string> missed = report.missed();
    for (const std::string& one : missed) text += (&one == &missed.front() ? "\n" : "") + line("missed", one);
    return text;
}

std::string to_markdown(const BenchReport& report) {
    std::string text;
    text += report.device + " (" + report.arch + ", " + report.driver + ").";
    if (const std::string ceilings = ceilings_text(report); !ceilings.empty())
        text += " Ceilings: " + ceilings + ".";
    text += "\n";
    for (const BenchSuite& suite : report.suites) {
        text += "\n### " + suite.name + "\n\n" + suite.title + ".\n\n";
        if (!suite.rows.empty()) {
            text += markdown_row(
                {"problem", "Kiln", "min to max", "rate", "beside", "median", "ratio", "must / aim", ""});
            text += "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- |\n";
        }
        for (const BenchRow& row : suite.rows) {
            std::vector<Line> lines = lines_of(row);
            // The first comparison stands beside Kiln's own figures, where those leave the place.
            if (lines.size() > 1 && lines[0].limits.empty()) {
                const Line own = lines[0];
                lines.erase(lines.begin());
                Line& joined = lines[0];
                joined.problem = own.problem;
                joined.median = own.median;
                joined.spread = own.spread;
                joined.rate = own.rate;
                if (own.result == "WRONG" || joined.result == "WRONG") joined.verdict = "WRONG";
            }
            for (const Line& one : lines)
                text += markdown_row({one.problem, one.median, one.spread, one.rate, one.with,
                                      one.with_median, one.ratio, one.limits, one.verdict});
        }
        text += "\n";
        for (const BenchRow& row : suite.rows)
            for (const std::string& failure : row.failures)
                text += "- failed: " + row.problem + ": " + failure + "\n";
        for (const std::string& failure : suite.failures) text += "- failed: " + failure + "\n";
        for (const BenchMean& mean : suite.means) text += "- " + mean_text(mean) + "\n";
        for (const BenchRow& row : suite.rows)
            for (const std::string& note : row.notes) text += "- " + row.problem + ": " + note + "\n";
        for (const std::string& note : suite.notes) text += "- " + note + "\n";
        for (const auto& [variant, problems] : variants_of(suite))
            text += "- `" + variant + "`: " + problems + "\n";
    }
    if (report.interrupted) text += std::string("\n") + kInterrupted + "\n";
    return text;
}

}  // namespace kiln::cli
