// SPDX-License-Identifier: Apache-2.0
//
// kiln lab banks: the table, its choices, the picture of a layout; and the patterns against the kernel's own
// parameters.
#include "cli/kiln_lab.h"

#include <kiln/error.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class KilnLab : public Kiln {
  protected:
    Outcome banks(Arguments more) const {
        more.insert(more.begin(), {"lab", "banks"});
        return run(std::move(more));
    }
    static const nlohmann::json& pattern(const nlohmann::json& table, const std::string& name) {
        return *std::find_if(table["patterns"].begin(), table["patterns"].end(),
                             [&](const auto& one) { return one["name"] == name; });
    }
};

TEST_F(KilnLab, PredictsForAnArchitecture) {
    const Outcome result = banks({"--arch", "sm_90a", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    const auto json = result.json();
    EXPECT_EQ(json["arch"], "sm_90a");
    EXPECT_TRUE(json["device"].is_null());
    const std::tuple<const char*, int, int> expected[] = {{"stride-1", 1, 1},
                                                          {"stride-32", 32, 1},
                                                          {"stride-33", 1, 1},
                                                          {"broadcast", 1, 1},
                                                          {"column+0", 32, 1},
                                                          {"column+1", 1, 1},
                                                          {"half-column+0", 16, 1},
                                                          {"half-column+8", 4, 1},
                                                          {"half2-column+2", 1, 1},
                                                          {"16-byte-column+4", 4, 4},
                                                          {"16-byte-broadcast", 2, 2},
                                                          {"8-byte-pairs", 1, 1},
                                                          {"ldmatrix+0", 32, 4},
                                                          {"ldmatrix+8", 4, 4},
                                                          {"ldmatrix-swizzle-64", 4, 4},
                                                          {"ldmatrix-swizzle-32", 4, 4},
                                                          {"column-swizzle", 1, 1}};
    for (const auto& [name, actual, ideal] : expected) {
        EXPECT_EQ(pattern(json, name)["predicted"]["wavefronts"], actual) << name;
        EXPECT_EQ(pattern(json, name)["predicted"]["ideal"], ideal) << name;
        EXPECT_TRUE(pattern(json, name)["cycles"].is_null());
    }
    EXPECT_EQ(pattern(json, "half2-column+1")["predicted"]["aligned"], false);
    EXPECT_EQ(pattern(json, "16-byte-broadcast")["predicted"]["merged"], true);
    EXPECT_EQ(pattern(json, "16-byte-row")["predicted"]["merged"], false);

    const Outcome text = banks({"--arch", "gfx90a"});
    EXPECT_THAT(text.out, HasSubstr("Predicted for gfx90a"));
    EXPECT_THAT(text.out, Not(HasSubstr("64-way conflict")));
    EXPECT_THAT(text.out, HasSubstr("32-way conflict"));
    EXPECT_FALSE(std::filesystem::exists(path("cache"))) << "a prediction builds nothing";
}

TEST_F(KilnLab, ChoosesPatterns) {
    const auto names = [&](Arguments arguments) {
        arguments.insert(arguments.end(), {"--arch", "sm_80", "--json"});
        std::vector<std::string> found;
        const auto json = banks(std::move(arguments)).json();
        for (const auto& one : json["patterns"]) found.push_back(one["name"]);
        return found;
    };
    EXPECT_THAT(names({"--pattern", "broadcast"}), ElementsAre("broadcast"));
    EXPECT_THAT(names({"--pattern", "ldmatrix"}), ElementsAre("ldmatrix+0", "ldmatrix+1", "ldmatrix+8",
                                                              "ldmatrix-swizzle-64", "ldmatrix-swizzle-32"));
    EXPECT_THAT(names({"--pattern", "stride", "--stride", "6,1..3"}),
                ElementsAre("stride-6", "stride-1", "stride-2", "stride-3"));
    expect_error(banks({"--pattern", "colum", "--arch", "sm_80"}), 2, {"'colum'", "Did you mean column?"});
    expect_error(banks({"--stride", "0"}), 2, {"--stride"});
    expect_error(banks({"--stride", "8..4"}), 2, {"upwards"});
    expect_error(banks({"--stride", "257"}), 2, {"--stride", "256"});
    expect_error(banks({"--arch", "gfx950"}), 2, {"gfx950", "not known"});
}

TEST_F(KilnLab, Map) {
    const auto json = banks({"--map", "4", "32", "--pad", "1", "--json"}).json();
    EXPECT_EQ(json["bank"].size(), 4U);
    EXPECT_EQ(json["bank"][0][31], 31);
    EXPECT_EQ(json["bank"][1][0], 1);
    EXPECT_EQ(json["bank"][3][31], (3 * 33 + 31) % 32);
    EXPECT_EQ(json["read_column"]["wavefronts"], 1);

    const auto half = banks({"--map", "32", "32", "--element", "half", "--json"}).json();
    EXPECT_EQ(half["bank"][0][3], 1);
    EXPECT_EQ(half["bank"][1][0], 16);
    EXPECT_EQ(half["read_column"]["wavefronts"], 16);

    const Outcome text = banks({"--map", "2", "4"});
    EXPECT_THAT(text.out, HasSubstr("    0 |  0  1  2  3\n    1 |  4  5  6  7\n"));
}

// The swizzle of the XOR recipes: no 16-byte column of a half tile conflicts.
TEST_F(KilnLab, SwizzledMap) {
    for (const int columns : {32, 64}) {
        const cli::LabLayout layout{8, columns, 0, 2, true};
        std::vector<std::optional<std::uint32_t>> rows;
        for (int row = 0; row < 8; ++row) rows.emplace_back(layout.address(row, 8));
        EXPECT_EQ(wavefronts(rows, 16, bank_model("sm_90a")).actual, 1) << columns;
        // Nothing is lost: each place is taken once.
        std::set<std::uint32_t> places;
        for (int row = 0; row < 8; ++row)
            for (int column = 0; column < columns; ++column) places.insert(layout.address(row, column));
        EXPECT_EQ(places.size(), static_cast<std::size_t>(8 * columns));
        EXPECT_EQ(*places.rbegin(), static_cast<std::uint32_t>((8 * columns - 1) * 2));
    }
    expect_error(banks({"--map", "8", "33", "--swizzle"}), 2, {"132 bytes", "multiple"});
}

TEST_F(KilnLab, Svg) {
    const std::string file = path("banks.svg").string();
    EXPECT_EQ(banks({"--map", "3", "5", "--svg", file}).status, 0);
    const std::string svg = read_text_if_exists(file).value_or("");
    EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns="));
    EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
    std::size_t cells = 0;
    for (std::size_t at = svg.find("hsl("); at != std::string::npos; at = svg.find("hsl(", at + 1)) ++cells;
    EXPECT_EQ(cells, 15U);
    EXPECT_EQ(banks({"--map", "5", "5", "--svg", file}).status, 0) << "Kiln's own is replaced";
    const std::string mine = write("mine.svg", "<svg>mine</svg>\n");
    expect_error(banks({"--map", "3", "5", "--svg", mine}), 2, {"mine.svg is no picture that Kiln wrote"});
    EXPECT_EQ(read_text_if_exists(mine), "<svg>mine</svg>\n");
}

// Several layouts: tables side by side, as far as they fit; one picture; a list in JSON.
TEST_F(KilnLab, MapsSideBySide) {
    const Outcome text = banks({"--map", "2", "8", "--pad", "0,1,2", "--swizzle"});
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("    1 |  8  9 10 11 12 13 14 15"));
    EXPECT_THAT(text.out, ::testing::ContainsRegex(
                              "float \\[2\\]\\[8\\] +float \\[2\\]\\[8\\+1\\] +float "
                              "\\[2\\]\\[8\\+2\\] +float \\[2\\]\\[8\\], 16-byte chunks swizzled\n"));
    EXPECT_THAT(text.out, ::testing::ContainsRegex("    1 \\|  8 [ 0-9]+    1 \\|  9 [ 0-9]+    1 \\| 10 "));

    const std::string file = path("maps.svg").string();
    const auto json =
        banks({"--map", "8", "32", "--pad", "0,1,2", "--swizzle", "--svg", file, "--json"}).json();
    ASSERT_EQ(json["layouts"].size(), 4U);
    EXPECT_EQ(json["layouts"][0]["read_column"]["wavefronts"], 8);
    EXPECT_EQ(json["layouts"][1]["pad"], 1);
    EXPECT_EQ(json["layouts"][1]["read_column"]["wavefronts"], 1);
    EXPECT_EQ(json["layouts"][3]["swizzle"], true);
    EXPECT_EQ(json["layouts"][3]["pad"], 0);
    EXPECT_EQ(json["layouts"][3]["read_column"]["wavefronts"], 1);
    const std::string svg = read_text_if_exists(file).value_or("");
    EXPECT_THAT(svg, HasSubstr("float [8][32+2]"));

    // What does not fit a terminal goes on below.
    const BankModel model = bank_model("sm_90a");
    const std::vector<TileLayout> layouts = {{2, 8, 0, 4, false}, {2, 8, 1, 4, false}};
    const std::string wide = cli::layouts_text(layouts, model, 200),
                      narrow = cli::layouts_text(layouts, model, 50);
    EXPECT_LT(std::count(wide.begin(), wide.end(), '\n'), std::count(narrow.begin(), narrow.end(), '\n'));
    expect_error(banks({"--map", "2", "8", "--pad", "1,x"}), 2, {"--pad", "'x'"});
    expect_error(banks({"--map", "2", "8", "--pad", "0,"}), 2, {"--pad"});
}

TEST_F(KilnLab, Usage) {
    expect_error(run({"lab", "bank"}), 2, {"kiln lab banks"});
    expect_error(run({"lab"}), 2, {"missing"});
    expect_error(banks({"32", "32"}), 2, {"--map"});
    EXPECT_THAT(run({"lab", "--help"}).out, HasSubstr("banks [--map ROWS COLUMNS]"));
    expect_error(banks({"--map", "32"}), 2, {"ROWS COLUMNS"});
    expect_error(banks({"--map", "32", "0"}), 2, {"COLUMNS"});
    expect_error(banks({"--pad", "1"}), 2, {"--pad", "--map"});
    expect_error(banks({"--swizzle"}), 2, {"--map"});
    expect_error(banks({"--map", "3", "3", "--stride", "2"}), 2, {"--stride"});
    expect_error(banks({"--map", "3", "3", "--element", "double"}), 2, {"double", "half or float"});
}

// What the table predicts is a legal variant of the kernel that measures it, but for misaligned patterns.
TEST_F(KilnLab, EveryPatternIsAVariant) {
    const BankModel model = bank_model("sm_90a");
    ServiceOptions options;
    options.arch = "sm_90a";
    options.compile_only = true;
    const Service service(std::move(options));
    const Template kernel = service.find("lab_banks");
    for (const auto& one : cli::lab_patterns(cli::parse_strides("1..64,256"))) {
        const Values values = {{"WIDTH", one.width}, {"PITCH", one.pitch}, {"ROWS", one.rows},
                               {"SHARE", one.share}, {"SHIFT", one.shift}, {"MASK", one.mask}};
        if (!one.predicted(model).aligned) {
            EXPECT_THROW((void)kernel.variant(values), VariantError) << one.name;
            continue;
        }
        const Variant variant = kernel.variant(values);
        for (int lane = 0; lane < 64; ++lane)
            EXPECT_LE(one.address(lane) + static_cast<unsigned>(one.width), variant.dynamic_shared_bytes())
                << one.name << " lane " << lane;
    }
}

// A host's cycles mean nothing, but what the kernel reads is what the pattern says.
TEST_F(KilnLab, MeasuringVerifiesWhatWasRead) {
    ServiceOptions options;
    options.backend = Backend::host;
    options.cache.directory = path("cache");
    std::optional<Service> service;
    try {
        service.emplace(std::move(options));
        (void)service->build(service->find("lab_banks").variant());
    } catch (const BuildError& error) {
        KILN_REQUIRE_OR_SKIP("host", false, error.what());
    }
    const BankModel model = bank_model("sm_90a");
    const auto patterns = cli::lab_patterns({3});
    for (const char* name :
         {"stride-3", "byte-row", "half-column+8", "8-byte-pairs", "ldmatrix-swizzle-32"}) {
        auto one = *std::find_if(patterns.begin(), patterns.end(),
                                 [&](const auto& each) { return each.name == name; });
        const cli::LabTime time = cli::measure(*service, one, model);
        EXPECT_TRUE(time.verified) << name;
        EXPECT_GT(time.cycles, 0) << name;
    }
}

}  // namespace
}  // namespace kiln::test
