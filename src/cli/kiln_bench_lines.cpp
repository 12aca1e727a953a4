// SPDX-License-Identifier: Apache-2.0
//
// Values have four digits, ranges and ratios three.
#include "cli/kiln_bench_lines.h"

#include <algorithm>
#include <cmath>

#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

std::string spread_text(const BenchSpread& spread) {
    return rounded(spread.min, 3) + " to " + rounded(spread.max, 3);
}

std::string verdict(bool meets_must, bool meets_aim, const std::optional<double>& must,
                    const std::optional<double>& aim) {
    if (!must && !aim) return {};
    if (must && !meets_must) return "MISSED";
    if (aim && !meets_aim) return "below aim";
    return "met";
}

std::string result_text(const std::optional<bool>& verified) {
    if (!verified) return {};
    return *verified ? "right" : "WRONG";
}

/// "gemm_wgmma (wisdom)": without the values, which would make the table too wide.
std::string variant_text(const BenchRow& row) {
    const bool one = row.variant.find(';') == std::string::npos;
    return (one ? row.variant.substr(0, row.variant.find(' ')) : row.variant) +
           (row.origin.empty() ? "" : " (" + row.origin + ")");
}

/// A cell of a Markdown table.
std::string cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
        text.insert(at, 1, '\\');
    return text;
}

}  // namespace

std::string markdown_row(const std::vector<std::string>& words) {
    std::string text = "|";
    for (const std::string& word : words) text += (word.empty() ? "" : " " + cell(word)) + " |";
    return text + "\n";
}

std::string rounded(double value, int digits) {
    const double magnitude =
        value == 0 || !std::isfinite(value) ? 0 : std::floor(std::log10(std::abs(value)));
    return formatted("{:.{}f}", value, std::clamp(digits - 1 - static_cast<int>(magnitude), 0, 6));
}

std::string limits_text(const std::optional<double>& must, const std::optional<double>& aim) {
    std::string text;
    if (must) text += rounded(*must, 3);
    if (aim) text += (text.empty() ? "- / " : " / ") + rounded(*aim, 3);
    return text;
}

std::string verdict_text(double ratio, const std::optional<double>& must, const std::optional<double>& aim) {
    return verdict(!must || ratio >= *must, !aim || ratio >= *aim, must, aim);
}

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

std::vector<BenchLine> bench_lines(const BenchRow& row) {
    std::vector<BenchLine> lines(1);
    BenchLine& first = lines.front();
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
        BenchLine line;
        line.with = one.is_ceiling ? "of " + one.with : one.with;
        if (one.time) {
            line.with_median = rounded(one.time->median) + " " + row.unit;
            if (one.time->count > 1) line.with_spread = spread_text(*one.time);
        }
        line.ratio = rounded(one.ratio, 3);
        line.limits = limits_text(one.must, one.aim);
        line.verdict = verdict_text(one.ratio, one.must, one.aim);
        line.result = result_text(one.verified);
        line.detail = one.detail;
        lines.push_back(std::move(line));
    }
    return lines;
}

std::string mean_text(const BenchMean& mean) {
    std::string text = (mean.part.empty() ? "" : mean.part + ": ") + "geometric mean " +
                       rounded(mean.ratio, 3) + " of " + mean.with;
    if (mean.percent > 0) text += formatted(", percentile {} {}", mean.percent, rounded(mean.low, 3));
    text += formatted(", the least {}, of {}{}", rounded(mean.least, 3), mean.rows,
                      mean.rows == 1 ? " row" : " rows");
    if (mean.must || mean.aim)
        text += "; must / aim " + limits_text(mean.must, mean.aim) + ": " +
                verdict_text(mean.ratio, mean.must, mean.aim);
    if (mean.percent > 0 && (mean.low_must || mean.low_aim))
        text += "; of the percentile " + limits_text(mean.low_must, mean.low_aim) + ": " +
                verdict_text(mean.low, mean.low_must, mean.low_aim);
    return text;
}

std::string ceilings_text(const BenchCeilings& ceilings) {
    std::string text;
    const auto add = [&](const std::string& words) { text += (text.empty() ? "" : "; ") + words; };
    if (ceilings.copy_gbps > 0)
        add("copy " + rounded(ceilings.copy_gbps) + " GB/s (" + ceilings.copy_source + ")");
    if (ceilings.matrix_tflops > 0)
        add("matrix " + rounded(ceilings.matrix_tflops) + " TFLOP/s (" + ceilings.matrix_source + ")");
    if (ceilings.fma_tflops > 0) add("FP32 " + rounded(ceilings.fma_tflops, 3) + " TFLOP/s (data sheet)");
    return text;
}

}  // namespace kiln::cli
