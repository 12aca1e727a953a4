// SPDX-License-Identifier: Apache-2.0
//
// Pictures: well-formed, named, and with their points and bars where the numbers put them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/tools/report.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "inspect/picture.h"
#include "inspect/plot.h"
#include "inspect/svg.h"
#include "markup.h"
#include "report_sample.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// What every picture has; for those that are files.
Markup expect_picture(const std::string& svg) {
    Markup markup = read_xml(svg);
    EXPECT_EQ(markup.error, "");
    if (markup.tags.empty()) return markup;
    EXPECT_EQ(markup.tags[0].name, "svg");
    EXPECT_EQ(markup.tags[0].attribute("xmlns"), "http://www.w3.org/2000/svg");
    EXPECT_EQ(markup.tags[0].attribute("role"), "img");
    EXPECT_THAT(markup.tags[0].attribute("viewBox"), ::testing::StartsWith("0 0 "));
    EXPECT_THAT(markup.named("title"), SizeIs(1));
    EXPECT_THAT(markup.named("desc"), SizeIs(1));
    if (markup.named("title").empty() || markup.named("desc").empty()) return markup;
    EXPECT_EQ(markup.tags[0].attribute("aria-labelledby"),
              markup.named("title")[0].attribute("id") + " " + markup.named("desc")[0].attribute("id"));
    EXPECT_NE(markup.named("desc")[0].text, "");
    // Nothing is fetched.
    for (const char* bad : {"href", "url(", "@import"}) EXPECT_EQ(svg.find(bad), std::string::npos) << bad;
    return markup;
}

std::vector<std::string> texts_of(const Markup& markup, const std::string& classes) {
    std::vector<std::string> texts;
    for (const Tag& tag : markup.with("class", classes)) texts.push_back(tag.text);
    return texts;
}

double number(const Tag& tag, const char* attribute) { return std::stod(tag.attribute(attribute)); }

TEST(ReportSvg, EscapesWhatXmlCannotHold) {
    EXPECT_EQ(inspect::escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
    EXPECT_EQ(inspect::escaped("ä × €\n\t"), "ä × €\n\t");
    EXPECT_EQ(inspect::escaped(std::string("\0\x01\x1b\x7f", 4)),
              "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    // Cut short, too long for its value, half of a surrogate pair, above the last character.
    for (const char* bad :
         {"\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\x80", "\xFF"})
        EXPECT_THAT(inspect::escaped(bad), ::testing::StartsWith("\xEF\xBF\xBD")) << bad;
    EXPECT_EQ(inspect::escaped("\xF0\x9F\x94\xA5"), "\xF0\x9F\x94\xA5");
    EXPECT_EQ(inspect::escaped("\xEF\xBF\xBE"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "no character";
}

TEST(ReportSvg, WritesCoordinates) {
    EXPECT_EQ(inspect::coordinate(1), "1");
    EXPECT_EQ(inspect::coordinate(0.125), "0.12");
    EXPECT_EQ(inspect::coordinate(-0.001), "0");
    EXPECT_EQ(inspect::coordinate(1e7), "10000000");
    EXPECT_EQ(inspect::coordinate(std::nan("")), "0");
}

TEST(ReportSvg, PutsTicksAtRoundNumbers) {
    EXPECT_THAT((inspect::Axis{0, 64, 0, 1, false}.ticks(4)), ElementsAre(0, 20, 40, 60));
    EXPECT_THAT((inspect::Axis{0, 100, 0, 1, false}.ticks(5)), ElementsAre(0, 20, 40, 60, 80, 100));
    EXPECT_THAT((inspect::Axis{0.1, 100, 0, 1, true}.ticks()), ElementsAre(0.1, 1, 10, 100));
    EXPECT_THAT((inspect::Axis{2, 8, 0, 1, true}.ticks()), ElementsAre(2, 5));
    const inspect::Axis axis{1, 1000, 0, 300, true};
    EXPECT_NEAR(axis.at(10), 100, 1e-9);
    EXPECT_NEAR(axis.at(1e9), 300, 1e-9);
}

TEST(ReportSvg, RooflineHasAPointPerVariant) {
    const std::vector<ReportItem> items = {sample_item(0), sample_item(1)};
    const Markup markup = expect_picture(roofline_svg(items));
    // Both have one intensity, and so stand side by side at one height.
    const std::vector<Tag> points = markup.with("class", "point");
    ASSERT_THAT(points, SizeIs(2));
    EXPECT_EQ(points[0].attribute("cy"), points[1].attribute("cy"));
    EXPECT_THAT(texts_of(markup, "letter"), ElementsAre("A", "B"));
    EXPECT_THAT(texts_of(markup, "hollow-letter"), ElementsAre("A", "B"));
    EXPECT_THAT(texts_of(markup, "roof-name strong"), ElementsAre("FP32 FMA 66.9 TFLOP/s"));
    EXPECT_THAT(texts_of(markup, "roof-name"),
                ::testing::UnorderedElementsAre("FP16 tensor/matrix cores 989.4 TFLOP/s",
                                                "FP16 FMA 133.8 TFLOP/s", "FP64 FMA 33.5 TFLOP/s",
                                                "memory 4800 GB/s", "a copy, measured 4160 GB/s"));
    EXPECT_THAT(markup.named("desc")[0].text,
                HasSubstr("A, tile PAD=0: 16 flops per byte, bound by arithmetic"));
}

// The sample computes 16 flops per byte, and the ridge is at 13.9: its point lies on the flat roof. A tenth of the
// rate lies a decade below, by as many pixels as between two powers of ten on the axis.
TEST(ReportSvg, RooflineScalesAreTrue) {
    ReportItem item = sample_item(0);
    item.analysis.traffic.tiled_bytes.reset();
    // Of the flat roof that bears, and of the point.
    const auto heights = [](const Markup& markup) {
        std::pair<double, double> found{-1, -1};
        for (const Tag& line : markup.with("class", "roof bearing"))
            if (line.attribute("y1") == line.attribute("y2")) found.first = number(line, "y1");
        for (const Tag& point : markup.with("class", "point")) found.second = number(point, "cy");
        return found;
    };
    const auto [roof, on_roof] = heights(expect_picture(roofline_svg(std::vector{item})));
    EXPECT_GT(roof, 0);
    EXPECT_NEAR(on_roof, roof, 0.02);

    item.measured_ms = static_cast<double>(item.analysis.problem.flops) / 6.69e9;  // 6.69 TFLOP/s
    const Markup measured = expect_picture(roofline_svg(std::vector{item}));
    const auto [above, below] = heights(measured);
    std::map<std::string, double> ticks;
    for (const Tag& text : measured.with("class", "figure"))
        if (text.attribute("text-anchor") == "end") ticks[text.text] = number(text, "y");
    ASSERT_EQ(ticks.count("10"), 1U);
    ASSERT_EQ(ticks.count("100"), 1U);
    EXPECT_NEAR(below - above, ticks["10"] - ticks["100"], 0.05);
    EXPECT_THAT(measured.named("desc")[0].text, HasSubstr("measured 6.69 TFLOP/s"));
    EXPECT_THAT(measured.with("class", "drop"), SizeIs(1));
}

TEST(ReportSvg, NothingToDrawIsNoPicture) {
    ReportItem bare;
    bare.analysis.variant = "bare";
    EXPECT_EQ(roofline_svg(std::vector{bare}), "");
    EXPECT_EQ(roofline_svg({}), "");
    EXPECT_EQ(occupancy_svg(bare.analysis), "");
    EXPECT_EQ(access_map_svg(SharedSite{}, bank_model("sm_90a")), "");
}

TEST(ReportSvg, OccupancyMarksWhatBinds) {
    const Analysis analysis = sample_item(0).analysis;
    const Markup markup = expect_picture(occupancy_svg(analysis));
    std::vector<std::string> binding;
    for (const Tag& text : markup.with("class", "hot-text")) binding.push_back(text.text);
    ASSERT_EQ(binding.size(), analysis.occupancy->binding.size());
    for (const std::string& text : binding)
        EXPECT_EQ(text, std::to_string(analysis.occupancy->blocks) + " · binds");
    EXPECT_THAT(markup.with("class", "curve"), SizeIs(2));
    EXPECT_THAT(texts_of(markup, "roof-name strong"), ElementsAre("32 of 64", "32 of 64"));
}

// Where the curve of warps over registers steps down, occupancy() does.
TEST(ReportSvg, OccupancyCurveIsTheModels) {
    const Analysis analysis = sample_item(0).analysis;
    const auto pictures = inspect::occupancy_pictures(analysis);
    ASSERT_THAT(pictures, SizeIs(3));
    const Markup markup = read_xml(pictures[1].file());
    ASSERT_EQ(markup.error, "");
    const std::string path = markup.with("class", "curve")[0].attribute("d");
    // The plot's place for a value, from two ticks of each axis.
    std::map<std::string, const Tag*> x_ticks, y_ticks;
    const std::vector<Tag> figures = markup.with("class", "figure");
    for (const Tag& figure : figures)
        (figure.attribute("text-anchor") == "end" ? y_ticks : x_ticks)[figure.text] = &figure;
    const auto between = [](double low, double high, double low_at, double high_at, double value) {
        return low_at + (value - low) / (high - low) * (high_at - low_at);
    };
    constexpr double kLift = 4;  // of a figure's foot below its tick
    const auto x = [&](int registers) {
        return between(1, 255, number(*x_ticks.at("1"), "x"), number(*x_ticks.at("255"), "x"), registers);
    };
    const auto y = [&](int warps) {
        return between(0, 64, number(*y_ticks.at("0"), "y"), number(*y_ticks.at("64"), "y"), warps) - kLift;
    };
    std::vector<double> expected, found;
    std::optional<int> last;
    for (int registers = 1; registers <= 255; ++registers) {
        int warps = 0;
        try {
            warps =
                occupancy({1024, registers, analysis.static_shared_bytes, 0}, Backend::cuda, "sm_90a").warps;
        } catch (const UsageError&) {
            break;
        }
        if (warps == last) continue;
        expected.insert(expected.end(), {x(registers), y(warps)});
        last = warps;
    }
    ASSERT_GT(expected.size(), 4U);
    std::string numbers = path;
    std::replace_if(
        numbers.begin(), numbers.end(), [](char c) { return c == 'M' || c == 'H' || c == 'V'; }, ' ');
    std::istringstream stream(numbers);
    for (double one = 0; stream >> one;) found.push_back(one);
    found.pop_back();  // to the end of the last step
    ASSERT_EQ(found.size(), expected.size()) << path;
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.03) << i;
}

TEST(ReportSvg, BankMapNamesEveryElementsBank) {
    const BankModel model = bank_model("sm_90a");
    const std::vector<TileLayout> layouts = {{8, 32, 0, 4, false}, {8, 32, 1, 4, false}, {8, 32, 0, 4, true}};
    const Markup markup = expect_picture(bank_map_svg(layouts, model));
    std::vector<std::string> expected, found;
    for (const TileLayout& layout : layouts)
        for (int row = 0; row < layout.rows; ++row)
            for (int column = 0; column < layout.columns; ++column)
                expected.push_back(std::to_string(bank_of(layout.address(row, column), model)));
    for (const Tag& tag : markup.named("text"))
        if (tag.attribute("class").starts_with("bank ")) found.push_back(tag.text);
    EXPECT_EQ(found, expected);
    EXPECT_THAT(texts_of(markup, "heading"),
                ElementsAre("float [8][32]", "float [8][32+1]", "float [8][32], 16-byte chunks swizzled"));
    EXPECT_THAT(texts_of(markup, "hot-text"), ElementsAre("a column: 8 wavefronts, ideal 1, 8-way conflict"));
}

TEST(ReportSvg, AccessMapOffersWhatHelps) {
    const BankModel model = bank_model("sm_90a");
    const SharedSite conflict = sample_line(12, AccessKind::load, 32, 1).site;
    const auto requests = inspect::bank_requests(conflict, model);
    ASSERT_THAT(requests, SizeIs(3));
    EXPECT_EQ(requests[0].taken.actual, 32);
    EXPECT_EQ(requests[1].name, "4 bytes more between these rows");
    EXPECT_EQ(requests[1].taken.actual, 1);
    EXPECT_EQ(requests[2].name, "these rows swizzled by 16 bytes");
    EXPECT_EQ(requests[2].taken.actual, 4) << "8 chunks, of which four lanes share one each";
    const Markup markup = expect_picture(access_map_svg(conflict, model));
    EXPECT_THAT(texts_of(markup, "hot-text"), ElementsAre("32 wavefronts, ideal 1, 32-way conflict",
                                                          "4 wavefronts, ideal 1, 4-way conflict"));
    EXPECT_THAT(markup.with("class", "cell conflict"), SizeIs(64));
    EXPECT_THAT(markup.with("class", "cell asked"), SizeIs(32));

    // Free of conflicts: nothing to offer.
    EXPECT_THAT(inspect::bank_requests(sample_line(9, AccessKind::store, 1, 1).site, model), SizeIs(1));
    // Lanes without a pitch: as recorded alone.
    SharedSite scattered = conflict;
    scattered.worst.assign({0, 128, 4 * 77, 4 * 96});
    EXPECT_THAT(inspect::bank_requests(scattered, model), SizeIs(::testing::Ge(1U)));
}

// What the picture highlights agrees with the model's own count, for widths, pitches and architectures.
TEST(ReportSvg, AccessMapShowsTheModelsDegree) {
    for (const char* arch : {"sm_90a", "gfx90a"}) {
        const BankModel model = bank_model(arch);
        for (const int width : {2, 4, 8, 16}) {
            for (const unsigned pitch : {64U, 80U, 128U, 136U, 144U, 256U}) {
                SharedSite site;
                site.as_written.bytes = width;
                for (unsigned lane = 0; lane < static_cast<unsigned>(model.lanes); ++lane)
                    site.worst.emplace_back(lane * pitch);
                const auto requests = inspect::bank_requests(site, model);
                ASSERT_FALSE(requests.empty());
                const Markup markup = read_xml(inspect::access_picture(requests[0], site, model).file());
                EXPECT_EQ(markup.error, "");
                int most = 1;
                for (const Tag& text : markup.with("class", "count"))
                    if (text.text.starts_with("×")) most = std::max(most, std::stoi(text.text.substr(2)));
                EXPECT_EQ(most, std::max(1, requests[0].taken.degree))
                    << arch << " " << width << " " << pitch;
                EXPECT_EQ(markup.with("class", "cell conflict").empty(), most == 1)
                    << arch << " " << width << " " << pitch;
            }
        }
    }
}

}  // namespace
}  // namespace kiln::test
