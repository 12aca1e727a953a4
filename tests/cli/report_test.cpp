// SPDX-License-Identifier: Apache-2.0
//
// What jit-gemm prints: the JSON's fields and types, the text, colour only on a terminal; and that
// odd sizes come out right with all kernels and types on the host.
#include <gmock/gmock.h>

#include <array>
#include <set>
#include <tuple>

#include "program.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class Output : public JitGemm {};

TEST_F(Output, JsonHasEveryFieldOfTheRightTypeAndNothingElse) {
    const Outcome result = multiply({"--json", "--iters", "4"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    const nlohmann::json json = result.json();  // throws if anything else were there
    std::set<std::string> fields;
    for (const auto& [field, value] : json.items()) fields.insert(field);
    const std::set<std::string> of_kiln_run = {
        "template",    "values",   "sizes",      "tensors",  "data",      "seed",    "tier",
        "local_bytes", "graph_ms", "flops",      "bytes",    "naive",     "check",   "outputs",
        "overrun",     "changed",  "not_zeroed", "unstable", "dependent", "failures"};
    EXPECT_THAT(fields, IsSupersetOf(of_kiln_run));
    for (const std::string& field : of_kiln_run) fields.erase(field);
    EXPECT_EQ(fields,
              (std::set<std::string>{"kernel",    "variant",       "choice",        "dtype",
                                     "backend",   "device",        "arch",          "shape",
                                     "cache",     "key",           "build_ms",      "load_ms",
                                     "time_ms",   "gflops",        "gbps",          "shared_bytes",
                                     "registers", "blocks_per_sm", "max_abs_error", "max_error_over_bound",
                                     "verified",  "pass"}));
    for (const char* field : {"kernel", "dtype", "backend", "device", "arch", "cache", "key", "verified"})
        EXPECT_TRUE(json[field].is_string()) << field;
    for (const char* field :
         {"build_ms", "load_ms", "gflops", "gbps", "max_abs_error", "max_error_over_bound"})
        EXPECT_TRUE(json[field].is_number()) << field;
    EXPECT_TRUE(json["shared_bytes"].is_number_unsigned());
    EXPECT_TRUE(json["pass"].is_boolean());
    EXPECT_TRUE(json["variant"].is_object());
    for (const char* extent : {"m", "n", "k"}) EXPECT_TRUE(json["shape"][extent].is_number_integer());
    for (const char* time : {"min", "median", "max"}) EXPECT_GT(json["time_ms"][time], 0) << time;
    EXPECT_LE(json["time_ms"]["min"], json["time_ms"]["median"]);
    EXPECT_LE(json["time_ms"]["median"], json["time_ms"]["max"]);
    EXPECT_EQ(json["time_ms"]["iterations"], 4);
    EXPECT_NEAR(json["gflops"].get<double>(), 2.0 * 5 * 6 * 7 / json["time_ms"]["median"].get<double>() / 1e6,
                1e-6);
    // Registers and blocks per multiprocessor mean nothing on the host.
    EXPECT_TRUE(json["registers"].is_null());
    EXPECT_TRUE(json["blocks_per_sm"].is_null());
}

TEST_F(Output, TextSaysWhatEachFigureIs) {
    const Outcome result = multiply();
    EXPECT_EQ(result.status, 0);
    for (const char* word :
         {"gemm_naive", "problem", "C (5 x 6, f32)", "device", "compiled in", "loaded in", "key",
          "shared bytes per block", "median", "GFLOP/s", "GB/s", "of the bound", "PASS", "all 30 elements"})
        EXPECT_THAT(result.out, HasSubstr(word));
    EXPECT_THAT(multiply().out, HasSubstr("from the cache (disk)"));
    EXPECT_THAT(multiply({"--verify", "none"}).out, HasSubstr("NOT CHECKED"));
}

TEST_F(Output, NoColourInAPipe) { EXPECT_THAT(multiply().out, Not(HasSubstr("\033"))); }

/// jit-gemm on a terminal that script(1) makes; its standard error comes with its standard output.
class OnATerminal : public JitGemm {
  protected:
    void SetUp() override {
        ProcessRequest probe;
        probe.arguments = {"script", "--version"};
        if (!run_process(probe).succeeded()) GTEST_SKIP() << "the program script is not here";
    }

    Outcome on_terminal(const std::string& arguments, Environment more = {}) const {
        more.emplace_back("KILN_CACHE_DIR", path("cache").string());
        return run_program({"script", "-qec",
                            (own_directory() / "jit-gemm").string() +
                                " --backend host --kernel gemm_naive --m 3 --n 3 --k 3 " + arguments,
                            "/dev/null"},
                           std::move(more));
    }
};

TEST_F(OnATerminal, ColoursAreShown) {
    EXPECT_THAT(on_terminal("").out, HasSubstr("\033[32mPASS\033[0m"));
    EXPECT_THAT(on_terminal("--m 0").out, HasSubstr("\033[31mjit-gemm:\033[0m"));
}

TEST_F(OnATerminal, NoBinaryIsWritten) {
    const Outcome binary = on_terminal("--emit binary");
    EXPECT_EQ(binary.status, 2);
    EXPECT_THAT(binary.out, HasSubstr("not written to a terminal"));
    EXPECT_EQ(on_terminal("--emit binary --output /dev/null").status, 0);
}

TEST_F(OnATerminal, ProgressIsShownOnlyWhenSomethingTakesOverASecond) {
    EXPECT_THAT(on_terminal("").out, Not(HasSubstr("building")));
    const std::string slow =
        write("slow-c++", "#!/bin/sh\ncase \"$*\" in *-std=*) sleep 1.5 ;; esac\nexec c++ \"$@\"\n");
    std::filesystem::permissions(slow, std::filesystem::perms::owner_all);
    const Environment slow_compiler = {{"KILN_HOST_CXX", slow}};
    const Outcome compiling = on_terminal("--no-cache", slow_compiler);
    EXPECT_EQ(compiling.status, 0) << compiling.out;
    EXPECT_THAT(compiling.out, HasSubstr("\rjit-gemm: building, 1 s"));
    Environment in_a_pipe = slow_compiler;
    in_a_pipe.emplace_back("KILN_CACHE_DIR", path("cache").string());
    EXPECT_THAT(multiply({"--no-cache"}, in_a_pipe).err, IsEmpty());
}

using Product = std::tuple<const char*, const char*>;

class OnTheHost : public JitGemm, public ::testing::WithParamInterface<Product> {};

TEST_P(OnTheHost, OddSizesAreRight) {
    const auto [kernel, dtype] = GetParam();
    const std::vector<std::array<const char*, 3>> shapes = {
        {"1", "1", "1"}, {"17", "19", "23"}, {"63", "65", "67"}};
    for (const auto& [m, n, k] : shapes) {
        const Outcome result = run({"--backend", "host", "--kernel", kernel, "--dtype", dtype, "--m", m,
                                    "--n", n, "--k", k, "--iters", "3", "--json"});
        ASSERT_EQ(result.status, 0) << result.err;
        EXPECT_EQ(result.json()["pass"], true);
        EXPECT_EQ(result.json()["verified"], "full");
        EXPECT_EQ(result.json()["dtype"], dtype);
        EXPECT_LE(result.json()["max_error_over_bound"], 1);
    }
}

INSTANTIATE_TEST_SUITE_P(KernelsAndTypes, OnTheHost,
                         ::testing::Combine(::testing::Values("gemm_naive", "gemm_square", "gemm_tiled"),
                                            ::testing::Values("f16", "bf16", "f32")),
                         [](const auto& one) {
                             return std::string(std::get<0>(one.param)) + "_" + std::get<1>(one.param);
                         });

}  // namespace
}  // namespace kiln::test
