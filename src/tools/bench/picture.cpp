// SPDX-License-Identifier: Apache-2.0
//
// Ratios as points on a logarithmic axis, a row per problem. A bar next to the point shows the required
// ratio.
#include <kiln/tools/bench.h>

#include <algorithm>
#include <cmath>

#include "format/format.h"
#include "inspect/plot.h"
#include "inspect/svg.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

using inspect::Anchor;
using inspect::Axis;
using inspect::Svg;

constexpr double kWidth = 900, kRow = 22, kLabel = 340, kRight = 90, kTop = 70, kBottom = 50;
constexpr double kRadius = 4.5, kBar = 8;

/// The comparators that some row has, in the order of their first appearance.
std::vector<std::string> comparators(const BenchSuite& suite) {
    std::vector<std::string> names;
    for (const BenchRow& row : suite.rows)
        for (const BenchComparison& one : row.comparisons)
            if (std::ranges::find(names, one.with) == names.end()) names.push_back(one.with);
    return names;
}

std::vector<const BenchRow*> drawn_rows(const BenchSuite& suite) {
    std::vector<const BenchRow*> rows;
    for (const BenchRow& row : suite.rows)
        if (!row.comparisons.empty()) rows.push_back(&row);
    return rows;
}

/// The range of all ratios and requirements, with a margin.
Axis ratio_axis(const std::vector<const BenchRow*>& rows) {
    Axis axis{0.9, 1.1, kLabel, kWidth - kRight, true};
    const auto include = [&](double ratio) {
        if (!(ratio > 0) || !std::isfinite(ratio)) return;
        axis.low = std::min(axis.low, ratio / 1.1);
        axis.high = std::max(axis.high, ratio * 1.1);
    };
    for (const BenchRow* const row : rows)
        for (const BenchComparison& one : row->comparisons) {
            include(one.ratio);
            if (one.must) include(*one.must);
        }
    return axis;
}

std::string fill(std::size_t series) {
    return "fill=\"" + std::string(inspect::series_colour(series)) + "\"";
}

/// At least two round values within the axis, including 1.
std::vector<double> ticks_of(const Axis& axis) {
    std::vector<double> ticks = {1};
    for (const double tick :
         {0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0})
        if (tick >= axis.low && tick <= axis.high) ticks.push_back(tick);
    std::sort(ticks.begin(), ticks.end());
    return ticks;
}

}  // namespace

inline namespace KILN_ABI {

std::string bench_picture(const BenchReport& report, const BenchSuite& suite) {
    const std::vector<const BenchRow*> rows = drawn_rows(suite);
    const std::vector<std::string> names = comparators(suite);
    const double bottom = kTop + kRow * static_cast<double>(std::max<std::size_t>(rows.size(), 1));
    Svg picture(kWidth, bottom + kBottom);
    picture.text(0, 16, suite.name + ": " + suite.title, "heading");
    picture.text(0, 34, report.device + " (" + report.arch + ")", "title");
    const Axis axis = ratio_axis(rows);
    const Axis down{0, 1, bottom, kTop, false};
    inspect::draw_axes(picture, axis, down, "times as fast as the comparator; of a ceiling the share", "",
                       ticks_of(axis), {});
    picture.line(axis.at(1), kTop, axis.at(1), bottom, "roof bearing");

    double legend = kLabel;
    for (std::size_t series = 0; series < names.size(); ++series) {
        picture.circle(legend, 50, kRadius, "point", fill(series));
        picture.text(legend + 9, 54, names[series], "figure");
        legend += 24 + 7.2 * static_cast<double>(names[series].size());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const BenchRow& row = *rows[i];
        const double y = kTop + kRow * (static_cast<double>(i) + 0.5);
        picture.text(kLabel - 10, y + 4, row.problem, "figure", Anchor::end);
        std::string figures;
        for (const BenchComparison& one : row.comparisons) {
            const auto series = static_cast<std::size_t>(std::ranges::find(names, one.with) - names.begin());
            if (one.must)
                picture.line(
                    axis.at(*one.must), y - kBar, axis.at(*one.must), y + kBar, "axis",
                    "style=\"stroke:" + std::string(inspect::series_colour(series)) + ";stroke-width:2\"");
            picture.circle(axis.at(one.ratio), y, kRadius, "point", fill(series));
            figures += formatted("{}{:.2f}", figures.empty() ? "" : "  ", one.ratio);
        }
        picture.text(kWidth - kRight + 10, y + 4, figures, "figure");
    }
    std::string description = "Ratios to comparators, a row for each problem";
    for (const BenchMean& mean : suite.means)
        description += formatted("; geometric mean to {} {:.3f}", mean.with, mean.ratio);
    return picture.file("kiln bench " + suite.name + " on " + report.device, description + ".");
}

}  // namespace KILN_ABI
}  // namespace kiln
