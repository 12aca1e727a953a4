// SPDX-License-Identifier: Apache-2.0
//
// kiln report: which variants it takes from a command line and a manifest, where the page goes, what it rejects.
// Analyses are of the host, which every machine with a C++ compiler can make.
#include <algorithm>

#include "kiln_program.h"
#include "markup.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class KilnReport : public Kiln {
  protected:
    KilnReport()
        : folder_(with_template(
              "scaled",
              "// scaled: y = SCALE x <script>alert(1)</script>, for tests\n//\n//@ kernel scaled\n"
              "//@ param SCALE int in 1, 2, 3 = 1 \"factor\"\n//@ param PAD int in 0, 1 = 0 \"of the tile\"\n"
              "//@ block 32\n//@ grid ceil_div(n, 32)\n//@ size n = 1024 test 100\n//@ input x [n]\n//@ "
              "output y [n]\n"
              "//@ flops n\n#include \"kiln/device.h\"\n\n"
              "extern \"C\" __global__ void scaled(int n, const float* x, float* y) {\n"
              "    __shared__ float tile[32 * (32 + PAD)];\n"
              "    const int i = blockIdx.x * 32 + threadIdx.x;\n"
              "    tile[threadIdx.x * (32 + PAD)] = i < n ? x[i] : 0.0f;\n"
              "    __syncthreads();\n"
              "    if (i < n) y[i] = SCALE * tile[threadIdx.x * (32 + PAD)];\n}\n")) {}

    Outcome report(Arguments more) const {
        Arguments arguments = {"report", "--backend", "host", "--template-dir", folder_};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments));
    }
    std::vector<std::string> variants(const Outcome& outcome) const {
        std::vector<std::string> found;
        const auto json = outcome.json();
        for (const auto& one : json["variants"]) found.push_back(one["variant"]);
        return found;
    }
    bool compiles() const {
        static const bool can = report({"scaled", "--output", "-"}).status == 0;
        return can;
    }

    std::string folder_;
};

TEST_F(KilnReport, WritesAPage) {
    KILN_REQUIRE_OR_SKIP("host", compiles(), "no C++ compiler");
    const std::string file = path("report.html").string();
    const Outcome result = report({"scaled", "PAD=0", "scaled", "PAD=1", "--size", "n=4096", "--title",
                                   "Pads & tiles", "--output", file});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(file));
    const std::string html = read_text_if_exists(file).value_or("");
    const Markup markup = read_html(html);
    EXPECT_EQ(markup.error, "");
    ASSERT_EQ(markup.named("h1").size(), 1U);
    EXPECT_EQ(markup.named("h1")[0].text, "Pads &amp; tiles");
    EXPECT_THAT(html, HasSubstr("PAD=1"));
    EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)"));
    EXPECT_THAT(html, Not(HasSubstr("<script>alert(1)")));
    EXPECT_THAT(html, HasSubstr("tile[threadIdx.x * (32 + PAD)]")) << "the source";
    // The command that makes it again, as a shell understands it.
    EXPECT_THAT(html, HasSubstr("kiln report scaled PAD=0 scaled PAD=1"));
    EXPECT_THAT(html, HasSubstr("--backend host"));
    EXPECT_THAT(html, HasSubstr("--title &#39;Pads &amp; tiles&#39;"));
    // The load of a column conflicts, unless it is padded.
    EXPECT_THAT(html, HasSubstr("32-way"));
    for (const auto& entry : std::filesystem::directory_iterator(path(".")))
        EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".tmp"))) << "left behind";
}

TEST_F(KilnReport, TakesVariantsFromWordsAndManifests) {
    KILN_REQUIRE_OR_SKIP("host", compiles(), "no C++ compiler");
    const std::string file = path("report.html").string();
    const auto of = [&](Arguments more) {
        more.insert(more.end(), {"--no-record", "--json", "--output", file});
        const Outcome outcome = report(std::move(more));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return variants(outcome);
    };
    using List = std::vector<std::string>;
    EXPECT_EQ(of({"scaled"}), (List{"scaled SCALE=1 PAD=0"}));
    EXPECT_EQ(of({"scaled", "SCALE=2,3", "scaled", "SCALE=3"}),
              (List{"scaled SCALE=2 PAD=0", "scaled SCALE=3 PAD=0"}))
        << "each once";
    EXPECT_EQ(of({"scaled SCALE=2", "scaled PAD=1"}), (List{"scaled SCALE=2 PAD=0", "scaled SCALE=1 PAD=1"}))
        << "a word in quotes";
    EXPECT_EQ(of({"elementwise", "F=y[0] = 3 * x[0];"}).size(), 1U) << "the code has blanks";
    const std::string manifest = write("some.txt", "# two\nscaled SCALE=3 PAD=*   @host\n");
    EXPECT_EQ(of({"--manifest", manifest}), (List{"scaled SCALE=3 PAD=0", "scaled SCALE=3 PAD=1"}));
    EXPECT_EQ(of({"scaled", "--manifest", manifest}).size(), 3U);
}

TEST_F(KilnReport, StandardOutputIsThePageAlone) {
    KILN_REQUIRE_OR_SKIP("host", compiles(), "no C++ compiler");
    const Outcome result = report({"scaled", "--no-record", "--output", "-"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(read_html(result.out).error, "");
}

TEST_F(KilnReport, Times) {
    KILN_REQUIRE_OR_SKIP("host", compiles(), "no C++ compiler");
    const Outcome result = report(
        {"scaled", "--time", "--test-sizes", "--no-record", "--json", "--output", path("r.html").string()});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_GT(result.json()["variants"][0]["measured_ms"], 0.0);
    EXPECT_THAT(read_text_if_exists(path("r.html")).value_or(""), HasSubstr("data-row=\"measured\""));
    expect_error(
        run({"report", "scaled", "--template-dir", folder_, "--arch", "sm_75", "--time", "--output", "-"}), 2,
        {"--time", "sm_75"});
}

TEST_F(KilnReport, Usage) {
    const std::string file = path("report.html").string();
    expect_error(report({"scaled"}), 2, {"--output FILE", "--output -"});
    expect_error(report({"--output", file}), 2, {"TEMPLATE", "--manifest"});
    expect_error(report({"PAD=0", "scaled", "--output", file}), 2, {"'PAD=0'", "before any template"});
    expect_error(report({"scaled", "PADS=0", "--output", file}), 2, {"PADS", "Did you mean PAD?"});
    expect_error(report({"scalde", "--output", file}), 2, {"scalde", "scaled"});
    expect_error(report({"scaled", "--output", path("nowhere/report.html").string()}), 2,
                 {"no directory", "nowhere"});
    expect_error(report({"scaled", "--output", path(".").string()}), 2, {"is a directory"});
    expect_error(report({"--manifest", path("none.txt").string(), "--output", file}), 2, {"none.txt"});
    expect_error(report({"--manifest", write("bad.txt", "scaled SCALE=9\n"), "--output", file}), 2,
                 {"bad.txt:1", "SCALE"});
    const Outcome both = report({"scaled", "--json", "--output", "-"});
    EXPECT_EQ(both.status, 2);
    EXPECT_THAT(both.err, HasSubstr("--json"));
    EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace kiln::test
