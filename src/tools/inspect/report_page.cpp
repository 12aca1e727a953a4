// SPDX-License-Identifier: Apache-2.0
//
// The page: head, key facts, comparison, roofline, source, variants, origins.
#include <kiln/error.h>

#include <algorithm>
#include <set>

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

/// Prevents the page from fetching anything, whatever text it contains.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri "
    "'none'; "
    "form-action 'none'";

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

std::string header_of(const Page& page, const ReportOptions& options) {
    std::string lead = "For " + escaped(targets_text(page));
    const std::string sizes = shared_sizes(page);
    if (!sizes.empty()) lead += ", " + escaped(sizes);
    std::string text = element("p", "class=\"kicker\"", "Kiln report") + "\n" +
                       element("h1", "", escaped(title_of(page, options))) + "\n" +
                       element("p", "class=\"lead\"", lead + ".") + "\n";
    const Label& first = page.labels[0];
    const bool one_template = std::all_of(page.labels.begin(), page.labels.end(), [&](const Label& label) {
        return label.template_name == first.template_name;
    });
    if (one_template && !first.common.empty())
        text +=
            element("p", "class=\"values\"",
                    (page.items.size() > 1 ? "All with " : "") + element("code", "", escaped(first.common))) +
            "\n";
    return element("header", "", "\n" + text) + "\n";
}

std::string compare_name(const Page& page) { return page.items.size() > 1 ? "Side by side" : "At a glance"; }

std::string contents_of(const Page& page, bool roofline, bool source) {
    std::string list = "<li><a href=\"#compare\">" + compare_name(page) + "</a></li>\n";
    if (roofline) list += "<li><a href=\"#roofline\">Roofline</a></li>\n";
    if (source) list += "<li><a href=\"#source\">Source</a></li>\n";
    for (std::size_t i = 0; i < page.items.size(); ++i)
        list += element("li", "",
                        "<a href=\"#variant-" + page.labels[i].letter + "\">" + badge(page, i) + " " +
                            escaped(page.labels[i].difference.empty() ? page.labels[i].template_name
                                                                      : page.labels[i].difference) +
                            "</a>") +
                "\n";
    list += "<li><a href=\"#origins\">Origins</a></li>\n";
    return element("nav", "aria-label=\"Contents\"", element("ul", "", "\n" + list)) + "\n";
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
    if (figure.text.empty())
        return "<span class=\"unknown\" aria-hidden=\"true\">–</span><span class=\"unseen\">not known</span>";
    return escaped(figure.text) + (figure.best ? " <span class=\"best\">best</span>" : "");
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
        for (const Row* const row : rows) {
            if (row->figures[i].text.empty()) continue;
            facts += "<div>" + element("dt", "", escaped(row->name)) +
                     element("dd", "", figure_text(row->figures[i])) + "</div>\n";
        }
        const auto& advice = page.items[i].analysis.advice;
        const auto warning = std::find_if(advice.begin(), advice.end(), [](const Advice& one) {
            return one.weight == Advice::Weight::warning;
        });
        std::string note;
        if (warning != advice.end())
            note =
                element(
                    "p", "class=\"note\"",
                    "<span class=\"sign\" aria-hidden=\"true\">!</span><span><span class=\"unseen\">Warning: "
                    "</span>" +
                        escaped(sentence(warning->text)) + "</span>") +
                "\n";
        cards += element("li", "",
                         "\n<h3>" + badge(page, i) + " <a href=\"#variant-" + label.letter + "\">" +
                             escaped(label.difference.empty() ? label.template_name : label.name()) +
                             "</a></h3>\n" + element("dl", "", "\n" + facts) + "\n" + note) +
                 "\n";
    }
    return element("ul", "class=\"cards\"", "\n" + cards) + "\n";
}

std::string order_choice(const std::vector<RowGroup>& groups) {
    std::string choices = "<option value=\"\">as given</option>\n";
    for (const RowGroup& group : groups)
        for (const Row& row : group.rows)
            if (row.differs && row.better != Better::neither)
                choices += element("option",
                                   "value=\"" + row.id + "\" data-more=\"" +
                                       (row.better == Better::more ? "1" : "0") + "\"",
                                   escaped(row.name)) +
                           "\n";
    return "<label>Order variants by " + element("select", "class=\"order\"", "\n" + choices) + "</label>";
}

std::string table_of(const Page& page, const std::vector<RowGroup>& groups) {
    std::string head = "<th scope=\"col\">Quantity</th>";
    for (std::size_t i = 0; i < page.items.size(); ++i)
        head += element("th", formatted("scope=\"col\" data-item=\"{}\"", i),
                        badge(page, i) + " " +
                            escaped(page.labels[i].difference.empty() ? page.labels[i].template_name
                                                                      : page.labels[i].name()));
    std::string bodies;
    for (const RowGroup& group : groups) {
        std::string body =
            element("tr", "class=\"group\"",
                    element("th", formatted("scope=\"rowgroup\" colspan=\"{}\"", page.items.size() + 1),
                            "<span>" + escaped(group.name) + "</span>")) +
            "\n";
        for (const Row& row : group.rows) {
            std::string cells = element(
                "th", "scope=\"row\"",
                escaped(row.name) + (row.note.empty() ? "" : " " + element("small", "", escaped(row.note))));
            for (std::size_t i = 0; i < row.figures.size(); ++i) {
                const Figure& figure = row.figures[i];
                std::string attributes = formatted("data-item=\"{}\"", i);
                if (figure.best) attributes += " class=\"is-best\"";
                if (figure.value) attributes += " " + data_value(*figure.value);
                cells += element("td", attributes, figure_text(figure));
            }
            body += element("tr",
                            "data-row=\"" + row.id + "\"" +
                                (row.differs || page.items.size() == 1 ? "" : " class=\"same\""),
                            cells) +
                    "\n";
        }
        bodies += element("tbody", "", "\n" + body) + "\n";
    }
    std::string controls;
    if (page.items.size() > 1)
        controls =
            element("p", "class=\"controls\" hidden",
                    "<label><input type=\"checkbox\" class=\"differences\"> Only what differs</label> " +
                        order_choice(groups)) +
            "\n";
    const std::string caption =
        element("caption", "",
                page.items.size() > 1 ? "All quantities, one column per variant; the best of a row is marked."
                                      : "All quantities.");
    return controls +
           scrolling("All quantities",
                     element("table", "class=\"compare\"",
                             caption + "\n<thead>" + element("tr", "", head) + "</thead>\n" + bodies)) +
           "\n";
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
        key += element("li", "", "<span>" + badges + "</span> <span>" + escaped(text) + "</span>") + "\n";
    std::string words = measured
                            ? "A filled point is a measured rate, below the roof that it could reach."
                            : "A filled point is the rate that the roof allows, every tensor moved once.";
    if (hollow)
        words +=
            " A hollow one is where a variant would be if no cache served what its blocks load: its tiles "
            "alone.";
    return "<section id=\"roofline\" aria-labelledby=\"roofline-name\">\n<h2 "
           "id=\"roofline-name\">Roofline</h2>\n" +
           element("figure", "class=\"roofline\"",
                   "\n" + picture->inlined("roofline-picture") + "\n" +
                       element("figcaption", "",
                               element("p", "", words) + "\n" + element("ul", "class=\"key\"", "\n" + key))) +
           "\n</section>\n";
}

std::string footer_of(const ReportOptions& options) {
    std::string text;
    if (!options.command.empty())
        text += "<p>This page is made again by</p>\n" +
                scrolling("Command", element("pre", "", element("code", "", escaped(options.command)))) +
                "\n";
    std::string made = "Made by Kiln";
    if (!options.version.empty()) made += " " + escaped(options.version);
    if (!options.made.empty()) made += ", " + escaped(options.made);
    if (!options.machine.empty()) made += ", on " + escaped(options.machine);
    text += element("p", "", made + ".") + "\n";
    return element("footer", "", "\n" + text) + "\n";
}

}  // namespace

std::string element(std::string_view name, std::string_view attributes, std::string_view content) {
    std::string text = "<" + std::string(name);
    if (!attributes.empty()) text += " " + std::string(attributes);
    return text + ">" + std::string(content) + "</" + std::string(name) + ">";
}

std::string badge(const Page& page, std::size_t item) {
    return element("span", "class=\"badge\" style=\"--series:" + std::string(series_colour(item)) + "\"",
                   page.labels[item].letter);
}

std::string data_value(double value) { return formatted("data-value=\"{:.17g}\"", value); }

std::string scrolling(std::string_view name, std::string_view content, std::string_view classes) {
    return element("div",
                   "class=\"scroll" + (classes.empty() ? "" : " " + std::string(classes)) +
                       "\" role=\"region\" tabindex=\"0\" aria-label=\"" + escaped(name) + "\"",
                   content);
}

std::string page_html(const Page& page, const ReportOptions& options) {
    const std::vector<RowGroup> groups = rows_of(page.items);
    const std::vector<SourceGroup> sources = source_groups(page);
    const std::string roofline = roofline_section(page);

    std::string main =
        "<section id=\"compare\" aria-labelledby=\"compare-name\">\n"
        "<h2 id=\"compare-name\">" +
        compare_name(page) + "</h2>\n" + cards_of(page, groups) + table_of(page, groups) + "</section>\n" +
        roofline;
    if (!sources.empty()) {
        main +=
            "<section id=\"source\" aria-labelledby=\"source-name\">\n<h2 id=\"source-name\">Source</h2>\n";
        for (const SourceGroup& group : sources) main += source_section(page, group);
        main += "</section>\n";
    }
    for (std::size_t i = 0; i < page.items.size(); ++i) main += variant_section(page, i);
    main += origins_section(page);

    return "<!doctype html>\n<html lang=\"en\" class=\"kiln-page\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta http-equiv=\"Content-Security-Policy\" content=\"" +
           std::string(kPolicy) +
           "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<meta name=\"color-scheme\" content=\"light dark\">\n"
           "<meta name=\"generator\" content=\"Kiln " +
           escaped(options.version) + "\">\n<link rel=\"icon\" href=\"data:,\">\n" +
           element("title", "", escaped(title_of(page, options)) + " · Kiln report") + "\n<style>" +
           std::string(picture_style()) + std::string(kPageStyle) +
           "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#compare\">Skip to the "
           "comparison</a>\n" +
           header_of(page, options) + contents_of(page, !roofline.empty(), !sources.empty()) +
           element("main", "", "\n" + main) + "\n" + footer_of(options) + "<script>" +
           std::string(kPageScript) + "</script>\n</body>\n</html>\n";
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
