// SPDX-License-Identifier: Apache-2.0
//
// kiln list, show, build and explain.
#include <kiln/device.h>

#include <algorithm>
#include <regex>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class KilnTemplates : public Kiln {};

TEST_F(KilnTemplates, List) {
    const Outcome result = run({"list", "--template-dir", templates()});
    EXPECT_EQ(result.status, 0) << result.err;
    for (const char* name : {"gemm_naive", "gemm_tiled", "tiny"})
        EXPECT_THAT(result.out, HasSubstr(std::string("  ") + name + " "));
    EXPECT_THAT(result.out, HasSubstr("ADD=1 MUL=1"));
    const auto json = run({"list", "--template-dir", templates(), "--json"}).json();
    const auto tiny = std::find_if(json["templates"].begin(), json["templates"].end(),
                                   [](const auto& one) { return one["name"] == "tiny"; });
    ASSERT_NE(tiny, json["templates"].end());
    EXPECT_EQ((*tiny)["parameters"], nlohmann::json({"ADD", "MUL"}));
    EXPECT_EQ((*tiny)["backends"], nlohmann::json({"cuda", "hip", "host"}));
}

TEST_F(KilnTemplates, ListForABackend) {
    std::string text = tiny_template();
    text.insert(text.find("//@ block"), "//@ backend cuda\n");
    text = std::regex_replace(text, std::regex("tiny"), "cuda_only");
    const std::string directory = with_template("cuda_only", text);
    EXPECT_THAT(run({"list", "--template-dir", directory}).out, HasSubstr("cuda_only"));
    EXPECT_THAT(run({"list", "--template-dir", directory, "--backend", "host"}).out,
                Not(HasSubstr("cuda_only")));
}

TEST_F(KilnTemplates, Show) {
    const auto json = on_host({"show", "tiny", "--json"}).json();
    EXPECT_EQ(json["name"], "tiny");
    EXPECT_EQ(json["parameters"][0]["allowed"], nlohmann::json({1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(json["parameters"][0]["text"], "what is added");
    EXPECT_EQ(json["parameters"][1]["range"], nlohmann::json({1, 4}));
    EXPECT_EQ(json["rules"][0]["rule"], "ADD < 8");
    EXPECT_EQ(json["rules"][0]["text"], "eight is too much");
    EXPECT_EQ(json["legal_variants"], 7 * 4);
    EXPECT_EQ(json["example"]["block"], nlohmann::json({32, 1, 1}));
    EXPECT_EQ(json["example"]["arguments"][1]["type"], "float*");
    EXPECT_EQ(json["backend"], "host");
    const Outcome text = on_host({"show", "tiny"});
    for (const char* words : {"28 legal ones", "what is added", "1, 2, 3, 4, 5, 6, 7, 8 (1)", "1..4 (1)",
                              "eight is too much", "int n, float* x", "32 x 1 x 1"})
        EXPECT_THAT(text.out, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(path("cache"))) << "looking at a template needs no cache";
}

TEST_F(KilnTemplates, ShowForAnArchitecture) {
    const auto json = run({"show", "gemm_tiled", "--arch", "sm_90a", "--json"}).json();
    EXPECT_EQ(json["backend"], "cuda");
    EXPECT_EQ(json["arch"], "sm_90a");
    EXPECT_GT(json["legal_variants"], 1000);
    EXPECT_EQ(json["example"]["dynamic_shared_bytes"], (64 * 32 + 32 * (64 + 2)) * 2);
}

TEST_F(KilnTemplates, ShowOfDefaultsThatAreNotLegal) {
    std::string text = tiny_template();
    text.replace(text.find("= 1 \"what is added\""), 3, "= 8");
    const std::string directory = with_template("tiny", text);
    const auto json =
        run({"show", "tiny", "--backend", "host", "--template-dir", directory, "--json"}).json();
    EXPECT_THAT(json["defaults_problem"].get<std::string>(), HasSubstr("eight is too much"));
    EXPECT_EQ(json["example"]["values"]["ADD"], 1);
}

TEST_F(KilnTemplates, UnknownTemplatesAndParameters) {
    expect_error(run({"show", "gemm_tild"}), 2, {"gemm_tild", "gemm_tiled"});
    expect_error(on_host({"build", "tiny", "ADDD=1"}), 2, {"ADDD", "ADD and MUL", "Did you mean ADD?"});
    expect_error(on_host({"build", "tiny", "add=1"}), 2, {"Did you mean ADD?"});
    expect_error(on_host({"build", "tiny", "ADD"}), 2, {"'ADD'", "NAME=VALUE"});
    expect_error(on_host({"build", "tiny", "=1"}), 2, {"NAME=VALUE"});
    expect_error(on_host({"build", "tiny", "ADD=9"}), 2, {"ADD", "9", "1, 2, 3"});
    expect_error(on_host({"build", "tiny", "ADD=8"}), 2, {"eight is too much"});
    expect_error(on_host({"build", "tiny", "ADD=1", "ADD=2"}), 2, {"ADD is given twice"});
    expect_error(on_host({"explain", "tiny", "ADD=x"}), 2, {"ADD", "x"});
    expect_error(run({"build", "gemm_tiled", "--arch", "riscy"}), 2, {"riscy"});
}

TEST_F(KilnTemplates, BuildCompilesOnceAndThenFinds) {
    const auto first = build("2").json();
    EXPECT_EQ(first["tier"], "compiled");
    EXPECT_EQ(first["values"], nlohmann::json({{"ADD", 2}, {"MUL", 1}}));
    EXPECT_EQ(first["kind"], "shared_object");
    EXPECT_GT(first["bytes"], 1000);
    EXPECT_GT(first["compile_ms"], 0);
    EXPECT_EQ(first["key"].get<std::string>().size(), 64U);
    const auto second = build("2").json();
    EXPECT_EQ(second["tier"], "disk");
    EXPECT_EQ(second["key"], first["key"]);
    EXPECT_LT(second["elapsed_ms"], first["elapsed_ms"]);
    const Outcome text = on_host({"build", "tiny", "ADD=2"});
    EXPECT_THAT(text.out, StartsWith("tiny ADD=2 MUL=1\n"));
    EXPECT_THAT(text.out, HasSubstr("from the cache (disk)"));
    EXPECT_THAT(text.err, IsEmpty());
}

TEST_F(KilnTemplates, BuildWritesTheBinary) {
    const std::string file = path("tiny.so").string();
    const auto json = on_host({"build", "tiny", "--output", file, "--json"}).json();
    EXPECT_EQ(json["output"], file);
    const auto bytes = read_text_if_exists(file);
    ASSERT_TRUE(bytes.has_value());
    EXPECT_THAT(*bytes, StartsWith("\x7f"
                                   "ELF"));
    EXPECT_EQ(json["bytes"], bytes->size());
    expect_error(on_host({"build", "tiny", "--output", path("no/such/file").string()}), 2, {"--output"});
}

TEST_F(KilnTemplates, BuildWithoutTheCache) {
    EXPECT_EQ(on_host({"build", "tiny", "--no-cache", "--json"}).json()["tier"], "off");
    EXPECT_FALSE(std::filesystem::exists(path("cache")));
}

TEST_F(KilnTemplates, BuildOfWhatDoesNotCompile) {
    expect_error(on_host({"build", "tiny", "ADD=7"}), 3, {"tiny.cu:11", "seven is broken"});
}

TEST_F(KilnTemplates, BuildForCudaTellsRegisters) {
    const Outcome result = run({"build", "gemm_naive", "--arch", "sm_90a", "--json"});
    KILN_REQUIRE_OR_SKIP("nvrtc", result.status != 3, result.err);
    const auto json = result.json();
    EXPECT_EQ(json["kind"], "cubin");
    EXPECT_GT(json["registers"], 4);
    EXPECT_LT(json["registers"], 256);
}

TEST_F(KilnTemplates, ExplainAHit) {
    const auto built = build("3").json();
    const Outcome result = on_host({"explain", "tiny", "ADD=3", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    const auto json = result.json();
    EXPECT_EQ(json["hit"], true);
    EXPECT_EQ(json["tier"], "disk");
    EXPECT_EQ(json["key"], built["key"]);
    EXPECT_THAT(json["place"].get<std::string>(), StartsWith(path("cache").string()));
    EXPECT_TRUE(std::filesystem::exists(json["place"].get<std::string>()));
    EXPECT_THAT(on_host({"explain", "tiny", "ADD=3"}).out, HasSubstr("HIT        disk"));
}

TEST_F(KilnTemplates, ExplainAMissNamesTheValueThatDiffers) {
    EXPECT_TRUE(on_host({"explain", "tiny", "ADD=4", "--json"}).json()["nearest"].is_null());
    const auto built = build("3").json();
    const Outcome result = on_host({"explain", "tiny", "ADD=4", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    const auto json = result.json();
    EXPECT_EQ(json["hit"], false);
    EXPECT_TRUE(json["tier"].is_null());
    EXPECT_EQ(json["nearest"]["key"], built["key"]);
    ASSERT_EQ(json["differences"].size(), 1U) << json;
    EXPECT_EQ(json["differences"][0]["ingredient"], "ADD");
    const Outcome text = on_host({"explain", "tiny", "ADD=4"});
    EXPECT_THAT(text.out, HasSubstr("MISS"));
    // Another backend's options and headers would fill a screen.
    const Outcome foreign =
        run({"explain", "tiny", "ADD=3", "--arch", "sm_90a", "--template-dir", templates()});
    EXPECT_THAT(foreign.out, HasSubstr("  backend  wanted  cuda\n           found   host\n"));
    EXPECT_THAT(foreign.out, Not(HasSubstr("option")));
    EXPECT_TRUE(std::regex_search(text.out, std::regex("wanted +.*4.*\n +found +.*3"))) << text.out;
    EXPECT_EQ(run({"cache", "stats", "--json"}).json()["entries"], 1) << "it builds nothing";
}

}  // namespace
}  // namespace kiln::test
