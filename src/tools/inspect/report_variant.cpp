// SPDX-License-Identifier: Apache-2.0
//
// The section of one variant.
#include <kiln/error.h>

#include <algorithm>
#include <tuple>

#include "base/arch_facts.h"
#include "format/format.h"
#include "inspect/picture.h"
#include "inspect/report_html.h"
#include "inspect/report_rows.h"
#include "inspect/svg.h"
#include "inspect/text_format.h"

namespace kiln::inspect {
namespace {

constexpr std::size_t kMostMaps = 2;  // sites with a bank map: those with the most excess
constexpr std::size_t kMostProblems = 20;

std::string advice_list(const Analysis& analysis) {
    if (analysis.advice.empty()) return {};
    std::string list;
    for (const Advice& advice : analysis.advice) {
        const auto [kind, word, sign] =
            advice.weight == Advice::Weight::good   ? std::tuple("good", "Good", "✓")
            : advice.weight == Advice::Weight::hint ? std::tuple("hint", "Hint", "→")
                                                    : std::tuple("warning", "Warning", "!");
        std::string text = "<span class=\"sign\" aria-hidden=\"true\">" + std::string(sign) +
                           "</span><span><span class=\"unseen\">" + word + ": </span>" +
                           escaped(sentence(advice.text));
        if (!advice.change.empty())
            text += " <span class=\"change\">Try " + element("code", "", escaped(advice.change)) + "</span>";
        list += element("li", std::string("class=\"") + kind + "\"", text + "</span>") + "\n";
    }
    return "<h3>Advice</h3>\n" + element("ul", "class=\"advice\"", "\n" + list) + "\n";
}

std::string problem_list(const Analysis& analysis) {
    if (!analysis.recording || analysis.recording->problems.empty()) return {};
    const auto& problems = analysis.recording->problems;
    std::string list;
    for (std::size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i)
        list += element("li", "class=\"warning\"",
                        "<span class=\"sign\" aria-hidden=\"true\">!</span><span>" +
                            escaped(problems[i].text()) + "</span>") +
                "\n";
    std::string more;
    if (problems.size() > kMostProblems)
        more = element("p", "",
                       formatted("and {} more; <code>kiln check</code> shows them all.",
                                 problems.size() - kMostProblems)) +
               "\n";
    return "<h3>Problems</h3>\n" + element("ul", "class=\"advice\"", "\n" + list) + "\n" + more;
}

std::string place_text(const Page& page, std::size_t item, const SourcePlace& place) {
    const std::string id = line_id(page, item, place);
    const std::string line = formatted("line {}", place.line);
    std::string text = id.empty() ? escaped(place.text()) : "<a href=\"#" + id + "\">" + line + "</a>";
    if (!id.empty() && !place.inner.empty()) text += " " + element("small", "", "in " + escaped(place.inner));
    return text;
}

std::string number_cell(double value, const std::string& text, bool hot = false) {
    return element("td", std::string("class=\"number") + (hot ? " excess\" " : "\" ") + data_value(value),
                   text);
}

std::string head_row(const std::vector<std::string>& names, std::size_t first_number) {
    std::string row;
    for (std::size_t i = 0; i < names.size(); ++i)
        row +=
            element("th", i >= first_number ? "scope=\"col\" class=\"number\"" : "scope=\"col\"", names[i]);
    return "<thead>" + element("tr", "", row) + "</thead>\n";
}

std::string recorded_text(const Recording& recording) {
    return counted(recording.blocks_recorded, "block", "blocks") + " of " +
           grouped(static_cast<double>(recording.blocks));
}

std::string shared_table(const Page& page, std::size_t item) {
    const Analysis& analysis = page.items[item].analysis;
    if (analysis.shared.empty() || !analysis.recording) return {};
    std::string body;
    for (const SharedLine& line : analysis.shared) {
        const WidthCost& cost = line.believed;
        const auto wavefronts = static_cast<double>(cost.wavefronts), ideal = static_cast<double>(cost.ideal);
        const double excess = ideal == 0 ? 0 : wavefronts / ideal - 1;
        const std::string variable = line.site.variable.empty() ? "" : escaped(line.site.variable);
        body +=
            element(
                "tr", "",
                element("th", "scope=\"row\" " + data_value(line.site.place.line),
                        place_text(page, item, line.site.place)) +
                    element("td", "",
                            escaped(name(line.site.kind)) + (variable.empty() ? "" : ", " + variable)) +
                    element(
                        "td", data_value(cost.bytes),
                        counted(static_cast<std::uint64_t>(cost.bytes), "byte", "bytes") +
                            (line.belief.empty() ? "" : " " + element("small", "", escaped(line.belief)))) +
                    number_cell(static_cast<double>(cost.requests),
                                grouped(static_cast<double>(cost.requests))) +
                    number_cell(wavefronts, grouped(wavefronts)) + number_cell(ideal, grouped(ideal)) +
                    number_cell(excess, excess_text(excess), excess > 0) +
                    number_cell(cost.degree, cost.degree > 1 ? formatted("{}-way", cost.degree) : "none")) +
            "\n";
    }
    return "<h3>Shared memory, access by access</h3>\n<p>Counts of " + recorded_text(*analysis.recording) +
           "; width: what one lane is believed to access at once.</p>\n" +
           scrolling("Shared memory accesses of " + page.labels[item].letter,
                     element("table", "class=\"accesses sortable\"",
                             "<caption class=\"unseen\">Shared memory accesses</caption>\n" +
                                 head_row({"Where", "What", "Width", "Requests", "Wavefronts", "Ideal",
                                           "Excess", "Conflict"},
                                          3) +
                                 element("tbody", "", "\n" + body))) +
           "\n";
}

std::string global_table(const Page& page, std::size_t item) {
    const Analysis& analysis = page.items[item].analysis;
    if (!analysis.recording || analysis.recording->global.empty()) return {};
    std::string body;
    for (const GlobalSite& site : analysis.recording->global) {
        const auto sectors = static_cast<double>(site.merged_sectors),
                   ideal = static_cast<double>(site.merged_ideal);
        const double excess = ideal == 0 ? 0 : sectors / ideal - 1;
        const double per_request =
            site.merged_requests == 0 ? 0 : sectors / static_cast<double>(site.merged_requests);
        body += element("tr", "",
                        element("th", "scope=\"row\" " + data_value(site.place.line),
                                place_text(page, item, site.place)) +
                            element("td", "", escaped(name(site.kind))) +
                            element("td", data_value(site.bytes),
                                    counted(static_cast<std::uint64_t>(site.bytes), "byte", "bytes") +
                                        (site.merged_requests < site.requests
                                             ? " " + element("small", "", "merged")
                                             : "")) +
                            number_cell(static_cast<double>(site.merged_requests),
                                        grouped(static_cast<double>(site.merged_requests))) +
                            number_cell(sectors, grouped(sectors)) + number_cell(ideal, grouped(ideal)) +
                            number_cell(excess, excess_text(excess), excess > 0) +
                            number_cell(per_request, formatted("{:.3g}", per_request))) +
                "\n";
    }
    return "<h3>Global memory, access by access</h3>\n<p>Sectors of 32 bytes that " +
           recorded_text(*analysis.recording) + " ask for; ideal: the same bytes side by side.</p>\n" +
           scrolling("Global memory accesses of " + page.labels[item].letter,
                     element("table", "class=\"accesses sortable\"",
                             "<caption class=\"unseen\">Global memory accesses</caption>\n" +
                                 head_row({"Where", "What", "Width", "Requests", "Sectors", "Ideal", "Excess",
                                           "Per request"},
                                          3) +
                                 element("tbody", "", "\n" + body))) +
           "\n";
}

/// The sites with the most wavefronts above their ideal.
std::vector<const SharedLine*> worst_sites(const Analysis& analysis) {
    std::vector<const SharedLine*> worst;
    const auto excess = [](const SharedLine* line) {
        return static_cast<double>(line->believed.wavefronts) - static_cast<double>(line->believed.ideal);
    };
    for (const SharedLine& line : analysis.shared)
        if (excess(&line) > 0 && !line.site.worst.empty()) worst.push_back(&line);
    std::stable_sort(worst.begin(), worst.end(),
                     [&](const SharedLine* a, const SharedLine* b) { return excess(a) > excess(b); });
    if (worst.size() > kMostMaps) worst.resize(kMostMaps);
    return worst;
}

std::string bank_maps(const Page& page, std::size_t item) {
    const Analysis& analysis = page.items[item].analysis;
    std::optional<BankModel> model;
    try {
        // The host has no banks; Analyzer then uses the model of another architecture.
        model = bank_model(backend_of_arch(analysis.arch) == Backend::host ? "sm_90a" : analysis.arch);
    } catch (const UsageError&) {
        return {};
    }
    std::string maps;
    int number = 0;
    for (const SharedLine* line : worst_sites(analysis)) {
        const std::vector<BankRequest> requests = bank_requests(line->site, *model);
        if (requests.empty()) continue;
        std::string row;
        for (const BankRequest& request : requests)
            row += access_picture(request, line->site, *model)
                       .inlined(formatted("banks-{}-{}", page.labels[item].letter, ++number)) +
                   "\n";
        const std::string what = std::string(name(line->site.kind)) +
                                 (line->site.variable.empty() ? "" : ", " + escaped(line->site.variable));
        maps += element("figure", "",
                        element("figcaption", "",
                                "The most expensive request of " + place_text(page, item, line->site.place) +
                                    " (" + what + "), as written, " +
                                    counted(static_cast<std::uint64_t>(line->site.as_written.bytes), "byte",
                                            "bytes") +
                                    " per lane.") +
                            "\n" + element("div", "class=\"pictures\"", "\n" + row)) +
                "\n";
    }
    if (maps.empty()) return {};
    // The explanation appears once per page.
    bool first = true;
    for (std::size_t before = 0; before < item; ++before)
        first = first && worst_sites(page.items[before].analysis).empty();
    return "<h3>Banks</h3>\n" +
           std::string(
               first ? "<p>A warp’s request, or its most expensive phase: a column per "
                       "bank, a row per line of all banks, numbered by its first byte; in each cell the "
                       "requesting lane. A bank serves one word at a time, so words in one column wait for "
                       "each other. Next to it is the same request with its rows further apart, by the "
                       "least that helps most; if there are rows in between, they share the padding.</p>\n"
                     : "") +
           maps;
}

std::string occupancy_part(const Page& page, std::size_t item) {
    const Analysis& analysis = page.items[item].analysis;
    const std::vector<Picture> pictures = occupancy_pictures(analysis);
    if (pictures.empty()) return {};
    std::string row;
    for (std::size_t i = 0; i < pictures.size(); ++i)
        row += pictures[i].inlined(formatted("occupancy-{}-{}", page.labels[item].letter, i + 1)) + "\n";
    std::string caption = "What bounds the warps of a " + multiprocessor_text(analysis.arch);
    if (const auto& more = analysis.occupancy->registers_for_one_more)
        caption += formatted("; one more block would fit with {} registers per thread", *more);
    return "<h3>Occupancy</h3>\n" +
           element("figure", "",
                   element("figcaption", "", caption + ".") + "\n" +
                       element("div", "class=\"pictures\"", "\n" + row)) +
           "\n";
}

}  // namespace

std::string variant_section(const Page& page, std::size_t item) {
    const Label& label = page.labels[item];
    const ReportItem& one = page.items[item];
    const std::string id = "variant-" + label.letter;
    const std::string heading = label.difference.empty() ? label.template_name : label.difference;
    std::string content = advice_list(one.analysis) + problem_list(one.analysis) + shared_table(page, item) +
                          bank_maps(page, item) + global_table(page, item) + occupancy_part(page, item);
    if (content.empty()) content = "<p>Nothing more is known of this variant.</p>\n";
    return element("section", "id=\"" + id + "\" aria-labelledby=\"" + id + "-name\"",
                   "\n<h2 id=\"" + id + "-name\">" + badge(page, item) + " " + escaped(heading) + "</h2>\n" +
                       element("p", "class=\"values\"", element("code", "", escaped(one.analysis.variant))) +
                       "\n" + content) +
           "\n";
}

}  // namespace kiln::inspect
