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

using ::testing::AllOf;
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
    EXPECT_EQ(
        std::count(result.out.begin(), result.out.end(), '\n'),
        static_cast<long>(run({"list", "--template-dir", templates(), "--json"}).json()["templates"].size()))
        << "one line each";
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

TEST_F(KilnTemplates, ListForAnArchitecture) {
    const Outcome amd = run({"list", "--arch", "gfx90a"});
    EXPECT_EQ(amd.status, 0) << amd.err;
    EXPECT_THAT(amd.out, HasSubstr("  gemm_mfma "));
    EXPECT_THAT(amd.out, Not(HasSubstr("  gemm_mma "))) << "it runs on sm_80 and later, and on the host";
    EXPECT_THAT(run({"list", "--arch", "sm_80"}).out, HasSubstr("  gemm_mma "));
    expect_error(run({"list", "--backend", "cuda", "--arch", "{}"}), 2,
                 {"'{}' is not one of cuda's", "sm_90"});
    expect_error(run({"list", "--arch", "nonsense"}), 2, {"'nonsense' belongs to no backend"});
}

TEST_F(KilnTemplates, ListOfReferences) {
    const std::string directory = with_template(
        "sum_reference",
        "// sum_reference: what a sum should be\n//@ kernel sum_reference\n//@ backend host\n//@ block 64\n"
        "//@ grid count\n#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void sum_reference(long long count, const long long* which, double* "
        "expected,\n"
        "                                         double* bound, const float* x) {}\n");
    const Arguments all = {"list", "--template-dir", directory, "--all"};
    EXPECT_THAT(run({"list", "--template-dir", directory}).out, Not(HasSubstr("sum_reference")));
    EXPECT_THAT(run({"list", "--template-dir", directory, "--json"}).out, Not(HasSubstr("sum_reference")));
    EXPECT_THAT(run(all).out, HasSubstr("sum_reference"));
    const auto json = run({"list", "--template-dir", directory, "--all", "--json"}).json();
    for (const auto& one : json["templates"]) {
        if (one["name"] != "sum_reference" && one["name"] != "gemm_tiled") continue;
        EXPECT_EQ(one["reference"], one["name"] == "sum_reference");
    }
}

TEST_F(KilnTemplates, ShowOfAProblem) {
    const std::string directory = with_template(
        "scaled",
        "// scaled: y = ALPHA * x\n//@ kernel scaled\n//@ param ALPHA float = 0.1 \"the factor\"\n"
        "//@ param BETA float in 0, 0.5 = 0\n//@ size n = 1000 test 33 multiple 1 \"elements\"\n"
        "//@ input x [n] in 0..9\n//@ output y [n] by scaled_reference exact\n//@ flops 2 * n\n"
        "//@ naive copy\n//@ block 64\n//@ grid ceil_div(n, 64)\n#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void scaled(int n, const float* x, float* y) {}\n");
    const Outcome text = run({"show", "scaled", "--backend", "host", "--template-dir", directory});
    for (const char* words :
         {"any finite float (0.1)", "0, 0.5 (0)", "1000 (33), multiples of 1", "elements", "[n]", "in 0..9",
          "by scaled_reference exact", "2 * n", "naive", "copy", "2 legal ones"})
        EXPECT_THAT(text.out, HasSubstr(words));
    const auto json =
        run({"show", "scaled", "--backend", "host", "--template-dir", directory, "--json"}).json();
    EXPECT_EQ(json["parameters"][0]["kind"], "float");
    EXPECT_EQ(json["parameters"][0]["default"], 0.1) << "a number, and in its own digits";
    EXPECT_TRUE(json["parameters"][0]["allowed"].is_null());
    EXPECT_TRUE(json["parameters"][0]["range"].is_null());
    EXPECT_EQ(json["parameters"][1]["allowed"], nlohmann::json({0.0, 0.5}));
    EXPECT_EQ(json["example"]["values"]["ALPHA"], 0.1);
    const auto& problem = json["problem"];
    EXPECT_EQ(problem["runnable"], true);
    EXPECT_EQ(problem["sizes"][0], (nlohmann::json{{"name", "n"},
                                                   {"default", "1000"},
                                                   {"test", "33"},
                                                   {"multiple", "1"},
                                                   {"at_most", nullptr},
                                                   {"text", "elements"}}));
    EXPECT_EQ(problem["tensors"][0]["fill"], "in 0..9");
    EXPECT_EQ(problem["tensors"][1]["role"], "output");
    EXPECT_EQ(problem["tensors"][1]["reference"], "scaled_reference");
    EXPECT_EQ(problem["tensors"][1]["exact"], true);
    EXPECT_EQ(problem["tensors"][1]["any_order"], false);
    EXPECT_EQ(problem["flops"], "2 * n");
    EXPECT_TRUE(problem["bytes"].is_null());
    EXPECT_EQ(problem["naive"], "copy");
    EXPECT_EQ(on_host({"show", "tiny", "--json"}).json()["problem"]["runnable"], false);
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
    EXPECT_EQ(json["digest"].get<std::string>().size(), 16U);
}

TEST_F(KilnTemplates, ShowListsConstants) {
    std::string text = tiny_template();
    text.insert(text.find("//@ require"),
                "//@ let TWICE = 2 * ADD \"twice as much\"\n//@ let IS_MANY = ADD > 4\n");
    const std::string directory = with_template("tiny", text);
    const auto json =
        run({"show", "tiny", "--backend", "host", "--template-dir", directory, "--json"}).json();
    EXPECT_EQ(json["constants"].dump(),
              R"([{"expression":"2 * ADD","name":"TWICE","text":"twice as much","value":2},)"
              R"({"expression":"ADD > 4","name":"IS_MANY","text":"","value":false}])");
    EXPECT_THAT(run({"show", "tiny", "--backend", "host", "--template-dir", directory}).out,
                AllOf(HasSubstr("Constants (in parentheses those of the defaults):"),
                      HasSubstr("2 * ADD (2)"), HasSubstr("ADD > 4 (false)"), HasSubstr("twice as much")));
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

TEST_F(KilnTemplates, ShowReportsHowItIsCompiledAndLaunched) {
    const std::string directory = with_template(
        "early",
        "// early: for tests.\n//\n//@ kernel early\n//@ param EARLY bool = true\n//@ dependent EARLY\n"
        "//@ opt_level EARLY ? 1 : 3\n//@ block 32\n//@ grid 1\n#include \"kiln/device.h\"\n\n"
        "extern \"C\" __global__ void early(float* y) {\n    kiln::wait_for_previous_grid();\n    y[0] = "
        "1;\n}\n");
    const auto json =
        run({"show", "early", "--template-dir", directory, "--arch", "sm_90a", "--json"}).json();
    EXPECT_EQ(json["dependent"], "EARLY");
    EXPECT_EQ(json["opt_level"], "EARLY ? 1 : 3");
    EXPECT_EQ(json["example"]["dependent"], true);
    EXPECT_EQ(json["example"]["opt_level"], 1);
    const std::string text = run({"show", "early", "--template-dir", directory, "--arch", "sm_90a"}).out;
    EXPECT_THAT(text, HasSubstr("launches may overlap where EARLY (they may here)"));
    EXPECT_THAT(text, HasSubstr("ptxas compiles at EARLY ? 1 : 3 (1 here)"));
    const auto none = on_host({"show", "tiny", "--json"}).json();
    EXPECT_TRUE(none["dependent"].is_null());
    EXPECT_TRUE(none["opt_level"].is_null());
    EXPECT_EQ(none["example"]["dependent"], false);
    EXPECT_EQ(none["example"]["opt_level"], 3);
}

TEST_F(KilnTemplates, AnUnknownTemplateSaysWhereOnesOwnAreLookedFor) {
    expect_error(
        run({"show", "mine"}), 2,
        {"there is no template 'mine'", "--template-dir", "KILN_TEMPLATE_PATH", "of which there are none"});
    expect_error(on_host({"run", "mine"}), 2,
                 {"--template-dir", "KILN_TEMPLATE_PATH", "here " + templates()});
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

TEST_F(KilnTemplates, BuildForCudaReportsRegisters) {
    const Outcome result = run({"build", "gemm_naive", "--arch", "sm_90a", "--json"});
    KILN_REQUIRE_OR_SKIP("nvrtc", result.status != 3, result.err);
    const auto json = result.json();
    EXPECT_EQ(json["kind"], "cubin");
    EXPECT_GT(json["registers"], 4);
    EXPECT_LT(json["registers"], 256);
}

TEST_F(KilnTemplates, BuildTimesThePhasesOfNvrtc) {
    const Outcome outcome =
        run({"build", "tiny", "--template-dir", templates(), "--arch", "sm_80", "--time", "--json"});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.status != 3, outcome.err);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::vector<std::string> names;
    const auto phases = outcome.json()["phases"];
    for (const auto& phase : phases) names.push_back(phase["name"]);
    EXPECT_THAT(names, ::testing::ElementsAre("front end", "NVVM optimizer", "ptxas", "rest"));
    EXPECT_GT(phases[0]["ms"].get<double>(), 0);
    const Outcome text = run({"build", "tiny", "--template-dir", templates(), "--arch", "sm_80", "--time"});
    EXPECT_THAT(text.out, HasSubstr("front end "));
    expect_error(on_host({"build", "tiny", "--time"}), 2, {"Only NVRTC reports the phases"});
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
