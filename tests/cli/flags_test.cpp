// SPDX-License-Identifier: Apache-2.0
//
// One test per flag of jit-gemm: status, standard output, standard error.
#include <gmock/gmock.h>
#include <kiln/service.h>

#include <algorithm>
#include <regex>

#include "program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Flags : public JitGemm {};

TEST_F(Flags, HelpShowsTheDefaultKernelsParameters) {
    const Outcome help = run({"--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.err, IsEmpty());
    EXPECT_TRUE(
        std::regex_search(help.out, std::regex("--bm BM +rows of C per block: 16, 32, 64, 128 \\(64\\)")))
        << help.out;
    for (const char* option : {"--kernel",
                               "--dtype",
                               "--out",
                               "--layout",
                               "--alpha",
                               "--bias",
                               "--residual",
                               "--beta",
                               "--activation",
                               "--m",
                               "--n",
                               "--k",
                               "--backend",
                               "--device",
                               "--arch",
                               "--compile-only",
                               "--iters",
                               "--warmup",
                               "--cold-l2",
                               "--verify",
                               "--seed",
                               "--cache-dir",
                               "--no-cache",
                               "--emit",
                               "--output",
                               "--json",
                               "--config",
                               "--list-kernels",
                               "--list-devices",
                               "--version",
                               "--template-dir",
                               "--help",
                               "--bm",
                               "--bn",
                               "--bk",
                               "--tm",
                               "--tn",
                               "--pad"})
        EXPECT_THAT(help.out, HasSubstr(std::string("  ") + option + " ")) << option;
    EXPECT_THAT(help.out, HasSubstr("T is set by --dtype (f16)"));
    EXPECT_THAT(help.out, Not(HasSubstr("--tile ")));
    EXPECT_THAT(help.out, Not(HasSubstr("  --t ")));
}

TEST_F(Flags, HelpOfAKernel) {
    const Outcome help = run({"--kernel", "gemm_square", "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, HasSubstr("--tile TILE"));
    EXPECT_THAT(help.out, Not(HasSubstr("--bm ")));
}

TEST_F(Flags, HelpOfAUsersKernel) {
    const std::string directory = with_template(
        "mine", naive_template("mine", "//@ param PAD_A int in 0..3 = 1 \"padding of A\"", "n"));
    const Outcome help = run({"--help", "--template-dir", directory, "--kernel", "mine"});
    EXPECT_EQ(help.status, 0) << help.err;
    EXPECT_TRUE(std::regex_search(help.out, std::regex("--pad-a PAD_A +padding of A: 0\\.\\.3 \\(1\\)")))
        << help.out;
}

TEST_F(Flags, Version) {
    const Outcome result = run({"--version"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out, "kiln " + std::string(version()) + "\n");
    EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Flags, ListKernels) {
    const Outcome result = run({"--list-kernels"});
    EXPECT_EQ(result.status, 0);
    for (const char* kernel : {"gemm_naive", "gemm_square", "gemm_tiled"})
        EXPECT_THAT(result.out, HasSubstr(std::string(kernel) + " "));
    const auto json = run({"--list-kernels", "--json"}).json();
    EXPECT_TRUE(std::any_of(json["kernels"].begin(), json["kernels"].end(), [](const auto& kernel) {
        return kernel["name"] == "gemm_tiled" && kernel["runs_here"] == true;
    }));
}

TEST_F(Flags, ListDevices) {
    const Outcome result = run({"--list-devices"});
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(std::regex_search(result.out, std::regex("^cuda  .+\nhip   .+\nhost  0: .+\n$")))
        << result.out;
    const auto json = run({"--list-devices", "--json"}).json();
    EXPECT_EQ(json["devices"].back()["backend"], "host");
    EXPECT_GT(json["devices"].back()["memory_bytes"], 0);
}

TEST_F(Flags, Shape) {
    const auto shape = multiply({"--json"}).json()["shape"];
    EXPECT_EQ(shape, nlohmann::json({{"m", 5}, {"n", 6}, {"k", 7}}));
}

TEST_F(Flags, TheDefaultShapeOfTheHost) {
    const Outcome result = run({"--backend", "host", "--compile-only", "--json"});
    EXPECT_EQ(result.json()["shape"], nlohmann::json({{"m", 512}, {"n", 512}, {"k", 512}}));
}

TEST_F(Flags, DefaultKernelAndDtype) {
    const auto json = run({"--backend", "host", "--compile-only", "--json"}).json();
    EXPECT_EQ(json["kernel"], "gemm_tiled");
    EXPECT_EQ(json["dtype"], "f16");
    EXPECT_EQ(json["variant"]["BM"], 64);
}

TEST_F(Flags, Dtype) {
    for (const auto& [dtype, type] : {std::pair{"f16", "half"}, {"bf16", "bfloat16"}, {"f32", "float"}}) {
        const auto json = multiply({"--dtype", dtype, "--json", "--compile-only"}).json();
        EXPECT_EQ(json["dtype"], dtype);
        EXPECT_EQ(json["variant"]["T"], type);
    }
}

TEST_F(Flags, OutLayoutAndEpilogueSayWhatIsComputed) {
    const Outcome result =
        run({"--backend",  "host",   "--m",      "33",           "--n",     "40",    "--k",    "17",
             "--out",      "f16",    "--layout", "tn",           "--alpha", "0.5",   "--bias", "row",
             "--residual", "--beta", "-2",       "--activation", "silu",    "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    const auto variant = result.json()["variant"];
    EXPECT_EQ(result.json()["kernel"], "gemm_naive");
    EXPECT_EQ(result.json()["shape"], nlohmann::json({{"m", 33}, {"n", 40}, {"k", 17}}));
    EXPECT_EQ(variant["OUT"], "half");
    EXPECT_EQ(variant["TRANS_A"], false);
    EXPECT_EQ(variant["TRANS_B"], true);
    EXPECT_EQ(variant["ALPHA"], 0.5);
    EXPECT_EQ(variant["BIAS"], 2);
    EXPECT_EQ(variant["RESIDUAL"], true);
    EXPECT_EQ(variant["BETA"], -2);
    EXPECT_EQ(variant["ACTIVATION"], 3);
}

TEST_F(Flags, OutLayoutAndEpilogueOfAKernelThatIsNamed) {
    const auto json = run({"--backend", "host", "--kernel", "gemm_batched", "--bias", "column",
                           "--activation", "relu", "--layout", "tt", "--compile-only", "--json"})
                          .json();
    EXPECT_EQ(json["variant"]["BIAS"], true);
    EXPECT_EQ(json["variant"]["ACTIVATION"], 1);
    EXPECT_EQ(json["variant"]["TRANS_A"], true);
    const auto refused = [&](const std::vector<std::string>& options) {
        std::vector<std::string> all = {"--backend", "host", "--compile-only"};
        all.insert(all.end(), options.begin(), options.end());
        const Outcome result = run(all);
        EXPECT_EQ(result.status, 2);
        return result.err;
    };
    EXPECT_THAT(refused({"--kernel", "gemm_batched", "--bias", "row"}), HasSubstr("for columns only"));
    EXPECT_THAT(refused({"--kernel", "gemm_tiled", "--out", "f16"}),
                HasSubstr("--out: gemm_tiled has no parameter OUT; gemm_naive, "));
    EXPECT_THAT(refused({"--activation", "gelo"}), HasSubstr("Did you mean gelu?"));
    EXPECT_THAT(refused({"--alpha", "x"}), HasSubstr("--alpha x: this should be a finite number"));
}

TEST_F(Flags, TheTemplateIsChosenAmongThoseThatComputeTheSame) {
    const Outcome built = run({"--backend", "cuda", "--arch", "sm_90a", "--compile-only"});
    KILN_REQUIRE_OR_SKIP("nvrtc", built.status == 0, built.err);
    const auto chosen = [&](const std::vector<std::string>& more) {
        std::vector<std::string> all = {"--backend", "cuda", "--arch", "sm_90a", "--compile-only", "--json",
                                        "--out",     "f16",  "--bias", "column", "--activation",   "gelu"};
        all.insert(all.end(), more.begin(), more.end());
        return run(all).json()["kernel"];
    };
    EXPECT_EQ(chosen({"--layout", "tn", "--m", "4096", "--n", "4096", "--k", "4096"}), "gemm_wgmma");
    EXPECT_THAT(std::string(chosen({"--m", "4095", "--n", "4097", "--k", "4099"})),
                Not(StartsWith("gemm_naive")));
}

TEST_F(Flags, ParametersOfTheTemplate) {
    const auto json = run({"--backend", "host",    "--m",  "70", "--n",  "50", "--k",  "40", "--json", "--bm",
                           "32",        "--bn=32", "--bk", "16", "--tm", "2",  "--tn", "2",  "--pad",  "1"})
                          .json();
    for (const auto& [parameter, value] :
         {std::pair{"BM", 32}, {"BN", 32}, {"BK", 16}, {"TM", 2}, {"TN", 2}, {"PAD", 1}})
        EXPECT_EQ(json["variant"][parameter], value) << parameter;
    EXPECT_EQ(json["pass"], true);
    EXPECT_EQ(json["shared_bytes"], (32 * 16 + 16 * (32 + 1)) * 2);
}

TEST_F(Flags, BackendAutoSaysInOneLineWhyItRunsOnTheHost) {
    if (has_gpu()) GTEST_SKIP() << "a GPU is here";
    const Outcome result = run({"--kernel", "gemm_naive", "--m", "3", "--n", "3", "--k", "3"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(std::regex_match(
        result.err, std::regex("jit-gemm: no GPU \\(cuda: .+; hip: .+\\); running on the host\n")))
        << result.err;
    EXPECT_THAT(result.out, HasSubstr("(host, "));
}

TEST_F(Flags, BackendHostSaysNothing) {
    const Outcome result = multiply();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Flags, Device) {
    EXPECT_EQ(multiply({"--device", "0"}).status, 0);
    const Outcome result = multiply({"--device", "7"});
    EXPECT_EQ(result.status, 4);
    expect_clean_error(result);
    EXPECT_THAT(result.err, HasSubstr("7"));
}

TEST_F(Flags, ArchIsPartOfTheKey) {
    const auto key = [&](const char* arch) {
        return run({"--backend", "host", "--emit", "key", "--arch", arch}).out;
    };
    const Outcome native = run({"--backend", "host", "--compile-only", "--json"});
    const std::string arch = native.json()["arch"];
    EXPECT_THAT(key(arch.c_str()), StartsWith(native.json()["key"].get<std::string>() + "\n"));
}

TEST_F(Flags, ArchOfCudaNeedsNoDevice) {
    const Outcome result = run({"--arch", "sm_90a", "--emit", "source"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Flags, CompileOnlyRunsNothing) {
    const auto json = multiply({"--compile-only", "--json"}).json();
    EXPECT_EQ(json["cache"], "compiled");
    EXPECT_EQ(json["verified"], "none");
    for (const char* field : {"device", "load_ms", "time_ms", "gflops", "gbps", "max_abs_error",
                              "max_error_over_bound", "pass", "registers", "blocks_per_sm"})
        EXPECT_TRUE(json[field].is_null()) << field;
    EXPECT_THAT(multiply({"--compile-only"}).out, HasSubstr("NOT RUN"));
}

TEST_F(Flags, ExplainChoiceNamesFiveVariantsAndWhy) {
    const std::vector<std::string> shape = {"--arch", "sm_90a",          "--m", "1000", "--n", "1000", "--k",
                                            "1000",   "--explain-choice"};
    const Outcome text = run(shape);
    ASSERT_EQ(text.status, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("bound by"));
    std::vector<std::string> with_json = shape;
    with_json.emplace_back("--json");
    const nlohmann::json considered = run(with_json).json()["considered"];
    ASSERT_EQ(considered.size(), 5U);
    for (const nlohmann::json& one : considered) {
        EXPECT_THAT(text.out, HasSubstr(one["template"].get<std::string>()));
        EXPECT_GT(one["ms"].get<double>(), 0);
        EXPECT_FALSE(one["reason"].get<std::string>().empty());
        EXPECT_TRUE(one["values"].contains("BM")) << one;
    }
    EXPECT_EQ(run({"--explain-choice", "--bm", "64"}).status, 2);
    const Outcome refused = run({"--explain-choice", "--emit", "source"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("leave --emit out"));
}

// A calibration that can't be read is said, and the shipped one taken.
TEST_F(Flags, SaysThatACalibrationIsIgnored) {
    const std::vector<std::string> arguments = {"--arch", "sm_90a", "--m", "1000", "--explain-choice"};
    const Outcome shipped = run(arguments, {{"KILN_WISDOM", path("wisdom.txt").string()}});
    ASSERT_EQ(shipped.status, 0) << shipped.err;
    EXPECT_THAT(shipped.out, HasSubstr("calibrated by"));
    write("calibration.txt", "# kiln calibration 1\ndevice A\nmodel 0\n");
    const Outcome ignored = run(arguments, {{"KILN_WISDOM", path("wisdom.txt").string()}});
    EXPECT_EQ(ignored.status, 0);
    EXPECT_EQ(ignored.out, shipped.out);
    EXPECT_THAT(ignored.err, HasSubstr("the calibration is ignored: "));
    EXPECT_THAT(ignored.err, HasSubstr("calibration.txt:3: it was made for version 0 of the model"));
}

TEST_F(Flags, ItersAndWarmup) {
    EXPECT_EQ(multiply({"--iters", "7", "--warmup", "2", "--json"}).json()["time_ms"]["iterations"], 7);
    const int chosen = multiply({"--json"}).json()["time_ms"]["iterations"];
    EXPECT_GE(chosen, 3);
    EXPECT_LE(chosen, 20);
}

TEST_F(Flags, NamesOfKilnRun) {
    const auto json = multiply({"--iterations", "7", "--warm-up", "2", "--check", "sample", "--json"}).json();
    EXPECT_EQ(json["time_ms"]["iterations"], 7);
    EXPECT_EQ(json["verified"], "sample");
    EXPECT_EQ(json["check"], "freivalds") << "all of C is looked at";
    EXPECT_EQ(json["outputs"][0]["wrong_rows"], 0);
    for (const auto& [option, alias] :
         {std::pair{"--iterations", "--iters"}, {"--warm-up", "--warmup"}, {"--check", "--verify"}}) {
        const Outcome both = multiply({option, "full", alias, "full"});
        EXPECT_EQ(both.status, 2);
        EXPECT_THAT(both.err, HasSubstr(std::string(alias) + " is the same as " + option));
    }
}

TEST_F(Flags, ColdL2) {
    const Outcome result = multiply({"--cold-l2", "--iters", "3", "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()["time_ms"]["iterations"], 3);
}

TEST_F(Flags, Verify) {
    for (const char* how : {"full", "sample"}) {
        const auto json = multiply({"--verify", how, "--json"}).json();
        EXPECT_EQ(json["verified"], how);
        EXPECT_EQ(json["pass"], true);
        EXPECT_TRUE(json["max_error_over_bound"].is_number());
    }
    const auto json = multiply({"--verify", "none", "--json"}).json();
    EXPECT_EQ(json["verified"], "none");
    EXPECT_TRUE(json["pass"].is_null());
    EXPECT_TRUE(json["max_abs_error"].is_null());
}

TEST_F(Flags, SeedDecidesTheInputs) {
    const auto of_seed = [&](const char* seed) {
        return run({"--backend", "host", "--kernel", "gemm_naive", "--m", "40", "--n", "40", "--k", "301",
                    "--seed", seed, "--json"})
            .json()["max_abs_error"];
    };
    EXPECT_EQ(of_seed("1"), of_seed("1"));
    EXPECT_NE(of_seed("1"), of_seed("2"));
}

TEST_F(Flags, CacheDirIsUsedAndTheSecondRunFindsIt) {
    const std::string directory = path("named").string();
    EXPECT_EQ(multiply({"--cache-dir", directory, "--json"}).json()["cache"], "compiled");
    EXPECT_FALSE(std::filesystem::is_empty(directory));
    const Outcome second = multiply({"--cache-dir", directory, "--json"});
    EXPECT_EQ(second.json()["cache"], "disk");
    EXPECT_EQ(second.json()["pass"], true);
    EXPECT_FALSE(std::filesystem::exists(path("cache"))) << "KILN_CACHE_DIR gives way to --cache-dir";
}

TEST_F(Flags, WhatIsOnlyCompiledTakesNoOptionsOfARun) {
    for (const Arguments& mode :
         {Arguments{"--compile-only"}, Arguments{"--emit", "key"}, Arguments{"--explain-choice"}})
        for (const Arguments& run :
             {Arguments{"--iters", "3"}, Arguments{"--warmup", "1"}, Arguments{"--seed", "1"},
              Arguments{"--verify", "none"}, Arguments{"--cold-l2"}}) {
            Arguments all = mode;
            all.insert(all.end(), run.begin(), run.end());
            const Outcome outcome = multiply(all);
            EXPECT_EQ(outcome.status, 2) << run[0];
            EXPECT_THAT(outcome.err, HasSubstr(mode[0] + " does not run the kernel, and " + run[0]));
        }
}

// From the binary, since no driver tells them.
TEST_F(Flags, CompileOnlyReportsRegisters) {
    for (const Arguments& target : {Arguments{"--backend", "cuda", "--arch", "sm_80"},
                                    Arguments{"--backend", "hip", "--arch", "gfx90a"}}) {
        Arguments arguments = target;
        arguments.insert(arguments.end(), {"--kernel", "gemm_naive", "--compile-only", "--json"});
        const Outcome result = run(arguments);
        const std::string compiler = target[1] == "cuda" ? "nvrtc" : "hiprtc";
        KILN_REQUIRE_OR_SKIP(compiler, result.status == 0, result.err);
        EXPECT_GT(result.json()["registers"], 4) << target[1];
        EXPECT_LT(result.json()["registers"], 256) << target[1];
        arguments.pop_back();
        EXPECT_THAT(run(arguments).out, HasSubstr("registers per thread")) << target[1];
    }
}

TEST_F(Flags, NoCache) {
    multiply();
    const Outcome result = multiply({"--no-cache", "--json"});
    EXPECT_EQ(result.json()["cache"], "off");
    EXPECT_FALSE(std::filesystem::exists(path("unused")));
    const Outcome both = multiply({"--no-cache", "--cache-dir", path("unused").string()});
    EXPECT_EQ(both.status, 2);
    EXPECT_THAT(both.err, HasSubstr("--no-cache uses no cache, and --cache-dir names one"));
    EXPECT_FALSE(std::filesystem::exists(path("unused")));
}

TEST_F(Flags, EmitSource) {
    const Outcome result = multiply({"--emit", "source"});
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, HasSubstr("#line"));
    EXPECT_THAT(result.out, HasSubstr("__global__"));
    EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(Flags, EmitKey) {
    const std::string digest = multiply({"--compile-only", "--json"}).json()["key"];
    EXPECT_TRUE(std::regex_match(digest, std::regex("[0-9a-f]{64}")));
    const Outcome result = multiply({"--emit", "key"});
    EXPECT_THAT(result.out, StartsWith(digest + "\n"));
    EXPECT_GT(result.out.size(), 100U);
}

TEST_F(Flags, EmitBinaryAndLog) {
    EXPECT_THAT(multiply({"--emit", "binary"}).out, StartsWith("\x7f"
                                                               "ELF"));
    EXPECT_EQ(multiply({"--emit", "log"}).status, 0);
}

TEST_F(Flags, EmitPtx) {
    const Outcome on_host = multiply({"--emit", "ptx"});
    EXPECT_EQ(on_host.status, 2);
    expect_clean_error(on_host);
    const Outcome result =
        run({"--kernel", "gemm_tiled", "--backend", "cuda", "--arch", "sm_90a", "--emit", "ptx"});
    KILN_REQUIRE_OR_SKIP("nvrtc", result.status != 3, result.err);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(".target sm_90a"));
    EXPECT_THAT(result.out, HasSubstr("gemm_tiled"));
}

TEST_F(Flags, Output) {
    const std::string file = path("source.cu").string();
    const Outcome result = multiply({"--emit", "source", "--output", file});
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_EQ(*read_text_if_exists(file), multiply({"--emit", "source"}).out);
    const Outcome with_json = multiply({"--emit", "source", "--output", file, "--json"});
    EXPECT_EQ(with_json.json()["source"], file);
}

TEST_F(Flags, Config) {
    const std::string file =
        write("gemm.ini",
              "# a product\nkernel = gemm_tiled\nbackend = host\nbm = 32\ntm = 2\nm = 9\njson = true\n");
    const Outcome result = run({"--config", file, "--n", "8", "--k", "7", "--compile-only"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()["variant"]["BM"], 32);
    EXPECT_EQ(result.json()["variant"]["TM"], 2);
    EXPECT_EQ(result.json()["shape"], nlohmann::json({{"m", 9}, {"n", 8}, {"k", 7}}));
    const Outcome overridden = run({"--config", file, "--bm", "16", "--m", "3", "--compile-only"});
    EXPECT_EQ(overridden.json()["variant"]["BM"], 16) << "the command line wins";
    EXPECT_EQ(overridden.json()["shape"]["m"], 3);
    EXPECT_EQ(overridden.json()["variant"]["TM"], 2);
}

TEST_F(Flags, ConfigChoosesTheKernelWhoseParametersItSets) {
    const std::string file = write("gemm.ini", "kernel = gemm_square\ntile = 8\nbackend = host\n");
    const Outcome result = run({"--config", file, "--compile-only", "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()["variant"]["TILE"], 8);
    EXPECT_EQ(run({"--config", write("empty.ini", ""), "--version"}).status, 0);
}

TEST_F(Flags, ConfigFromAPipe) {
    const std::string program = (own_directory() / "jit-gemm").string();
    const std::string command =
        "printf 'bm = 32\\nbackend = host\\n' | \"$0\" --config /dev/stdin --compile-only --json";
    const Outcome result =
        run_program({"/bin/sh", "-c", command, program},
                    {{"KILN_CACHE_DIR", path("cache").string()}, {"PATH", "/usr/bin:/bin"}});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()["variant"]["BM"], 32);
}

TEST_F(Flags, TemplateDir) {
    const std::string directory = with_template("mine", naive_template("mine", "", "n"));
    const Outcome result = run({"--template-dir", directory, "--kernel", "mine", "--backend", "host", "--m",
                                "20", "--n", "30", "--k", "40", "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.json()["pass"], true);
    EXPECT_EQ(result.json()["dtype"], "f16");
    EXPECT_THAT(run({"--template-dir", directory, "--list-kernels"}).out, HasSubstr("mine"));
}

}  // namespace
}  // namespace kiln::test
