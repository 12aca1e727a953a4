// SPDX-License-Identifier: Apache-2.0
//
// kiln check on templates of a user's own: a sound one, and ones with a mistake each.
#include <set>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// y = x turned around within blocks of 64, through a tile; `barrier` and `index` are the kernel's lines.
std::string turning_template(const std::string& barrier, const std::string& index) {
    return "// turning: for tests.\n//\n//@ kernel turning\n//@ param PAD int in 0, 1 = 0\n//@ block 64\n"
           "//@ grid n / 64\n//@ size n = 6400 test 256 multiple 64\n//@ input x [n]\n//@ output y [n]\n"
           "#include \"kiln/device.h\"\n\n"
           "extern \"C\" __global__ void turning(int n, const float* x, float* y) {\n"
           "    __shared__ float tile[64];\n"
           "    const int i = threadIdx.x;\n"
           "    tile[i] = x[blockIdx.x * 64 + i];\n"
           "    " +
           barrier + "\n    y[blockIdx.x * 64 + i] = tile[" + index + "];\n}\n";
}

class KilnCheck : public Kiln {
  protected:
    void SetUp() override {
        const Outcome built = on_host({"build", "tiny"});
        KILN_REQUIRE_OR_SKIP("host", built.status == 0, built.err);
    }
    Outcome check(const std::string& text, Arguments more = {}) const {
        const std::string directory = with_template("turning", text);
        more.insert(more.begin(), {"check", "turning", "--template-dir", directory});
        return run(std::move(more));
    }
};

TEST_F(KilnCheck, ASoundTemplate) {
    const std::string text = turning_template("__syncthreads();", "63 - i");
    const Outcome result = check(text);
    EXPECT_EQ(result.status, 0) << result.out;
    EXPECT_THAT(result.err, IsEmpty());
    EXPECT_THAT(result.out, HasSubstr("turning PAD=0\n  at n=256\n"));
    EXPECT_THAT(result.out, HasSubstr("CLEAN"));
    EXPECT_THAT(result.out, HasSubstr("4 of 4 blocks"));
    EXPECT_THAT(result.out, HasSubstr("2 to global memory"));

    const auto json = check(text, {"--json"}).json();
    EXPECT_EQ(json["problems"], 0);
    EXPECT_EQ(json["variants"][0]["sizes"]["n"], 256);
    // Two warps of each block load and store once, in shared memory and in global memory.
    EXPECT_EQ(json["variants"][0]["accesses"], 4 * 2 * 4);
}

TEST_F(KilnCheck, SizesAndBlocks) {
    const std::string text = turning_template("__syncthreads();", "63 - i");
    const auto json = check(text, {"--size", "n=6400", "--blocks", "3", "--json"}).json();
    EXPECT_EQ(json["variants"][0]["blocks"], 100);
    EXPECT_EQ(json["variants"][0]["blocks_checked"], 3);
    expect_error(check(text, {"--blocks", "0"}), 2, {"--blocks"});
    expect_error(check(text, {"--size", "n=65"}), 2, {"64"});
    EXPECT_EQ(check(text, {"PAD=0,1", "--json"}).json()["variants"].size(), 2U);
}

TEST_F(KilnCheck, EachLabelStandsOnce) {
    const std::string race = check(turning_template("", "63 - i")).out;
    EXPECT_THAT(race, AllOf(HasSubstr("  race: turning.cu:"), Not(HasSubstr("race: race"))));
    const std::string bounds = check(turning_template("__syncthreads();", "64 + i")).out;
    EXPECT_THAT(bounds, AllOf(HasSubstr("  out of bounds: "), Not(HasSubstr("bounds: out of bounds"))));
    const std::string never =
        check(turning_template("__syncthreads(); __shared__ float other[64];", "0] + other[i")).out;
    EXPECT_THAT(never, HasSubstr("  warning: uninitialised: turning.cu:"));
}

TEST_F(KilnCheck, AMissingBarrier) {
    const std::string text = turning_template("", "63 - i");
    const Outcome result = check(text);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("kiln: 1 problem found."));
    EXPECT_THAT(result.out, HasSubstr("race: "));
    EXPECT_THAT(result.out, HasSubstr("turning.cu:15 | tile[i] = x[blockIdx.x * 64 + i];\n"));
    EXPECT_THAT(result.out, HasSubstr("turning.cu:17 | y[blockIdx.x * 64 + i] = tile[63 - i];\n"));
    EXPECT_THAT(result.out, Not(HasSubstr("CLEAN")));

    const Outcome of_json = check(text, {"--json"});
    EXPECT_EQ(of_json.status, 1);
    const auto problem = of_json.json()["variants"][0]["problems"][0];
    EXPECT_EQ(problem["kind"], "race");
    EXPECT_EQ(problem["variable"], "tile");
    const std::set<int> lines = {problem["place"]["line"].get<int>(), problem["other"]["line"].get<int>()};
    EXPECT_EQ(lines, (std::set<int>{15, 17}));
    EXPECT_NE(problem["thread"], problem["other_thread"]);
}

TEST_F(KilnCheck, OffByOne) {
    const Outcome result = check(turning_template("__syncthreads();", "64 - i"));
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.out, HasSubstr("out of bounds: "));
    EXPECT_THAT(result.out, HasSubstr("turning.cu:17 | "));
    EXPECT_THAT(result.out, Not(HasSubstr("turning.cu:15 | ")));
}

TEST_F(KilnCheck, WhatNobodyWroteIsAWarning) {
    std::string text = turning_template("__syncthreads();", "63 - i");
    text.replace(text.find("    tile[i] ="), 13, "    if (i > 5) tile[i] =");
    const Outcome warned = check(text);
    EXPECT_EQ(warned.status, 0) << warned.out;
    EXPECT_THAT(warned.out, HasSubstr("warning: "));
    EXPECT_THAT(warned.out, HasSubstr("turning.cu:17 | "));
    EXPECT_EQ(check(text, {"--json"}).json()["warnings"], 1);
    const Outcome strict = check(text, {"--strict"});
    EXPECT_EQ(strict.status, 1);
    EXPECT_THAT(strict.out, HasSubstr("uninitialised: "));
}

TEST_F(KilnCheck, WithoutBlocksNothingIsChecked) {
    const Outcome result = check(turning_template("__syncthreads();", "63 - i"), {"--size", "n=0"});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("nothing was checked"));
    EXPECT_THAT(result.out, Not(HasSubstr("CLEAN")));
}

TEST_F(KilnCheck, ABuiltInTemplate) {
    const Outcome result = run({"check", "transpose_tiled", "TILE=32", "THREADS=64"});
    EXPECT_EQ(result.status, 0) << result.out;
    EXPECT_THAT(result.out, HasSubstr("at rows=40 cols=56"));
}

TEST_F(KilnCheck, Rejected) {
    expect_error(run({"check"}), 2, {"kiln check TEMPLATE"});
    expect_error(run({"check", "transpose_tile"}), 2, {"did you mean transpose_tiled?"});
    expect_error(run({"check", "copy", "--arch", "sm_80"}), 2, {"no option --arch"});
    EXPECT_EQ(on_host({"check", "tiny"}).status, 2) << "it declares no problem";
}

}  // namespace
}  // namespace kiln::test
