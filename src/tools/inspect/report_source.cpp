// SPDX-License-Identifier: Apache-2.0
//
// Source lines with a bar per variant. Its length shows the line's wavefronts; the highlighted part shows
// those added by conflicts.
#include <algorithm>
#include <map>

#include "format/format.h"
#include "inspect/report_html.h"
#include "inspect/report_rows.h"
#include "inspect/svg.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

/// Wavefronts of one line, of the whole grid.
struct LineWavefronts {
    double wavefronts = 0;
    double ideal = 0;
};

using HeatOfLine = std::map<int, LineWavefronts>;

HeatOfLine heat_of(const ReportItem& item) {
    HeatOfLine heat;
    double recorded = 0;
    for (const SharedLine& line : item.analysis.shared) {
        recorded += static_cast<double>(line.believed.wavefronts);
        if (line.site.place.file != item.source_file) continue;
        heat[line.site.place.line].wavefronts += static_cast<double>(line.believed.wavefronts);
        heat[line.site.place.line].ideal += static_cast<double>(line.believed.ideal);
    }
    if (recorded == 0) return heat;
    for (auto& [line, one] : heat) {
        one.wavefronts *= item.analysis.shared_wavefronts / recorded;
        one.ideal *= item.analysis.shared_wavefronts / recorded;
    }
    return heat;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        lines.push_back(line);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

std::string heat_cell(const LineWavefronts& heat, double total, double longest) {
    if (heat.wavefronts <= 0) return html("no-heat", {});
    // With merged accesses, there may be fewer wavefronts than the ideal.
    const double base = std::min(heat.ideal, heat.wavefronts), excess = heat.wavefronts - base;
    return html("heat", {{"value", exactly(heat.wavefronts)},
                         {"wavefronts", count_text(heat.wavefronts)},
                         {"ideal", count_text(heat.ideal)},
                         {"base", coordinate(100 * base / longest)},
                         {"excess", coordinate(100 * excess / longest)},
                         {"share", percent(total > 0 ? heat.wavefronts / total : 0)},
                         {"added", heat.ideal > 0 && excess > 0 ? excess_text(excess / heat.ideal) : ""}});
}

}  // namespace

std::vector<SourceGroup> source_groups(const Page& page) {
    std::vector<SourceGroup> groups;
    for (std::size_t i = 0; i < page.items.size(); ++i) {
        if (page.items[i].source.empty()) continue;
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const SourceGroup& group) {
            const ReportItem& first = page.items[group.items[0]];
            return first.source_file == page.items[i].source_file && first.source == page.items[i].source;
        });
        if (same != groups.end())
            same->items.push_back(i);
        else
            groups.push_back({{i}, formatted("source-{}", groups.size() + 1)});
    }
    return groups;
}

std::string line_id(const Page& page, std::size_t item, const SourcePlace& place) {
    if (place.file != page.items[item].source_file || place.line < 1) return {};
    for (const SourceGroup& group : source_groups(page))
        if (std::find(group.items.begin(), group.items.end(), item) != group.items.end())
            return formatted("{}-{}", group.id, place.line);
    return {};
}

std::string source_section(const Page& page, const SourceGroup& group) {
    const ReportItem& first = page.items[group.items[0]];
    std::vector<HeatOfLine> heat;
    std::vector<double> totals;
    double longest = 1;
    for (const std::size_t item : group.items) {
        heat.push_back(heat_of(page.items[item]));
        totals.push_back(page.items[item].analysis.shared_wavefronts);
        for (const auto& [line, one] : heat.back()) longest = std::max(longest, one.wavefronts);
    }
    // Lines with recorded accesses stay visible when the others are folded.
    std::map<int, bool> shown;
    const auto show_around = [&](int line) {
        constexpr int kAround = 2;
        for (int near = line - kAround; near <= line + kAround; ++near) shown[near] = true;
    };
    for (const HeatOfLine& of_item : heat)
        for (const auto& [line, one] : of_item) show_around(line);
    for (const std::size_t item : group.items) {
        const auto& recording = page.items[item].analysis.recording;
        if (!recording) continue;
        for (const GlobalSite& site : recording->global)
            if (site.place.file == first.source_file) show_around(site.place.line);
    }

    // With many variants the bars scroll, and the source stays next to the line number.
    constexpr std::size_t kMany = 4;
    const bool wide = group.items.size() >= kMany;
    std::string heads;
    for (const std::size_t item : group.items)
        heads +=
            html("source-head", {{"badge", badge(page, item)}, {"difference", page.labels[item].difference}});
    std::string body;
    int number = 0;
    for (const std::string_view line : lines_of(first.source)) {
        ++number;
        std::string bars;
        bool hot = false;
        for (std::size_t i = 0; i < heat.size(); ++i) {
            const auto found = heat[i].find(number);
            const LineWavefronts one = found == heat[i].end() ? LineWavefronts{} : found->second;
            hot = hot || one.wavefronts > one.ideal;
            bars += heat_cell(one, totals[i], longest);
        }
        body += html("source-line", {{"id", formatted("{}-{}", group.id, number)},
                                     {"class", hot                      ? "hot"
                                               : shown.contains(number) ? ""
                                                                        : "quiet"},
                                     {"number", std::to_string(number)},
                                     {"wide", flag(wide)},
                                     {"bars", bars},
                                     {"code", line.empty() ? " " : line}});
    }
    return html("source", {{"file", first.source_file},
                           {"summary", first.summary},
                           {"first", flag(group.id == "source-1")},
                           {"id", group.id},
                           {"several", flag(group.items.size() > 1)},
                           {"wide", flag(wide)},
                           {"heads", heads},
                           {"lines", body}});
}

}  // namespace kiln::inspect
