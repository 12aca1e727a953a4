// SPDX-License-Identifier: Apache-2.0
//
// The page: its structure, that its numbers are the analysis's, that whatever comes in stays text, and that it can
// do without any part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/tools/report.h>

#include <functional>
#include <iterator>
#include <set>
#include <sstream>

#include "inspect/report_rows.h"
#include "inspect/report_text.h"
#include "markup.h"
#include "report_sample.h"

namespace kiln::test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
}

/// Reads a page and holds it to what all have to be.
Markup expect_page(const std::string& html) {
    Markup markup = read_html(html);
    EXPECT_EQ(markup.error, "");
    std::set<std::string> ids;
    int level = 0, first_headings = 0;
    for (const Tag& tag : markup.tags) {
        if (const std::string id = tag.attribute("id"); !id.empty()) {
            EXPECT_TRUE(ids.insert(id).second) << id << " is there twice";
        }
        if (tag.name.size() == 2 && tag.name[0] == 'h' && std::isdigit(tag.name[1]) != 0) {
            EXPECT_LE(tag.name[1] - '0', level + 1) << "a heading's level is left out before " << tag.text;
            level = tag.name[1] - '0';
            first_headings += level == 1;
        }
        if (tag.name == "th") {
            EXPECT_THAT(tag.attribute("scope"), AnyOf("col", "row", "rowgroup")) << tag.text;
        }
        EXPECT_EQ(tag.attributes.count("src"), 0U);
        for (const auto& [name, value] : tag.attributes) EXPECT_FALSE(name.starts_with("on")) << name;
    }
    for (const Tag& tag : markup.tags) {
        if (const std::string target = tag.attribute("href"); target.starts_with("#")) {
            EXPECT_EQ(ids.count(target.substr(1)), 1U) << target << " leads nowhere";
        }
        for (const char* names : {"aria-labelledby", "data-table"})
            for (const std::string& id : words_of(tag.attribute(names))) EXPECT_EQ(ids.count(id), 1U) << id;
    }
    EXPECT_EQ(first_headings, 1);
    for (const char* landmark : {"header", "nav", "main", "footer"})
        EXPECT_THAT(markup.named(landmark), SizeIs(1));
    EXPECT_EQ(markup.named("table").size(), markup.named("caption").size());
    EXPECT_EQ(markup.named("html")[0].attribute("lang"), "en");
    EXPECT_THAT(markup.named("script"), SizeIs(1));
    for (const char* bad : {"http:", "https:", "@import", "nan", "-inf"})
        EXPECT_EQ(html.find(bad), std::string::npos) << bad;
    return markup;
}

std::vector<ReportItem> samples(int count) {
    std::vector<ReportItem> items;
    for (int pad = 0; pad < count; ++pad) items.push_back(sample_item(pad));
    return items;
}

/// The figures of one row, in the order of the variants.
std::vector<double> values_of(const std::string& html, const std::string& row) {
    const std::size_t begin = html.find("<tr data-row=\"" + row + "\"");
    EXPECT_NE(begin, std::string::npos) << row;
    const std::string text = html.substr(begin, html.find("</tr>", begin) - begin);
    std::vector<double> values;
    const std::string mark = "data-value=\"";
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
        values.push_back(std::stod(text.substr(at + mark.size())));
    return values;
}

TEST(ReportPage, OneVariant) {
    const std::string html = report_html(samples(1));
    const Markup markup = expect_page(html);
    EXPECT_EQ(markup.named("h1")[0].text, "tile");
    // 3 of the roofline's page and 1 + 3 of the variant: roofline, banks (conflict, pad, swizzle), occupancy.
    EXPECT_THAT(markup.named("svg"), SizeIs(1 + 3 + 3));
    EXPECT_THAT(html, Not(HasSubstr("class=\"best\"")));
    EXPECT_THAT(markup.with("class", "differences"), IsEmpty());
}

TEST(ReportPage, EightVariants) {
    const std::string html = report_html(samples(8));
    const Markup markup = expect_page(html);
    EXPECT_EQ(markup.named("h1")[0].text, "8 variants of tile");
    for (int i = 0; i < 8; ++i) {
        const std::string id = "variant-" + std::string(1, static_cast<char>('A' + i));
        ASSERT_THAT(markup.with("id", id), SizeIs(1));
        EXPECT_EQ(markup.with("id", id)[0].name, "section");
        EXPECT_THAT(html, HasSubstr("PAD=" + std::to_string(i)));
    }
    // One source with a column for each, not eight sources.
    EXPECT_THAT(markup.with("class", "source many wide"), SizeIs(1));
}

TEST(ReportPage, NumbersAreTheAnalyses) {
    const std::vector<ReportItem> items = samples(3);
    const std::string html = report_html(items);
    const auto expect_row = [&](const std::string& row, const std::function<double(const Analysis&)>& value) {
        std::vector<double> expected;
        for (const ReportItem& item : items) expected.push_back(value(item.analysis));
        EXPECT_EQ(values_of(html, row), expected) << row;
    };
    expect_row("floor", [](const Analysis& a) { return a.roofline->floor_ms; });
    expect_row("attainable", [](const Analysis& a) { return a.roofline->attainable_tflops; });
    expect_row("intensity", [](const Analysis& a) { return a.roofline->intensity; });
    expect_row("blocks", [](const Analysis& a) { return a.occupancy->blocks; });
    expect_row("occupancy", [](const Analysis& a) { return a.occupancy->fraction(); });
    expect_row("waves", [](const Analysis& a) { return a.waves->waves; });
    expect_row("efficiency", [](const Analysis& a) { return a.waves->efficiency; });
    expect_row("mean-occupancy", [](const Analysis& a) { return a.waves->mean_occupancy; });
    expect_row("registers", [](const Analysis& a) { return *a.resources.registers; });
    expect_row("shared-bytes", [](const Analysis& a) { return static_cast<double>(a.static_shared_bytes); });
    expect_row("excess", [](const Analysis& a) { return a.excess(); });
    expect_row("wavefronts", [](const Analysis& a) { return a.shared_wavefronts; });
    expect_row("ideal", [](const Analysis& a) { return a.shared_ideal; });
    expect_row("tiled", [](const Analysis& a) { return *a.traffic.tiled_bytes; });
    expect_row("sectors", [](const Analysis& a) { return a.global_sectors; });
    expect_row("problems",
               [](const Analysis& a) { return static_cast<double>(a.recording->problems.size()); });
}

TEST(ReportPage, MarksTheBestOfARow) {
    const std::vector<ReportItem> items = samples(3);
    const auto groups = inspect::rows_of(items);
    const auto best_of = [&](const std::string& id) {
        std::string letters;
        for (const auto& group : groups)
            for (const auto& row : group.rows)
                if (row.id == id)
                    for (std::size_t i = 0; i < row.figures.size(); ++i)
                        if (row.figures[i].best) letters += static_cast<char>('A' + i);
        return letters;
    };
    EXPECT_EQ(best_of("registers"), "A");
    EXPECT_EQ(best_of("excess"), "B") << "an odd pitch has no conflict";
    EXPECT_EQ(best_of("degree"), "B");
    EXPECT_EQ(best_of("tile-intensity"), "") << "all are alike";
    EXPECT_EQ(best_of("grid"), "") << "is neither good nor bad";
}

TEST(ReportPage, SourceLinesHaveTheirWavefronts) {
    const std::string html = report_html(samples(2));
    // Line 12 of PAD=0: 32 wavefronts where one would do, the store takes little.
    const std::size_t at = html.find("id=\"source-1-12\"");
    ASSERT_NE(at, std::string::npos);
    const std::string line = html.substr(at, html.find("</tr>", at) - at);
    EXPECT_THAT(line, HasSubstr("data-value=\"16777216\""));
    EXPECT_THAT(line, HasSubstr("+3100%"));
    EXPECT_THAT(line, HasSubstr("98%"));
    EXPECT_THAT(line, HasSubstr("class=\"hot\""));
    EXPECT_THAT(line, HasSubstr("c[y * n + x] = tile[x][y];"));
    // A line that accesses nothing folds away; the template's lines are all there.
    EXPECT_THAT(html, HasSubstr("id=\"source-1-1\" class=\"quiet\""));
    EXPECT_THAT(html, HasSubstr("id=\"source-1-13\""));
    EXPECT_THAT(html, Not(HasSubstr("id=\"source-1-14\"")));
}

TEST(ReportPage, WhateverComesInStaysText) {
    const std::string attack = "<script>alert(1)</script>\"'&amp;</style>--><!--\x01\xFF";
    ReportItem item = sample_item(0);
    item.summary = attack;
    item.source_file = "tile.cu\"><script>alert(1)</script>";
    item.source += attack;
    Analysis& analysis = item.analysis;
    analysis.variant = "tile T=" + attack;
    analysis.arch = "sm_90a";
    analysis.chip_name = attack;
    analysis.problem.sizes = {{attack, 3}};
    analysis.advice = {{Advice::Weight::warning, attack, attack}};
    for (SharedLine& line : analysis.shared) {
        line.site.variable = attack;
        line.belief = attack;
        line.site.place = {attack, 3, attack};
    }
    AccessProblem problem;
    problem.place = {attack, 1, attack};
    problem.variable = attack;
    analysis.recording->problems = {problem};
    analysis.recorded_sizes = {{attack, 3}};
    ReportOptions options{attack, attack, attack, attack, attack};
    const std::string html = report_html(std::vector{item, sample_item(1)}, options);
    const Markup markup = expect_page(html);
    EXPECT_THAT(markup.named("style"), SizeIs(1));
    EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(html, Not(HasSubstr("\x01")));
    EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;amp;"));
    for (const std::string& svg : {roofline_svg(std::vector{item}), occupancy_svg(analysis)})
        EXPECT_EQ(read_xml(svg).error, "");
}

TEST(ReportPage, AnyPartMayBeMissing) {
    ReportItem bare;
    bare.analysis.variant = "bare";
    bare.analysis.arch = "x86-64-v3";
    const Markup markup = expect_page(report_html(std::vector{bare}));
    EXPECT_THAT(markup.named("svg"), IsEmpty());
    EXPECT_THAT(markup.with("id", "source"), IsEmpty());

    const std::vector<std::function<void(ReportItem&)>> without = {
        [](ReportItem& item) { item.analysis.occupancy.reset(); },
        [](ReportItem& item) { item.analysis.waves.reset(); },
        [](ReportItem& item) { item.analysis.roofline.reset(); },
        [](ReportItem& item) {
            item.analysis.chip = nullptr;
            item.analysis.chip_name.clear();
        },
        [](ReportItem& item) {
            item.analysis.recording.reset();
            item.analysis.shared.clear();
            item.analysis.traffic = {};
        },
        [](ReportItem& item) { item.source.clear(); },
        [](ReportItem& item) { item.analysis.resources = {}; },
        [](ReportItem& item) { item.analysis.advice.clear(); },
        [](ReportItem& item) { item.analysis.problem.flops = 0; },
        [](ReportItem& item) { item.analysis.arch = "unheard-of"; }};
    for (std::size_t i = 0; i < without.size(); ++i) {
        SCOPED_TRACE(i);
        std::vector<ReportItem> items = samples(2);
        without[i](items[0]);
        (void)expect_page(report_html(items));  // next to one that has it
        without[i](items[1]);
        (void)expect_page(report_html(items));
    }
    std::vector<ReportItem> items = samples(2);
    items[0].analysis.recording.reset();
    items[0].analysis.shared.clear();
    EXPECT_THAT(values_of(report_html(items), "excess"), SizeIs(1)) << "what is not known is no number";
}

TEST(ReportPage, ReportsWhereItComesFrom) {
    const std::string html = report_html(
        samples(2), {"Tiles", "kiln report tile PAD=0,1", "a machine", "2026-11-21 22:05 UTC", "1.2.3"});
    for (const char* text :
         {"<h1>Tiles</h1>", "<code>kiln report tile PAD=0,1</code>",
          "Made by Kiln 1.2.3, 2026-11-21 22:05 UTC, on a machine.", "NVIDIA H200 Tensor Core GPU data sheet",
          "4800 GB/s and 66.9 TFLOP/s of FP32 FMA", "8 blocks of 16"})
        EXPECT_THAT(html, HasSubstr(text));
    EXPECT_THROW((void)report_html({}), UsageError);
}

TEST(ReportPage, VariantsAreCalledByWhatDiffers) {
    std::vector<ReportItem> items(4);
    items[0].analysis.variant = "gemm T=half PAD=0 VEC=1";
    items[1].analysis.variant = "gemm T=half PAD=2 VEC=1";
    items[2].analysis.variant = "gemm T=half PAD=2 VEC=4";
    items[3].analysis.variant = "copy T=float";
    const auto labels = inspect::labels_of(items);
    EXPECT_EQ(labels[0].name(), "gemm PAD=0 VEC=1");
    EXPECT_EQ(labels[2].name(), "gemm PAD=2 VEC=4");
    EXPECT_EQ(labels[2].common, "T=half");
    EXPECT_EQ(labels[3].name(), "copy");
    EXPECT_EQ(labels[3].letter, "D");
    const auto many = inspect::labels_of(std::vector<ReportItem>(703));
    EXPECT_EQ(many[25].letter, "Z");
    EXPECT_EQ(many[26].letter, "AA");
    EXPECT_EQ(many[702].letter, "AAA");
}

TEST(ReportPage, AnItemHasItsTemplatesText) {
    const std::string text =
        "// scaled: y = 2 x, for tests\n//\n//@ kernel scaled\n//@ block 32\n//@ grid ceil_div(n, 32)\n"
        "#include \"kiln/device.h\"\n\nextern \"C\" __global__ void scaled(int n, float* x) { x[threadIdx.x] "
        "*= 2; }\n";
    const ReportItem item = ReportItem::of(Template::parse(text, "folder/scaled.cu").variant(), Analysis{});
    EXPECT_EQ(item.source, text);
    EXPECT_EQ(item.source_file, "scaled.cu");
    EXPECT_THAT(item.summary, HasSubstr("y = 2 x"));
}

}  // namespace
}  // namespace kiln::test
