// SPDX-License-Identifier: Apache-2.0
//
// Tables of problems that were drawn: per family the geometric mean and a low percentile of the ratios, and the
// problems on which Kiln is slow, with what was chosen and what the best known variant would have been. Then how many problems
// no template computes.
#include <algorithm>
#include <map>

#include "cli/kiln_bench_lines.h"
#include "cli/kiln_bench_report.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

constexpr double kSlow = 0.9;  // of the comparator's speed
constexpr const char* kBestKnown = "best known variant";

const BenchComparison* comparison(const BenchRow& row, const std::string& with) {
    const auto found = std::ranges::find(row.comparisons, with, &BenchComparison::with);
    return found == row.comparisons.end() ? nullptr : &*found;
}

/// A variant without the values that say what is computed, which the problem's own words do.
std::string code(const std::string& variant) { return variant.empty() ? "" : "`" + variant + "`"; }

std::string summary(const BenchSuite& suite) {
    std::string text = markdown_row({"family", "against", "problems", "geometric mean", "must / aim",
                                     "percentile", "must / aim", "least", "verdict"}) +
                       "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n";
    for (const BenchMean& mean : suite.means) {
        const std::string of_mean = verdict_text(mean.ratio, mean.must, mean.aim);
        const std::string of_low = verdict_text(mean.low, mean.low_must, mean.low_aim);
        text += markdown_row({mean.part, mean.with, std::to_string(mean.rows), rounded(mean.ratio, 3),
                              limits_text(mean.must, mean.aim),
                              formatted("{} ({}th)", rounded(mean.low, 3), mean.percent),
                              limits_text(mean.low_must, mean.low_aim), rounded(mean.least, 3),
                              of_mean == of_low ? of_mean : "mean " + of_mean + "; percentile " + of_low});
    }
    return text;
}

/// The problems of a part that are slow against the first comparator of its means.
std::string slow_rows(const BenchSuite& suite) {
    std::string text;
    std::vector<std::string> parts;
    for (const BenchMean& mean : suite.means) {
        if (mean.with == kBestKnown || std::ranges::find(parts, mean.part) != parts.end()) continue;
        parts.push_back(mean.part);
        std::vector<std::pair<double, const BenchRow*>> slow;
        for (const BenchRow& row : suite.rows)
            if (const BenchComparison* const one =
                    row.part == mean.part ? comparison(row, mean.with) : nullptr;
                one != nullptr && one->ratio < kSlow)
                slow.emplace_back(one->ratio, &row);
        std::ranges::stable_sort(slow, {}, [](const auto& one) { return one.first; });
        for (const auto& [ratio, row] : slow) {
            const BenchComparison* const best = comparison(*row, kBestKnown);
            const bool is_better = best != nullptr && best->ratio < 1;
            text +=
                markdown_row({mean.part + ": " + row->problem, rounded(ratio, 3) + " of " + mean.with,
                              code(row->variant), row->origin, best != nullptr ? rounded(best->ratio, 3) : "",
                              is_better ? code(best->detail) : "",
                              best != nullptr ? rounded(ratio / best->ratio, 3) : ""});
        }
    }
    if (text.empty()) return text;
    return markdown_row({"problem", "ratio", "chosen", "by", "best known / chosen", "best known variant",
                         "ratio with it"}) +
           "| --- | ---: | --- | --- | ---: | --- | ---: |\n" + text;
}

/// A line for each part with problems that were not timed since no template computes them.
std::string without_template(const BenchSuite& suite) {
    struct Counts {
        int all = 0, without = 0;
        std::map<std::string, int> by_reason;
    };
    std::map<std::string, Counts> parts;
    for (const BenchRow& row : suite.rows) {
        Counts& counts = parts[row.part];
        ++counts.all;
        if (row.kiln || !row.failures.empty() || row.notes.empty()) continue;
        ++counts.without;
        ++counts.by_reason[row.notes.front()];
    }
    std::string text;
    for (const auto& [part, counts] : parts) {
        if (counts.without == 0) continue;
        text += formatted("- {}: {} of {} problems", part, counts.without, counts.all);
        for (const auto& [reason, count] : counts.by_reason) text += formatted("; {} ({})", reason, count);
        text += "\n";
    }
    return text;
}

}  // namespace

std::string drawn_tables(const BenchReport& report) {
    std::string text;
    for (const BenchSuiteName& name : bench_suites()) {
        const auto suite = std::ranges::find(report.suites, name.name, &BenchSuite::name);
        if (!name.is_drawn || suite == report.suites.end()) continue;
        text += summary(*suite);
        const std::string slow = slow_rows(*suite);
        if (!slow.empty()) text += "\nBelow " + rounded(kSlow, 1) + ":\n\n" + slow;
        const std::string without = without_template(*suite);
        if (!without.empty()) text += "\nNot computed by any template:\n\n" + without;
    }
    return text.empty() ? "Not measured.\n" : text;
}

}  // namespace kiln::cli
