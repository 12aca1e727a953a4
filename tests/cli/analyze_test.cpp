// SPDX-License-Identifier: Apache-2.0
//
// kiln analyze and jit-gemm --analyze: each option, the page and the JSON.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Arguments kSmall = {"--size", "m=256,n=256", "--size", "k=128"};

class KilnAnalyze : public Kiln {
  protected:
    void SetUp() override {
        const Outcome built = run({"build", "gemm_naive", "--arch", "sm_90a"});
        KILN_REQUIRE_OR_SKIP("nvrtc", built.status == 0, built.err);
    }
    Outcome analyze(Arguments arguments, Arguments more = kSmall) const {
        arguments.insert(arguments.begin(), "analyze");
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments));
    }
    static nlohmann::json only(const Outcome& outcome) {
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        const auto json = outcome.json();
        EXPECT_EQ(json["analyses"].size(), 1U);
        return json["analyses"][0];
    }
};

TEST_F(KilnAnalyze, APageOfText) {
    const Outcome result = analyze({"gemm_tiled", "BM=64", "BN=64", "BK=32", "PAD=1", "--arch", "sm_90a"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    for (const char* words :
         {"gemm_tiled T=half BM=64", "sm_90a, NVIDIA H200, 132 multiprocessors", "m=256 n=256 k=128",
          "16 blocks of 16 x 16 threads", "32 FLOP per byte that a block loads", "8,256 bytes per block",
          "\nOccupancy\n", "by registers", "\nRoofline\n", "FP32 FMA", "\nShared memory: ", "wavefronts",
          "as written (ideal)", "merged (ideal)", "\nGlobal memory: ", "sectors", "\nAdvice\n"})
        EXPECT_THAT(result.out, HasSubstr(words));
    // Eight, unless the time for it ends first.
    EXPECT_THAT(result.out, ::testing::ContainsRegex("Recorded on the host: [1-8] of 16 blocks"));
    EXPECT_LE(std::count(result.out.begin(), result.out.end(), '\n'), 60) << result.out;
}

TEST_F(KilnAnalyze, WithoutAGpuItSaysForWhat) {
    const Outcome result = analyze({"gemm_naive", "--no-record"});
    EXPECT_EQ(result.status, 0) << result.err;
    if (result.err.find("no GPU was found") == std::string::npos)
        GTEST_SKIP() << "there is a GPU: " << result.err;
    EXPECT_THAT(result.err, HasSubstr("analysing for sm_90a"));
    EXPECT_THAT(result.out, HasSubstr("sm_90a, NVIDIA H200"));
    // A template for AMD only is for its own architecture.
    const Outcome amd = run({"analyze", "gemm_mfma", "--no-record"});
    EXPECT_THAT(amd.err, HasSubstr("analysing for gfx90a"));
}

TEST_F(KilnAnalyze, Json) {
    const auto json =
        only(analyze({"gemm_tiled", "BM=64", "BN=64", "BK=32", "PAD=1", "--arch", "sm_90a", "--json"}));
    EXPECT_EQ(json["template"], "gemm_tiled");
    EXPECT_EQ(json["values"]["PAD"], 1);
    EXPECT_EQ(json["arch"], "sm_90a");
    EXPECT_EQ(json["chip"], "NVIDIA H200");
    EXPECT_EQ(json["sizes"], (nlohmann::json{{"m", 256}, {"n", 256}, {"k", 128}}));
    EXPECT_EQ(json["tile_intensity"], 32);
    EXPECT_EQ(json["dynamic_shared_bytes"], 8256);
    EXPECT_EQ(json["occupancy"]["most_warps"], 64);
    EXPECT_EQ(json["recorded"]["blocks"], 16);
    EXPECT_GT(json["traffic"]["naive_bytes"], json["traffic"]["tiled_bytes"]);
    EXPECT_GE(json["shared_wavefronts"], json["shared_ideal"]);
    ASSERT_FALSE(json["recorded"]["shared"].empty());
    const auto& line = json["recorded"]["shared"][0];
    EXPECT_EQ(line["file"], "gemm_tiled.cu");
    EXPECT_GT(line["line"], 1);
    EXPECT_GE(line["believed"]["bytes"], line["as_written"]["bytes"]);
    EXPECT_LE(line["believed"]["bytes"], line["merged"]["bytes"]);
    EXPECT_FALSE(json["advice"].empty());
    EXPECT_FALSE(json["compiled"].empty());
}

TEST_F(KilnAnalyze, SeveralVariants) {
    const auto of = [&](const Arguments& arguments) {
        std::vector<std::string> found;
        const Outcome result = analyze(arguments, {"--arch", "sm_90a", "--no-record", "--json"});
        EXPECT_EQ(result.status, 0) << result.err;
        const auto json = result.json();
        for (const auto& one : json["analyses"])
            found.push_back(one["values"]["T"].get<std::string>() + one["values"]["PAD"].dump());
        return found;
    };
    EXPECT_THAT(of({"transpose_tiled", "SWIZZLE=false", "T=half,float", "PAD=0,2"}),
                ElementsAre("half0", "half2", "float0", "float2"));
    EXPECT_THAT(of({"transpose_tiled", "SWIZZLE=false", "PAD=*"}),
                ElementsAre("float0", "float1", "float2", "float4", "float8"));
    // Those that are legal.
    EXPECT_THAT(of({"transpose_tiled", "SWIZZLE=true", "PAD=0,1"}), ElementsAre("float0"));
    expect_error(analyze({"transpose_tiled", "SWIZZLE=true", "PAD=1,2"}), 2, {"PAD and SWIZZLE"});
    expect_error(analyze({"transpose_tiled", "PAD=0,3"}), 2, {"PAD", "3"});
    expect_error(analyze({"transpose_tiled", "PAD=0", "PAD=1"}), 2, {"PAD is given twice", "PAD=1,2"});
    expect_error(analyze({"transpose_tiled", "PADD=0"}), 2, {"no parameter PADD", "Did you mean PAD?"});
    const Outcome two =
        analyze({"transpose_tiled", "SWIZZLE=false", "PAD=0,1"}, {"--arch", "sm_90a", "--no-record"});
    EXPECT_THAT(two.out, HasSubstr("\n\ntranspose_tiled T=float TILE=64 THREADS=256 VEC=4 PAD=1 "
                                   "SWIZZLE=false PAIRS=true RASTER_GROUP=1 ANY_ROWS=false\n"));
}

TEST_F(KilnAnalyze, NoRecord) {
    const auto json = only(analyze({"gemm_tiled", "--arch", "sm_90a", "--no-record", "--json"}));
    EXPECT_TRUE(json["recorded"].is_null());
    EXPECT_TRUE(json["excess"].is_null());
    EXPECT_FALSE(json["occupancy"].is_null());
}

TEST_F(KilnAnalyze, TestSizes) {
    const auto json =
        only(analyze({"gemm_tiled", "BM=64", "--arch", "sm_90a", "--no-record", "--json"}, {"--test-sizes"}));
    EXPECT_EQ(json["sizes"]["m"], 65);
    expect_error(analyze({"gemm_tiled", "--arch", "sm_90a"}, {"--size", "q=3"}), 2, {"q"});
}

TEST_F(KilnAnalyze, Chip) {
    const auto json = only(
        analyze({"gemm_naive", "--arch", "sm_90", "--chip", "NVIDIA H100 PCIe", "--no-record", "--json"}));
    EXPECT_EQ(json["chip"], "NVIDIA H100 PCIe");
    EXPECT_EQ(json["multiprocessors"], 114);
    expect_error(analyze({"gemm_naive", "--arch", "sm_90a", "--chip", "NVIDIA H100 PCI"}), 2,
                 {"no chip 'NVIDIA H100 PCI'", "did you mean NVIDIA H100 PCIe?"});
    expect_error(analyze({"gemm_naive", "--arch", "sm_80", "--chip", "NVIDIA H200"}), 2, {"sm_90a", "sm_80"});
    expect_error(analyze({"gemm_naive", "--arch", "sm_999"}), 2, {"sm_999"});
}

// Kiln makes no texture, so that there is no problem; what depends on none is told all the same.
TEST_F(KilnAnalyze, ATemplateThatDeclaresNoProblem) {
    const Arguments blur = {"texture_blur", "--template-dir",
                            std::string(std::getenv("KILN_TEST_SOURCE_DIR")) + "/examples/templates",
                            "--arch", "sm_90a"};
    const Outcome text = analyze(blur, {});
    EXPECT_EQ(text.status, 0) << text.err;
    for (const char* words : {"the template declares none", "blocks of 32 x 8 threads", "\nOccupancy\n",
                              "! not recorded", "its argument image is a texture or surface object"})
        EXPECT_THAT(text.out, HasSubstr(words));
    const auto json = only(analyze(blur, {"--no-record", "--json"}));
    EXPECT_TRUE(json["grid"].is_null());
    EXPECT_TRUE(json["waves"].is_null());
    EXPECT_EQ(json["block"], nlohmann::json({32, 8, 1}));
    EXPECT_GT(json["registers"], 0);
    EXPECT_FALSE(json["occupancy"].is_null());
    for (const auto& advice : json["advice"]) EXPECT_NE(advice["weight"], "warning") << advice;
    expect_error(analyze(blur, {"--size", "rows=64"}), 2, {"texture or surface object", "no launch"});
    Arguments report = blur;
    report.insert(report.begin(), "report");
    report.insert(report.end(), {"--output", path("blur.html").string()});
    EXPECT_EQ(run(report).status, 0);
}

TEST_F(KilnAnalyze, ATemplateOfOnesOwn) {
    with_template("mine",
                  "// mine: for tests.\n//\n//@ kernel mine\n//@ block 32\n//@ grid ceil_div(n, 32)\n"
                  "//@ size n = 64\n//@ output y [n]\n#include \"kiln/device.h\"\n\n"
                  "extern \"C\" __global__ void mine(int n, float* y) {\n"
                  "    __shared__ float tile[1024];\n    tile[threadIdx.x * 32] = 1;\n    __syncthreads();\n"
                  "    y[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x * 32];\n}\n");
    const auto json = only(
        analyze({"mine", "--template-dir", templates(), "--arch", "sm_90a", "--json"}, {"--size", "n=320"}));
    ASSERT_EQ(json["recorded"]["shared"].size(), 2U);
    EXPECT_EQ(json["recorded"]["shared"][0]["line"], 12);
    EXPECT_EQ(json["recorded"]["shared"][0]["believed"]["degree"], 32);
    EXPECT_EQ(json["recorded"]["shared"][0]["variable"], "tile");
    EXPECT_EQ(json["shared_wavefronts"], 10 * 64);
    EXPECT_EQ(json["excess"], 31);
    EXPECT_THAT(json["advice"][0]["text"].get<std::string>(), HasSubstr("no parameter for the layout"));
}

// Its blocks do n * n steps, which no line of the template says.
TEST_F(KilnAnalyze, WhatIsNotScaledToTheShapeIsNotANumber) {
    with_template("square",
                  "// square: for tests.\n//\n//@ kernel square\n//@ block 32\n//@ grid 1\n//@ size n = 64\n"
                  "//@ input x [n]\n//@ output y [1]\n#include \"kiln/device.h\"\n\n"
                  "extern \"C\" __global__ void square(int n, const float* x, float* y) {\n"
                  "    float sum = 0;\n    for (int i = 0; i < n; ++i)\n"
                  "        for (int j = 0; j < n; ++j) sum += x[i] * x[j];\n"
                  "    if (threadIdx.x == 0) y[0] = sum;\n}\n");
    const Arguments of = {"square", "--template-dir", templates(), "--arch", "sm_90a"},
                    large = {"--size", "n=8192"};
    const Outcome text = analyze(of, large);
    EXPECT_THAT(text.out, HasSubstr("sums are of the whole launch at these sizes."));
    EXPECT_THAT(text.out, HasSubstr("those of the shape are not known"));
    EXPECT_THAT(text.out, Not(HasSubstr("moved to and from global memory")));
    Arguments with_json = of;
    with_json.emplace_back("--json");
    const auto json = only(analyze(with_json, large));
    EXPECT_THAT(json["recorded"]["not_scaled"].get<std::string>(), HasSubstr("linearly with n"));
    for (const char* count : {"shared_wavefronts", "shared_ideal", "global_sectors", "global_ideal"})
        EXPECT_TRUE(json[count].is_null()) << count;
    EXPECT_TRUE(json["traffic"]["tiled_bytes"].is_null());
    const auto small = only(analyze(with_json, {"--size", "n=128"}));
    EXPECT_TRUE(small["recorded"]["not_scaled"].is_null());
    EXPECT_GT(small["global_sectors"], 0);
}

TEST_F(KilnAnalyze, JitGemm) {
    const std::string gemm = (own_directory() / "jit-gemm").string();
    const auto jit_gemm = [&](Arguments arguments) {
        arguments.insert(arguments.begin(), {gemm, "--analyze"});
        return run_program(std::move(arguments), usual_environment());
    };
    const Outcome result = jit_gemm({"--arch", "sm_90a", "--m", "256", "--n", "192", "--k", "128", "--bm",
                                     "64", "--bn", "64", "--bk", "32", "--pad", "1", "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto json = result.json();
    EXPECT_EQ(json["template"], "gemm_tiled");
    EXPECT_EQ(json["values"]["PAD"], 1);
    EXPECT_EQ(json["sizes"], (nlohmann::json{{"m", 256}, {"n", 192}, {"k", 128}}));
    EXPECT_EQ(json["tile_intensity"], 32);

    const Outcome text = jit_gemm({"--arch", "sm_90a", "--kernel", "gemm_naive"});
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("m=1024 n=1024 k=1024"));
    EXPECT_THAT(text.out, HasSubstr("\nOccupancy\n"));
    EXPECT_THAT(text.out, Not(HasSubstr("PASS")));
    expect_clean_error(jit_gemm({"--emit", "source"}));
    EXPECT_THAT(jit_gemm({"--emit", "source"}).err, HasSubstr("leave --emit out"));
    EXPECT_THAT(jit_gemm({"--iters", "3"}).err, HasSubstr("leave --iters out"));
    EXPECT_THAT(jit_gemm({"--cold-l2"}).err, HasSubstr("leave --cold-l2 out"));
    EXPECT_EQ(jit_gemm({"--compile-only"}).status, 2);
}

}  // namespace
}  // namespace kiln::test
