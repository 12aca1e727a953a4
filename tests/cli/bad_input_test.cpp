// SPDX-License-Identifier: Apache-2.0
//
// Wrong input: a paragraph that names the value, the rule and the nearest right choice; the exit
// status; nothing on standard output; nothing half-written.
#include <gmock/gmock.h>
#include <kiln/device.h>

#include <algorithm>
#include <array>

#include "program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BadInput : public JitGemm {
  protected:
    static void expect_error(const Outcome& outcome, int status, const std::vector<std::string>& words) {
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_THAT(outcome.out, IsEmpty());
        expect_clean_error(outcome);
        for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
    }
};

TEST_F(BadInput, ParameterValues) {
    expect_error(compile_tiled({"--bm", "0"}), 2, {"BM", "0", "16"});
    expect_error(compile_tiled({"--bm", "48"}), 2, {"BM", "48", "16, 32, 64, 128"});
    expect_error(compile_tiled({"--bm", "-1"}), 2, {"BM", "-1", "16"});
    expect_error(compile_tiled({"--bm=-1"}), 2, {"BM", "-1", "16"});
    expect_error(compile_tiled({"--bm", "1e9"}), 2, {"BM", "1e9"});
    expect_error(compile_tiled({"--bm", "sixty"}), 2, {"BM", "sixty", "16, 32, 64, 128"});
    expect_error(compile_tiled({"--bm", "99999999999999999999999"}), 2, {"BM", "99999999999999999999999"});
    expect_error(compile_tiled({"--bm", ""}), 2, {});
}

TEST_F(BadInput, ASquareTileOf64HasTooManyThreads) {
    expect_error(compile_tiled({"--kernel", "gemm_square", "--tile", "64"}), 2,
                 {"TILE", "64", "4096", "1024"});
}

TEST_F(BadInput, AVectorWidthThatDoesNotFitThePitch) {
    expect_error(compile_tiled({"--vec", "2", "--pad", "1"}), 2, {"PAD", "VEC", "2"});
}

TEST_F(BadInput, MoreSharedMemoryThanTheDeviceHas) {
    const std::string directory = with_template("big", naive_template("big", "//@ shared 1000000000", "n"));
    expect_error(run({"--backend", "host", "--template-dir", directory, "--kernel", "big"}), 2,
                 {"1000000000"});
    expect_error(run({"--arch", "sm_80", "--emit", "source", "--template-dir", directory, "--kernel", "big"}),
                 2, {"1000000000"});
}

TEST_F(BadInput, TooManyThreads) {
    std::string text = naive_template("wide", "", "n");
    text.replace(text.find("block 16, 16"), 12, "block 2048");
    expect_error(
        run({"--backend", "host", "--template-dir", with_template("wide", text), "--kernel", "wide"}), 2,
        {"2048", "1024"});
}

TEST_F(BadInput, Shape) {
    for (const char* option : {"--m", "--n", "--k"}) {
        for (const char* value : {"-5", "2147483648", "1e3", "many", "18446744073709551617"})
            expect_error(run({"--backend", "host", option, value}), 2,
                         {option, value, "from 0 to 2147483647"});
    }
}

TEST_F(BadInput, SizesThatDoNotFit) {
    expect_error(run({"--backend", "host", "--m", "2147483647", "--n", "2147483647", "--k", "2147483647"}), 2,
                 {"m = 2147483647", "n = 2147483647", "c has a size that does not fit 64 bits"});
    expect_error(run({"--backend", "host", "--m", "3000000", "--n", "3000000", "--k", "1"}), 2,
                 {"k=1 m=3000000 n=3000000 needs 360000", "a 5.7 MiB", "c 32.7 TiB", "free"});
}

TEST_F(BadInput, OtherNumbers) {
    expect_error(multiply({"--iters", "0"}), 2, {"--iters", "'0'", "1"});
    expect_error(multiply({"--warmup", "-1"}), 2, {"--warmup", "'-1'", "0"});
    expect_error(multiply({"--device", "first"}), 2, {"--device", "first"});
    expect_error(multiply({"--seed", "0.5"}), 2, {"--seed", "0.5"});
}

TEST_F(BadInput, Choices) {
    expect_error(run({"--dtype", "fp16"}), 2, {"--dtype", "fp16", "f16, bf16 or f32", "Did you mean f16?"});
    expect_error(run({"--backend", "cud"}), 2, {"--backend", "cud", "Did you mean cuda?"});
    expect_error(run({"--verify", "all"}), 2, {"full, sample, none or freivalds", "'all'"});
    expect_error(run({"--emit", "cubin"}), 2, {"source, ptx, binary, log or key", "cubin"});
}

TEST_F(BadInput, UnknownKernel) {
    expect_error(run({"--kernel", "gemm_tild"}), 2, {"gemm_tild", "gemm_tiled"});
}

TEST_F(BadInput, UnknownOptions) {
    expect_error(multiply({"--sed", "1"}), 2, {"--sed", "Did you mean --seed?"});
    expect_error(run({"--BM", "64"}), 2, {"--BM", "Did you mean --bm?"});
    expect_error(run({"--frobnicate"}), 2, {"--frobnicate", "--help"});
    expect_error(run({"--kern", "gemm_naive"}), 2, {"--kern", "Did you mean --kernel?"});
    expect_error(run({"64"}), 2, {"unexpected argument '64'"});
    expect_error(run({"-h"}), 2, {"'-h'", "--help"});
    expect_error(run({"--m"}), 2, {"--m"});
    expect_error(run({"--seed", "1", "--seed", "2"}), 2, {"--seed"});
    expect_error(run({"--json=yes"}), 2, {"--json"});
}

TEST_F(BadInput, OptionInPlaceOfAValue) {
    expect_error(run({"--bm", "--m", "33"}), 2, {"--bm needs a value", "--m"});
    expect_error(run({"--kernel", "--bm", "64"}), 2, {"--kernel needs a value", "--bm"});
}

TEST_F(BadInput, EmptyValues) {
    for (const char* option : {"--cache-dir", "--template-dir", "--arch", "--config", "--bx"})
        expect_error(multiply({option, ""}), 2, {std::string(option) + " has an empty value"});
    expect_error(compile_tiled({"--output", ""}), 2, {"--output has an empty value"});
}

TEST_F(BadInput, AnotherKernelsParameter) {
    expect_error(run({"--tile", "16"}), 2, {"--tile", "gemm_square", "gemm_tiled", "--bm"});
    expect_error(run({"--kernel", "gemm_square", "--bm", "16"}), 2,
                 {"--bm", "gemm_tiled", "gemm_square", "--tile"});
}

TEST_F(BadInput, Config) {
    const std::string file = write("gemm.ini", "backend = host\nspeed = 1\n");
    expect_error(run({"--config", file}), 2, {file, "speed"});
    const std::string misspelt = write("misspelt.ini", "sede = 1\n");
    expect_error(run({"--config", misspelt}), 2, {misspelt, "Did you mean seed?"});
    const std::string other = write("other.ini", "tile = 16\n");
    expect_error(run({"--config", other}), 2, {other, "tile", "gemm_square"});
    const std::string broken = write("broken.ini", "just words\n");
    expect_error(run({"--config", broken}), 2, {broken});
    const std::string value = write("value.ini", "m = -1\n");
    expect_error(run({"--config", value, "--backend", "host"}), 2, {"--m", "'-1'"});
    expect_error(run({"--config", path("missing.ini").string()}), 2, {"missing.ini"});
    expect_error(run({"--config", path("").string()}), 2, {"--config"});
    expect_error(run({"--config", "/dev/zero"}), 2, {"/dev/zero", "it is a device", "1.0 MiB"});
}

// Without care the first file that is opened gets the number of a closed standard output, and the report.
TEST_F(BadInput, ClosedStandardOutput) {
    const std::string program = (own_directory() / "jit-gemm").string();
    const Environment environment = {{"KILN_CACHE_DIR", path("cache").string()}};
    const std::string command = "exec \"$0\" --backend host --kernel gemm_naive --m 5 --n 6 --k 7 --iters 1 ";
    for (const char* closed : {">&-", ">&- <&-"})
        expect_error(run_program({"/bin/sh", "-c", command + closed, program}, environment), 2,
                     {"standard output"});
    EXPECT_EQ(run_program({"/bin/sh", "-c", command + ">&- 2>&-", program}, environment).status, 2);
    EXPECT_EQ(run_program({"/bin/sh", "-c", command + "2>&-", program}, environment).status, 0);
}

// A compiler that never ends: the signal must end it, and nothing of the work may stay behind.
TEST_F(BadInput, ASignalInMidCompileLeavesNothing) {
    const std::string mark = path("compiler_ran").string();
    write("slow_cxx", "#!/bin/sh\n[ \"$*\" = -v ] && exec g++ -v\necho $$ > " + mark + "\nexec sleep 60\n");
    std::filesystem::permissions(path("slow_cxx"), std::filesystem::perms::owner_all);
    std::filesystem::create_directory(path("tmp"));
    const Environment environment = {{"KILN_CACHE_DIR", path("cache").string()},
                                     {"KILN_HOST_CXX", path("slow_cxx").string()},
                                     {"TMPDIR", path("tmp").string()}};
    const std::string script = "\"$0\" --backend host & job=$!; while ! [ -s " + mark +
                               " ]; do sleep .02; done; kill -TERM $job; wait $job; echo status $?; "
                               "kill -0 $(cat " +
                               mark + ") 2>/dev/null && echo still running";
    const auto result =
        run_program({"/bin/sh", "-c", script, (own_directory() / "jit-gemm").string()}, environment);
    EXPECT_EQ(result.out, "status 143\n");
    EXPECT_TRUE(std::filesystem::is_empty(path("tmp")));
}

TEST_F(BadInput, FrontMatterWithASyntaxError) {
    std::string text = naive_template("bad", "//@ param BM int of 16, 32 = 16 \"rows\"", "n");
    const std::string directory = with_template("bad", text);
    expect_error(run({"--template-dir", directory, "--kernel", "bad", "--backend", "host"}), 2,
                 {"bad.cu:4:"});
}

TEST_F(BadInput, BodyWithASyntaxError) {
    std::string text = naive_template("bad", "", "n");
    text.replace(text.find("float sum = 0;"), 14, "flaot sum = 0;");
    const std::string directory = with_template("bad", text);
    const Outcome result = run({"--template-dir", directory, "--kernel", "bad", "--backend", "host"});
    expect_error(result, 3, {"bad.cu:12", "flaot"});
}

TEST_F(BadInput, MissingTemplateDirectory) {
    const std::string directory = path("nowhere").string();
    expect_error(run({"--template-dir", directory}), 2, {directory});
}

TEST_F(BadInput, AnotherSignature) {
    std::string text = naive_template("other", "", "n");
    text.replace(text.find("float* c"), 8, "double* c");
    const std::string directory = with_template("other", text);
    expect_error(run({"--template-dir", directory, "--kernel", "other", "--backend", "host"}), 2,
                 {"other", "double* c", "float* c"});
}

TEST_F(BadInput, ADtypeThatATemplateDoesNotHave) {
    const std::string directory = with_template("mine", naive_template("mine", "", "n"));
    expect_error(
        run({"--template-dir", directory, "--kernel", "mine", "--backend", "host", "--dtype", "f32"}), 2,
        {"--dtype f32", "mine", "f16"});
}

TEST_F(BadInput, NoNvrtc) {
    const Outcome result =
        run({"--arch", "sm_90a", "--compile-only"}, {{"KILN_NVRTC", path("libnvrtc.so").string()}});
    expect_error(result, 3, {"NVRTC", "libnvrtc.so"});
}

TEST_F(BadInput, NoCudaDevice) {
    if (!Device::list(Backend::cuda).empty()) GTEST_SKIP() << "a CUDA device is here";
    expect_error(run({"--backend", "cuda"}), 4, {"CUDA"});
}

TEST_F(BadInput, NoHipDevice) {
    if (!Device::list(Backend::hip).empty()) GTEST_SKIP() << "a HIP device is here";
    expect_error(run({"--backend", "hip"}), 4, {"HIP"});
}

TEST_F(BadInput, UnknownArchitecture) {
    expect_error(run({"--arch", "sm_1", "--compile-only", "--backend", "cuda"}), 2,
                 {"'sm_1' is not one of cuda's", "sm_90"});
    expect_error(run({"--arch", "riscy", "--compile-only"}), 2, {"riscy"});
    // Also where nothing is compiled.
    for (const char* arch : {"sm_99999", "sm_80a", "sm_90b", "{}", "gfx90a"})
        expect_error(run({"--explain-choice", "--backend", "cuda", "--arch", arch}), 2,
                     {std::string("'") + arch + "' is not one of cuda's"});
    for (const char* arch : {"gfx", "gfx90a:fast", "sm_90"})
        expect_error(run({"--explain-choice", "--backend", "hip", "--arch", arch}), 2,
                     {std::string("'") + arch + "' is not one of hip's"});
}

// It looks like one, but no table and no compiler has it.
TEST_F(BadInput, ArchitectureThatDoesNotExist) {
    const Arguments arguments = {"--explain-choice", "--arch", "sm_999"};
    const Outcome unknown = run(arguments, {{"KILN_NVRTC", path("libnvrtc.so").string()}});
    EXPECT_EQ(unknown.status, 0) << unknown.err;
    EXPECT_THAT(unknown.err, HasSubstr("it is not known whether there is an architecture 'sm_999'"));
    const Outcome rejected = run(arguments);
    KILN_REQUIRE_OR_SKIP("nvrtc", rejected.err.find("it is not known") == std::string::npos, rejected.err);
    expect_error(rejected, 2, {"'sm_999' is known neither to Kiln, which has sm_75", "nor to NVRTC"});
}

// Messages quote files: what is a command to a terminal must not be one there.
TEST_F(BadInput, ControlCharactersOfFilesAreNotPrinted) {
    const std::string text = naive_template("bad", "//@ \033[31mparam\a BM int", "n");
    const Outcome result =
        run({"--template-dir", with_template("bad", text), "--kernel", "bad", "--backend", "host"});
    expect_error(result, 2, {"bad.cu:4:", "\\x1b"});
    EXPECT_EQ(result.err.find_first_of("\033\a"), std::string::npos) << result.err;
    const Outcome option = run({"--kernel", "gr\xc3\xbc\xc3\x9f\x1b]0;title\x07"});
    expect_error(option, 2, {"gr\xc3\xbc\xc3\x9f\\x1b]0;title\\x07"});
}

TEST_F(BadInput, ACacheDirectoryThatIsAFile) {
    const std::string file = write("file", "precious");
    const Outcome named = multiply({"--cache-dir", file});
    expect_error(named, 2, {"--cache-dir", file});
    EXPECT_EQ(*read_text_if_exists(file), "precious");
    const Outcome from_environment = multiply({}, {{"KILN_CACHE_DIR", file}});
    EXPECT_EQ(from_environment.status, 0) << "the program goes on without a cache";
    EXPECT_EQ(std::count(from_environment.err.begin(), from_environment.err.end(), '\n'), 1)
        << from_environment.err;
    expect_clean_error(from_environment);
    EXPECT_THAT(from_environment.err, HasSubstr(file));
    EXPECT_EQ(multiply({"--no-cache", "--cache-dir", file}).status, 2);
}

TEST_F(BadInput, ACacheDirectoryThatCannotBeWritten) {
    // Not even root creates directories there.
    expect_error(multiply({"--cache-dir", "/proc/kiln-cache"}), 2, {"/proc/kiln-cache"});
}

TEST_F(BadInput, Output) {
    expect_error(multiply({"--output", path("x").string()}), 2, {"--output", "--emit"});
    const Outcome with_json = multiply({"--emit", "source", "--json"});
    EXPECT_EQ(with_json.status, 2);
    EXPECT_THAT(with_json.err, HasSubstr("--output"));
    const std::string file = path("no/such/file").string();
    expect_error(multiply({"--emit", "source", "--output", file}), 2, {file});
    expect_error(multiply({"--emit", "source", "--output", path("").string()}), 2, {"--output"});
    const std::string kept = write("kept", "as it was");
    expect_error(multiply({"--emit", "ptx", "--output", kept}), 2, {});
    EXPECT_EQ(*read_text_if_exists(kept), "as it was");
}

TEST_F(BadInput, AWrongResultIsFound) {
    const std::string directory = with_template("wrong", naive_template("wrong", "", "n - 1"));
    for (const char* how : {"full", "sample"}) {
        const Outcome result = run({"--template-dir", directory, "--kernel", "wrong", "--backend", "host",
                                    "--m", "30", "--n", "31", "--k", "32", "--verify", how, "--json"});
        EXPECT_EQ(result.status, 1);
        EXPECT_EQ(result.json()["pass"], false);
        EXPECT_TRUE(result.json()["max_abs_error"].is_null()) << "never written: NaN";
        expect_clean_error(result);
        EXPECT_THAT(result.err, HasSubstr("wrong result"));
        EXPECT_THAT(result.err, HasSubstr("the first at [0, 30]: nan"));
    }
    const Outcome text = run({"--template-dir", directory, "--kernel", "wrong", "--backend", "host", "--m",
                              "30", "--n", "31", "--k", "32"});
    EXPECT_EQ(text.status, 1);
    EXPECT_THAT(text.out, HasSubstr("FAIL"));
    EXPECT_EQ(text.out.find("PASS"), std::string::npos);
}

TEST_F(BadInput, WhatAKernelWritesApartFromItsResultIsFound) {
    for (const auto& [name, statement, words] :
         {std::array{"beyond", "c[(long long)m * n + 3] = 1;", "after the end of c, 12 bytes away"},
          {"input", "const_cast<kiln::half*>(a)[0] = kiln::half(2.0f);", "wrote to its input a"}}) {
        std::string text = naive_template(name, "", "n");
        text.insert(text.rfind("}"),
                    std::string("    if (row == m - 1 && column == n - 1) ") + statement + "\n");
        const Outcome result = run({"--template-dir", with_template(name, text), "--kernel", name,
                                    "--backend", "host", "--m", "30", "--n", "31", "--k", "32", "--json"});
        EXPECT_EQ(result.status, 1) << result.err;
        EXPECT_EQ(result.json()["pass"], false);
        EXPECT_THAT(result.err, HasSubstr(words));
    }
}

TEST_F(BadInput, AFullStandardOutput) {
    const std::string program = (own_directory() / "jit-gemm").string();
    const Outcome result = run_program({"/bin/sh", "-c", "exec \"$0\" --version >/dev/full", program}, {});
    expect_error(result, 2, {"standard output"});
}

TEST_F(BadInput, ErrorsAsJson) {
    struct Case {
        Arguments arguments;
        int status;
        const char* kind;
    };
    std::string body = naive_template("bad", "", "n");
    body.replace(body.find("float sum = 0;"), 14, "flaot sum = 0;");
    const std::string directory = with_template("bad", body);
    for (const Case& one : std::array<Case, 6>{
             {{{"--json", "--m", "-1"}, 2, "usage"},
              {{"--frobnicate", "--json"}, 2, "usage"},
              {{"--json", "--bm", "48"}, 2, "variant"},
              {{"--json", "--template-dir", path("nowhere").string()}, 2, "template"},
              {{"--json", "--template-dir", directory, "--kernel", "bad", "--backend", "host"}, 3, "build"},
              {{"--json", "--backend", "host", "--device", "9"}, 4, "device"}}}) {
        const Outcome result = run(one.arguments);
        EXPECT_EQ(result.status, one.status) << result.err;
        expect_clean_error(result);
        const auto json = result.json();
        EXPECT_EQ(json.size(), 1U);
        EXPECT_EQ(json["error"]["kind"], one.kind);
        EXPECT_EQ("jit-gemm: " + json["error"]["message"].get<std::string>() + "\n", result.err);
    }
}

}  // namespace
}  // namespace kiln::test
