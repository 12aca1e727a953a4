// SPDX-License-Identifier: Apache-2.0
//
// The page: head, key facts, comparison, roofline, source, variants, origins.
#include <kiln/error.h>

#include <algorithm>

#include "base/words.h"
#include "format/format.h"
#include "inspect/page/assets.h"
#include "inspect/picture.h"
#include "inspect/report_html.h"
#include "inspect/report_rows.h"
#include "inspect/svg.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

std::string title_of(const Page& page, const ReportOptions& options) {
    if (!options.title.empty()) return options.title;
    std::vector<std::string> names;
    for (const Label& label : page.labels)
        if (std::find(names.begin(), names.end(), label.template_name) == names.end())
            names.push_back(label.template_name);
    if (page.items.size() == 1) return names[0];
    return counted(page.items.size(), "variant", "variants") + " of " + enumerate(names);
}

/// The chips and architectures of the items, each once.
std::string targets_text(const Page& page) {
    std::vector<std::string> targets;
    for (const ReportItem& item : page.items) {
        const Analysis& analysis = item.analysis;
        const std::string target =
            analysis.chip_name.empty() ? analysis.arch : analysis.chip_name + " (" + analysis.arch + ")";
        if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(target);
    }
    return enumerate(targets);
}

/// What all items have in common; empty where they differ.
std::string shared_sizes(const Page& page) {
    for (const ReportItem& item : page.items)
        if (item.analysis.problem.sizes != page.items[0].analysis.problem.sizes) return {};
    return sizes_text(page.items[0].analysis.problem.sizes);
}

/// The values that all variants have, if they are of one template.
std::string common_values(const Page& page) {
    const Label& first = page.labels[0];
    const bool one_template = std::all_of(page.labels.begin(), page.labels.end(), [&](const Label& label) {
        return label.template_name == first.template_name;
    });
    return one_template ? first.common : std::string();
}

std::string contents_of(const Page& page) {
    std::string list;
    for (std::size_t i = 0; i < page.items.size(); ++i) {
        const Label& label = page.labels[i];
        list +=
            html("contents", {{"letter", label.letter},
                              {"badge", badge(page, i)},
                              {"name", label.difference.empty() ? label.template_name : label.difference}});
    }
    return list;
}

/// The rows that a card shows, if the variant has them.
constexpr std::string_view kKeyFacts[] = {"measured",       "floor",     "excess",  "sector-excess",
                                          "mean-occupancy", "registers", "problems"};

const Row* row_named(const std::vector<RowGroup>& groups, std::string_view id) {
    for (const RowGroup& group : groups)
        for (const Row& row : group.rows)
            if (row.id == id) return &row;
    return nullptr;
}

std::string figure_text(const Figure& figure) {
    return html("figure", {{"text", figure.text}, {"best", flag(figure.best)}});
}

/// All rows of a single variant; for several variants the rows that differ, and more if those are few.
std::vector<const Row*> key_rows(const Page& page, const std::vector<RowGroup>& groups) {
    constexpr std::size_t kFewest = 4;
    std::vector<const Row*> all, chosen;
    for (const std::string_view id : kKeyFacts)
        if (const Row* const row = row_named(groups, id)) all.push_back(row);
    std::size_t left = kFewest;
    for (const Row* const row : all)
        if (row->differs && left > 0) --left;
    for (const Row* const row : all) {
        const bool fills = !row->differs && left > 0;
        if (fills) --left;
        if (page.items.size() == 1 || row->differs || fills) chosen.push_back(row);
    }
    return chosen;
}

std::string cards_of(const Page& page, const std::vector<RowGroup>& groups) {
    const std::vector<const Row*> rows = key_rows(page, groups);
    std::string cards;
    for (std::size_t i = 0; i < page.items.size(); ++i) {
        const Label& label = page.labels[i];
        std::string facts;
        for (const Row* const row : rows)
            if (!row->figures[i].text.empty())
                facts += html("fact", {{"name", row->name}, {"figure", figure_text(row->figures[i])}});
        const auto& advice = page.items[i].analysis.advice;
        const auto warning = std::find_if(advice.begin(), advice.end(), [](const Advice& one) {
            return one.weight == Advice::Weight::warning;
        });
        cards += html("card", {{"badge", badge(page, i)},
                               {"letter", label.letter},
                               {"name", label.difference.empty() ? label.template_name : label.name()},
                               {"facts", facts},
                               {"warning", warning == advice.end() ? "" : sentence(warning->text)}});
    }
    return cards;
}

/// The quantities by which variants can be ordered.
std::string order_choice(const std::vector<RowGroup>& groups) {
    std::string choices;
    for (const RowGroup& group : groups)
        for (const Row& row : group.rows)
            if (row.differs && row.better != Better::neither)
                choices += html(
                    "order",
                    {{"id", row.id}, {"more", row.better == Better::more ? "1" : "0"}, {"name", row.name}});
    return choices;
}

std::string table_of(const Page& page, const std::vector<RowGroup>& groups) {
    const bool several = page.items.size() > 1;
    std::string heads, bodies;
    for (std::size_t i = 0; i < page.items.size(); ++i) {
        const Label& label = page.labels[i];
        heads += html("comparison-head",
                      {{"item", std::to_string(i)},
                       {"badge", badge(page, i)},
                       {"name", label.difference.empty() ? label.template_name : label.name()}});
    }
    for (const RowGroup& group : groups) {
        std::string rows;
        for (const Row& row : group.rows) {
            std::string cells;
            for (std::size_t i = 0; i < row.figures.size(); ++i) {
                const Figure& figure = row.figures[i];
                cells += html("comparison-cell", {{"item", std::to_string(i)},
                                                  {"best", flag(figure.best)},
                                                  {"value", figure.value ? exactly(*figure.value) : ""},
                                                  {"figure", figure_text(figure)}});
            }
            rows += html("comparison-row", {{"id", row.id},
                                            {"same", flag(several && !row.differs)},
                                            {"name", row.name},
                                            {"note", row.note},
                                            {"cells", cells}});
        }
        bodies +=
            html("comparison-group",
                 {{"columns", std::to_string(page.items.size() + 1)}, {"name", group.name}, {"rows", rows}});
    }
    return html(
        "comparison",
        {{"several", flag(several)}, {"order", order_choice(groups)}, {"heads", heads}, {"groups", bodies}});
}

std::string roofline_section(const Page& page) {
    const auto picture = roofline_picture(page.items);
    if (!picture) return {};
    const bool measured = std::any_of(page.items.begin(), page.items.end(), [](const ReportItem& item) {
        return measured_tflops(item).has_value();
    });
    const bool hollow = std::any_of(page.items.begin(), page.items.end(), [](const ReportItem& item) {
        return item.analysis.roofline && item.analysis.traffic.tiled_bytes;
    });
    // Variants with the same text share an entry.
    std::vector<std::pair<std::string, std::string>> entries;  // text, badges
    for (std::size_t i = 0; i < page.items.size(); ++i) {
        const auto& roofline = page.items[i].analysis.roofline;
        if (!roofline) continue;
        std::string text = formatted("{:.4g} flops per byte, at most {}", roofline->intensity,
                                     rate_text(roofline->attainable_tflops));
        if (const auto reached = measured_tflops(page.items[i]))
            text += "; measured " + rate_text(*reached) + ", " +
                    percent(*reached / roofline->attainable_tflops) + " of that";
        auto known =
            std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.first == text; });
        if (known == entries.end()) known = entries.insert(entries.end(), {text, ""});
        known->second += (known->second.empty() ? "" : " ") + badge(page, i);
    }
    std::string key;
    for (const auto& [text, badges] : entries)
        key += html("roofline-key", {{"badges", badges}, {"text", text}});
    return html("roofline", {{"picture", picture->inlined("roofline-picture") + "\n"},
                             {"measured", flag(measured)},
                             {"hollow", flag(hollow)},
                             {"key", key}});
}

}  // namespace

std::string badge(const Page& page, std::size_t item) {
    return html("badge", {{"colour", series_colour(item)}, {"letter", page.labels[item].letter}});
}

std::string page_html(const Page& page, const ReportOptions& options) {
    const std::vector<RowGroup> groups = rows_of(page.items);
    std::string sources, variants;
    for (const SourceGroup& group : source_groups(page)) sources += source_section(page, group);
    for (std::size_t i = 0; i < page.items.size(); ++i) variants += variant_section(page, i);
    return html("page", {{"version", options.version},
                         {"title", title_of(page, options)},
                         {"style", std::string(picture_style()) + std::string(kPageStyle)},
                         {"targets", targets_text(page)},
                         {"sizes", shared_sizes(page)},
                         {"common", common_values(page)},
                         {"several", flag(page.items.size() > 1)},
                         {"contents", contents_of(page)},
                         {"cards", cards_of(page, groups)},
                         {"comparison", table_of(page, groups)},
                         {"roofline", roofline_section(page)},
                         {"source", sources},
                         {"variants", variants},
                         {"origins", origins_section(page)},
                         {"command", options.command},
                         {"made", options.made},
                         {"machine", options.machine},
                         {"script", kPageScript}});
}

}  // namespace kiln::inspect

namespace kiln {

inline namespace KILN_ABI {

std::string report_html(std::span<const ReportItem> items, const ReportOptions& options) {
    if (items.empty()) throw UsageError("a report is about one variant or more, and there is none.");
    return inspect::page_html({items, inspect::labels_of(items)}, options);
}

}  // namespace KILN_ABI
}  // namespace kiln
