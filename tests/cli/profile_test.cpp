// SPDX-License-Identifier: Apache-2.0
//
// kiln profile: its report, what it rejects, and pages that are read without a GPU. Running a profiler is
// tests/inspect's; a real one, scripts/gpu-check's.

#include <cstdlib>

#include "cli/profile_report.h"
#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// What ncu 2025.3 counted on an H200: a transpose without a pad, with one, and a product.
std::string recorded_page() {
    const char* source = std::getenv("KILN_TEST_SOURCE_DIR");
    return read_text_if_exists(std::filesystem::path(source != nullptr ? source : ".") /
                               "tests/inspect/data/ncu_page.csv")
        .value_or("");
}

class KilnProfile : public Kiln {
  protected:
    /// Of the recorded page the head and one launch.
    std::string page_of(int launch) const {
        std::istringstream lines(recorded_page());
        std::string text, line;
        for (int i = 0; std::getline(lines, line); ++i)
            if (i < 2 || i == launch + 2) text += line + "\n";
        return write("page" + std::to_string(launch) + ".csv", text);
    }
    Outcome read_transpose(const std::string& pad, const std::string& page,
                           const Arguments& more = {}) const {
        Arguments arguments = {"profile",    "transpose_tiled",
                               "T=float",    "TILE=32",
                               "VEC=1",      "THREADS=256",
                               "PAD=" + pad, "SWIZZLE=false",
                               "--size",     "rows=256,cols=192",
                               "--backend",  "cuda",
                               "--arch",     "sm_90a",
                               "--read",     page};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments));
    }
};

TEST_F(KilnProfile, WithoutAGpuItSaysSo) {
    expect_error(run({"profile", "copy", "--backend", "host"}), 4,
                 {"there is no GPU to profile on", "kiln analyze", "--read FILE"});
    if (has_gpu()) GTEST_SKIP() << "there is a GPU here";
    const Outcome result = run({"profile", "copy", "--json"});
    EXPECT_EQ(result.status, 4);
    EXPECT_EQ(result.json()["error"]["kind"], "device");
    EXPECT_EQ(run({"profile", "copy", "--backend", "cuda"}).status, 4);
    // An architecture is something to compile for, not to profile on.
    EXPECT_EQ(run({"profile", "copy", "--arch", "sm_90a"}).status, 4);
}

TEST_F(KilnProfile, MistakesAreReported) {
    const std::string page = page_of(0);
    expect_error(run({"profile"}), 2, {"an argument is missing"});
    expect_error(run({"profile", "copy", "--tool", "nsys"}), 2, {"--tool", "nsys", "rocprofv3"});
    expect_error(run({"profile", "copy", "--read", page, "--keep", "x"}), 2, {"--keep", "--read"});
    expect_error(run({"profile", "copy", "--read", page, "--backend", "host"}), 2, {"--arch sm_90a"});
    expect_error(read_transpose("9", page), 2, {"PAD", "9"});
    expect_error(read_transpose("0", path("none.csv").string()), 2, {"--read", "none.csv", "can't read"});
    expect_error(read_transpose("0", write("empty.csv", "no page\n")), 2,
                 {"there is no launch in it", "--keep"});
    expect_error(read_transpose("0", page_of(2)), 2, {"no launch of transpose_tiled, but of gemm_tiled"});
}

TEST_F(KilnProfile, APageIsComparedWithThePrediction) {
    const Outcome result = read_transpose("1", page_of(1));
    KILN_REQUIRE_OR_SKIP("nvrtc", result.status != 3, result.err);
    EXPECT_EQ(result.status, 0) << result.err;
    for (const char* word : {"transpose_tiled T=float TILE=32", "rows=256", "read from", "all 48 blocks",
                             "shared wavefronts", "equal", "excess wavefronts", "at most 1.0% of the ideal",
                             "met", "the problem does not fill the chip", "PASS"})
        EXPECT_THAT(result.out, HasSubstr(word));
    EXPECT_THAT(result.out, Not(HasSubstr("MISSED")));
}

TEST_F(KilnProfile, AMissedThresholdIsStatusOne) {
    const Outcome result = read_transpose("0", page_of(0));
    KILN_REQUIRE_OR_SKIP("nvrtc", result.status != 3, result.err);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.out, AllOf(HasSubstr("MISSED"), HasSubstr("FAIL")));
    expect_clean_error(result, "kiln");
    EXPECT_THAT(result.err, HasSubstr("a threshold is missed: excess wavefronts is 1550%"));
    const Outcome json = read_transpose("0", page_of(0), {"--json"});
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(json.json()["pass"], false);
    EXPECT_EQ(json.json()["arch"], "sm_90a");
    EXPECT_TRUE(json.json()["tool"].is_null());
    std::set<std::string> figures;
    const nlohmann::json found = json.json();  // lives as long as what is walked over
    for (const auto& figure : found["figures"]) {
        figures.insert(figure["name"].get<std::string>());
        if (figure["name"] != "shared wavefronts" && figure["name"] != "shared ideal" &&
            figure["name"] != "global sectors" && figure["name"] != "registers")
            continue;
        EXPECT_EQ(figure["predicted"], figure["measured"]) << figure["name"];
    }
    EXPECT_TRUE(figures.contains("by registers")) << "without the text's indentation";
}

cli::ProfileReport a_report() {
    cli::ProfileReport report;
    report.template_name = "gemm_tiled";
    report.device = "NVIDIA H200";
    report.analysis.variant = "gemm_tiled BM=64";
    report.analysis.arch = "sm_90a";
    report.analysis.problem.sizes = {{"m", 64}};
    report.analysis.recording.emplace();
    report.analysis.recording->blocks = 256;
    report.analysis.recording->blocks_recorded = 64;
    report.analysis.shared_wavefronts = report.analysis.shared_ideal = 1000;
    report.analysis.waves = Waves{256, 264, 0.97, 0.97, 0.242};
    report.analysis.roofline.emplace();
    report.analysis.roofline->floor_ms = 0.01;
    report.tool = ProfileTool::ncu;
    report.tool_version = "2025.3.1.0";
    report.source = "/usr/local/cuda/bin/ncu";
    report.measured.shared_wavefronts = 1050;
    report.measured.shared_ideal = 1000;
    report.measured.warps_active = 0.24;
    report.time = TimeSummary{0.9, 1.0, 1.1, 20};
    report.naive = "gemm_naive BX=16";
    report.naive_time = TimeSummary{1.9, 2.0, 2.1, 20};
    report.notes = {"ncu 2025.3.1.0 does not know a thing; it was left out."};
    return report;
}

TEST(ProfileReport, SaysHowFarItIsOff) {
    const cli::Terminal terminal("kiln");
    const std::string text = to_text(a_report(), terminal);
    for (const char* word :
         {"NVIDIA H200 (cuda, sm_90a)", "ncu 2025.3.1.0, /usr/local/cuda/bin/ncu", "64 of 256 blocks, scaled",
          "+5.00%", "+5.0 points", "at most 24.2%", "24.0%", "below it", "100 times the lower bound",
          "gemm_naive BX=16: median 2 ms, 2 times as long", "does not know a thing", "5.0%", "MISSED",
          "does not apply", "2 times", "FAIL"})
        EXPECT_THAT(text, HasSubstr(word));
    EXPECT_FALSE(a_report().pass());
}

TEST(ProfileReport, PassesWhenNothingIsMissed) {
    cli::ProfileReport report = a_report();
    report.measured.shared_wavefronts = 1009;
    EXPECT_TRUE(report.pass());
    report.naive_time->median_ms = 1.4;
    EXPECT_FALSE(report.pass());
    report.naive_time.reset();
    EXPECT_TRUE(report.pass()) << "nothing to compare with";
    const cli::Json json = to_json(report);
    EXPECT_EQ(json["tool"], "ncu");
    EXPECT_EQ(json["blocks_recorded"], 64);
    EXPECT_TRUE(json["naive"]["times"].is_null());
    EXPECT_EQ(json["thresholds"].size(), 3u);
    EXPECT_EQ(json["pass"], true);
}

}  // namespace
}  // namespace kiln::test
