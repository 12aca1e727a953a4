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
        list += html("one-advice", {{"kind", kind},
                                    {"sign", sign},
                                    {"word", word},
                                    {"text", sentence(advice.text)},
                                    {"change", advice.change}});
    }
    return html("advice", {{"list", list}});
}

std::string problem_list(const Analysis& analysis) {
    if (!analysis.recording || analysis.recording->problems.empty()) return {};
    const auto& problems = analysis.recording->problems;
    const std::size_t shown = std::min(problems.size(), kMostProblems);
    std::string list;
    for (std::size_t i = 0; i < shown; ++i) list += html("problem", {{"text", problems[i].text()}});
    return html(
        "problems",
        {{"list", list}, {"more", problems.size() > shown ? std::to_string(problems.size() - shown) : ""}});
}

std::string place_text(const Page& page, std::size_t item, const SourcePlace& place) {
    return html("place", {{"id", line_id(page, item, place)},
                          {"line", std::to_string(place.line)},
                          {"inner", place.inner},
                          {"text", place.text()}});
}

std::string number_cell(double value, std::string_view text, bool hot = false) {
    return html("number", {{"hot", flag(hot)}, {"value", exactly(value)}, {"text", text}});
}

/// "shared read, tile"
std::string what_text(const SharedSite& site) {
    return std::string(name(site.kind)) + (site.variable.empty() ? "" : ", " + site.variable);
}

std::string bytes_of_lane(int bytes) { return counted(static_cast<std::uint64_t>(bytes), "byte", "bytes"); }

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
        body += html(
            "access",
            {{"line", exactly(line.site.place.line)},
             {"place", place_text(page, item, line.site.place)},
             {"what", what_text(line.site)},
             {"bytes", exactly(cost.bytes)},
             {"width", bytes_of_lane(cost.bytes)},
             {"note", line.belief},
             {"numbers",
              number_cell(static_cast<double>(cost.requests), grouped(static_cast<double>(cost.requests))) +
                  number_cell(wavefronts, grouped(wavefronts)) + number_cell(ideal, grouped(ideal)) +
                  number_cell(excess, excess_text(excess), excess > 0) +
                  number_cell(cost.degree, cost.degree > 1 ? formatted("{}-way", cost.degree) : "none")}});
    }
    return html("shared", {{"recorded", recorded_text(*analysis.recording)},
                           {"letter", page.labels[item].letter},
                           {"rows", body}});
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
        const auto requests = static_cast<double>(site.merged_requests);
        body += html("access", {{"line", exactly(site.place.line)},
                                {"place", place_text(page, item, site.place)},
                                {"what", name(site.kind)},
                                {"bytes", exactly(site.bytes)},
                                {"width", bytes_of_lane(site.bytes)},
                                {"note", site.merged_requests < site.requests ? "merged" : ""},
                                {"numbers", number_cell(requests, grouped(requests)) +
                                                number_cell(sectors, grouped(sectors)) +
                                                number_cell(ideal, grouped(ideal)) +
                                                number_cell(excess, excess_text(excess), excess > 0) +
                                                number_cell(per_request, formatted("{:.3g}", per_request))}});
    }
    return html("global", {{"recorded", recorded_text(*analysis.recording)},
                           {"letter", page.labels[item].letter},
                           {"rows", body}});
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
        maps += html("bank-map", {{"place", place_text(page, item, line->site.place)},
                                  {"what", what_text(line->site)},
                                  {"bytes", bytes_of_lane(line->site.as_written.bytes)},
                                  {"pictures", row}});
    }
    if (maps.empty()) return {};
    // The explanation appears once per page.
    bool first = true;
    for (std::size_t before = 0; before < item; ++before)
        first = first && worst_sites(page.items[before].analysis).empty();
    return html("banks", {{"first", flag(first)}, {"maps", maps}});
}

std::string occupancy_part(const Page& page, std::size_t item) {
    const Analysis& analysis = page.items[item].analysis;
    const std::vector<Picture> pictures = occupancy_pictures(analysis);
    if (pictures.empty()) return {};
    std::string row;
    for (std::size_t i = 0; i < pictures.size(); ++i)
        row += pictures[i].inlined(formatted("occupancy-{}-{}", page.labels[item].letter, i + 1)) + "\n";
    const auto& more = analysis.occupancy->registers_for_one_more;
    return html("occupancy", {{"multiprocessor", multiprocessor_text(analysis.arch)},
                              {"registers", more ? std::to_string(*more) : ""},
                              {"pictures", row}});
}

}  // namespace

std::string variant_section(const Page& page, std::size_t item) {
    const Label& label = page.labels[item];
    const ReportItem& one = page.items[item];
    return html("variant", {{"letter", label.letter},
                            {"badge", badge(page, item)},
                            {"heading", label.difference.empty() ? label.template_name : label.difference},
                            {"values", one.analysis.variant},
                            {"content", advice_list(one.analysis) + problem_list(one.analysis) +
                                            shared_table(page, item) + bank_maps(page, item) +
                                            global_table(page, item) + occupancy_part(page, item)}});
}

}  // namespace kiln::inspect
