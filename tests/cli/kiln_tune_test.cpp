// SPDX-License-Identifier: Apache-2.0
//
// kiln tune and kiln wisdom as a person uses them; jit-gemm with wisdom, with --tune, and with neither.
#include <kiln/wisdom.h>

#include <csignal>

#include "kiln_program.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class KilnTune : public Kiln {
  protected:
    KilnTune() {
        static_cast<void>(with_template("fill_reference", R"(// fill_reference: for tests.
//
//@ kernel fill_reference
//@ backend host
//@ block 32
//@ grid ceil_div(count, 32)
#include "kiln/reference.h"

extern "C" __global__ void fill_reference(long long count, const long long* which, double* expected, double* bound) {
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    expected[i] = double(which ? which[i] : i);
    bound[i] = 0;
}
)"));
        static_cast<void>(with_template("fill", R"(// fill: y[i] = i, wrong for WAY 2, for tests.
//
//@ kernel fill
//@ param WAY int in 1, 2 = 2
//@ block 32
//@ grid ceil_div(n, 32)
//@ size n = 100 test 100
//@ output y [n] by fill_reference
#include "kiln/device.h"

extern "C" __global__ void fill(int n, float* y) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = i == 7 * (WAY - 1) ? WAY - 1 : i;
}
)"));
    }
    Outcome tuned(Arguments more) const {
        more.insert(more.begin(), {"tune", "fill"});
        more.insert(more.end(), {"--output", file()});
        return on_host(std::move(more));
    }
    std::string file() const { return path("wisdom.txt").string(); }
};

TEST_F(KilnTune, FindsTheRightVariantAndKeepsIt) {
    const Outcome found = tuned({"--shapes", "n=64", "n=200", "--budget", "60", "--json"});
    ASSERT_EQ(found.status, 0) << found.err;
    const auto json = found.json();
    EXPECT_EQ(json["wisdom"], file());
    EXPECT_EQ(json["templates"][0], "fill");
    EXPECT_FALSE(json["interrupted"]);
    ASSERT_EQ(json["shapes"].size(), 2U);
    for (const auto& shape : json["shapes"]) {
        EXPECT_EQ(shape["legal"], 2);
        EXPECT_EQ(shape["timed"], 1);
        ASSERT_EQ(shape["best"].size(), 1U);
        EXPECT_EQ(shape["best"][0]["values"]["WAY"], 1);
        ASSERT_EQ(shape["failed"].size(), 1U);
        EXPECT_TRUE(shape["failed"][0]["wrong"]);
        EXPECT_TRUE(shape["default_ms"].is_null()) << "the defaults are wrong";
    }
    EXPECT_EQ(Wisdom::load(file()).entries().size(), 2U);

    const auto shown = run({"wisdom", "show", file(), "--json"}).json();
    ASSERT_EQ(shown["entries"].size(), 2U);
    EXPECT_EQ(shown["entries"][0]["template"], "fill");
    EXPECT_THAT(run({"wisdom", "show", file()}).out, HasSubstr("n=200"));
    EXPECT_THAT(run({"wisdom", "export", file(), "--template", "fill"}).out,
                HasSubstr("fill | n=200 | WAY=1"));
    const Outcome other = run({"wisdom", "export", file(), "--template", "gemm_tiled"});
    EXPECT_EQ(other.status, 0) << "a template that has no wisdom";
    EXPECT_THAT(other.out, Not(HasSubstr("fill")));
    for (const char* command : {"show", "export"})
        expect_error(run({"wisdom", command, file(), "--template", "gemm_tild"}), 2,
                     {"there is no template 'gemm_tild'; did you mean gemm_tiled?"});
    const std::string manifest = run({"wisdom", "export", file(), "--manifest"}).out;
    EXPECT_THAT(manifest, ::testing::MatchesRegex("fill WAY=1 @host:[^\n]*\n"))
        << "both shapes have this one";
    const Outcome regressed =
        on_host({"regress", write("wisdom_variants.txt", manifest), "--update", "--baselines",
                 path("baselines").string(), "--template-dir", templates()});
    EXPECT_EQ(regressed.status, 0) << regressed.out << regressed.err;
    const std::string all = path("all.txt").string();
    const Outcome merged = run({"wisdom", "merge", file(), file(), "--output", all, "--json"});
    EXPECT_EQ(merged.json()["entries"], 2);
    EXPECT_EQ(*read_text_if_exists(all), *read_text_if_exists(file()));
}

TEST_F(KilnTune, ShapesWithoutARightVariantAreANo) {
    const Outcome none = tuned({"WAY=2"});
    EXPECT_EQ(none.status, 1) << none.err;
    EXPECT_THAT(none.out, AllOf(HasSubstr("none"), HasSubstr("wrong results"),
                                HasSubstr("wisdom.txt, to which nothing was added\n")));
    EXPECT_TRUE(Wisdom::load(file()).empty());
}

/// Two templates for `fill_reference`, one that takes its time and one that ends the process.
class KilnTuneHard : public KilnTune {
  protected:
    void add(const std::string& name, const std::string& lines, const std::string& body) const {
        static_cast<void>(with_template(
            name, "// " + name + ": for tests.\n//\n//@ kernel " + name + "\n" + lines +
                      "//@ block 32\n//@ grid 1\n//@ output y [32] by fill_reference\n"
                      "#include \"kiln/device.h\"\n\nextern \"C\" __global__ void " +
                      name + "(float* y) {\n    const int i = threadIdx.x;\n" + body + "    y[i] = i;\n}\n"));
    }
};

// A launch takes most of a second, so that the run can't end at once.
TEST_F(KilnTuneHard, CtrlCKeepsWhatWasFound) {
    add("slow", "//@ param WORK int in 400000000, 500000000 = 400000000\n",
        "    volatile int sum = 0;\n    if (i == 0) for (int w = 0; w < WORK; ++w) sum = sum + 1;\n");
    const Outcome stopped =
        run_in_shell("env --default-signal=INT \"$0\" tune slow --budget 100 --output " + file() +
                         " --backend host --template-dir " + templates() +
                         " --json & job=$!\n"
                         "tries=0; while ! grep -q ^ok " +
                         file() + ".journal && [ $((tries += 1)) -lt 600 ]; do sleep 0.05; done 2> " +
                         path("grep.txt").string() + "\nkill -INT $job; wait $job; exit $?",
                     {{"KILN_CACHE_DIR", path("cache").string()}});
    EXPECT_EQ(stopped.status, 130) << stopped.err;
    EXPECT_TRUE(stopped.json()["interrupted"]) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("--resume continues"));
    EXPECT_EQ(Wisdom::load(file()).entries().size(), 1U);
}

TEST_F(KilnTuneHard, AVariantThatEndsTheProcessIsLeftOutByTheNextRun) {
    add("deadly", "//@ param WAY int in 1, 2 = 2\n",
        "    if (WAY == 2) *reinterpret_cast<volatile int*>(8 * WAY) = i;\n");
    // In a child it is only one that failed (host_failures_test.cpp); in this process it ends the run.
    const std::string tune = "KILN_HOST_IN_PROCESS=1 \"$0\" tune deadly --backend host --template-dir " +
                             templates() + " --output " + file() + " --workers 1 --json";
    EXPECT_NE(run_in_shell(tune + "; exit $?").status, 0) << "the defaults go first";
    EXPECT_THAT(*read_text_if_exists(file() + ".journal"), HasSubstr("trying | deadly WAY=2"));
    const Outcome next = run_in_shell(tune + " --resume");
    ASSERT_EQ(next.status, 0) << next.err;
    const auto shape = next.json()["shapes"][0];
    EXPECT_EQ(shape["best"][0]["values"]["WAY"], 1);
    EXPECT_THAT(std::string(shape["failed"][0]["reason"]), HasSubstr("ended while it was tried"));
    EXPECT_EQ(shape["timed"], 1);
    EXPECT_EQ(shape["resumed"], 0);
}

TEST_F(KilnTune, WrongCommandLinesAreRejected) {
    expect_error(on_host({"tune", "fell", "--output", file()}), 2, {"fell", "fill"});
    expect_error(tuned({"WEY=1"}), 2, {"WEY", "WAY"});
    expect_error(tuned({"WAY=1", "WAY=2"}), 2, {"WAY is given twice; a variant has one value"});
    expect_error(tuned({"--shapes", "m=3"}), 2, {"m"});
    expect_error(tuned({"--budget", "soon"}), 2, {"--budget soon", "seconds"});
    expect_error(tuned({"--shard", "2/2"}), 2, {"--shard", "1"});
    expect_error(tuned({"--shard", "2"}), 2, {"--shard 2", "0/8"});
    expect_error(tuned({"--devices", "0,0"}), 2, {"twice"});
    expect_error(on_host({"tune", "tiny", "--output", file()}), 2, {"tiny", "can't be tuned"});
    write("wisdom.txt", "# kiln wisdom 1\nhalf a line\n");
    expect_error(tuned({}), 2, {"wisdom.txt:2: "});
    expect_error(run({"wisdom", "show", file()}), 2, {"wisdom.txt:2: "});
    expect_error(run({"wisdom", "merge", path("none.txt").string()}), 2, {"none.txt"});
    for (const char* text : {"", "\n \n"}) {
        write("empty.txt", text);
        expect_error(
            run({"wisdom", "merge", path("empty.txt").string(), "--output", path("out.txt").string()}), 2,
            {"empty.txt is empty", "'# kiln wisdom 1'"});
        EXPECT_FALSE(std::filesystem::exists(path("out.txt")));
    }
    expect_error(run({"wisdom", "shew"}), 2, {"show"});
}

class JitGemmChoice : public JitGemm {};

TEST_F(JitGemmChoice, WithoutWisdomTheHostKeepsTheDefaultsAndSaysSo) {
    const auto json = multiply({"--json", "--iters", "3"}).json();
    EXPECT_EQ(json["choice"]["origin"], "model");
    EXPECT_FALSE(json["choice"]["stale"]);
    EXPECT_TRUE(json["choice"]["wisdom"].is_null());
    EXPECT_EQ(json["variant"]["BX"], 16);
    EXPECT_TRUE(multiply({"--bx", "8", "--json", "--iters", "3"}).json()["choice"].is_null());
}

TEST_F(JitGemmChoice, TuningFindsWisdomWhichIsThenUsed) {
    const std::string file = path("wisdom.txt").string();
    const Outcome tuned = multiply({"--tune", "--budget", "2", "--wisdom", file, "--json", "--iters", "3"});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    EXPECT_EQ(tuned.json()["choice"]["origin"], "wisdom");
    const Outcome again = multiply({"--wisdom", file, "--iters", "3"});
    EXPECT_THAT(again.out, HasSubstr("by wisdom of"));
    EXPECT_THAT(again.out, HasSubstr("for this shape"));
    const auto entry = Wisdom::load(file).entries().front();
    EXPECT_EQ(entry.sizes, (Sizes{{"k", 7}, {"m", 5}, {"n", 6}}));
    const auto near = run({"--backend", "host", "--kernel", "gemm_naive", "--m", "6", "--n", "6", "--k", "7",
                           "--wisdom", file, "--json", "--iters", "3"})
                          .json();
    EXPECT_EQ(near["choice"]["origin"], "nearest");
    EXPECT_EQ(near["variant"], tuned.json()["variant"]);

    for (const Arguments& wrong :
         {Arguments{"--budget", "3"}, Arguments{"--tune", "--bx", "8"}, Arguments{"--tune", "--compile-only"},
          Arguments{"--wisdom", path("no").string()}}) {
        const Outcome refused = multiply(wrong);
        EXPECT_EQ(refused.status, 2);
        expect_clean_error(refused);
    }
}

TEST_F(JitGemmChoice, TuningThatFindsNothingSaysSo) {
    const std::string compiler =
        write("no_cxx", "#!/bin/sh\n[ \"$*\" = -v ] && exec g++ -v\necho broken >&2; exit 1\n");
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    const Outcome none = multiply({"--tune", "--budget", "1", "--wisdom", path("wisdom.txt").string()},
                                  {{"KILN_HOST_CXX", compiler}, {"KILN_CACHE_DIR", path("cache").string()}});
    EXPECT_EQ(none.status, 3);
    EXPECT_THAT(none.err, AllOf(HasSubstr("--tune found nothing"), HasSubstr("tried, and failed"),
                                HasSubstr("gemm_naive")));
}

TEST_F(JitGemmChoice, AGpuGetsTheBestTemplateForTheShape) {
    const auto chosen = [&](Arguments arguments) {
        arguments.insert(arguments.begin(), {"--arch", "sm_90a", "--emit", "source"});
        return run(std::move(arguments)).out;
    };
    EXPECT_THAT(chosen({"--m", "4096", "--n", "4096", "--k", "4096"}), HasSubstr("void gemm_wgmma("));
    EXPECT_THAT(chosen({"--m", "4096", "--n", "4095", "--k", "4095"}), Not(HasSubstr("void gemm_wgmma(")));
    EXPECT_THAT(chosen({"--dtype", "f32"}), Not(HasSubstr("void gemm_wgmma(")));
    EXPECT_THAT(chosen({"--bm", "64", "--bn", "64", "--pad", "1"}), HasSubstr("void gemm_tiled("));
}

}  // namespace
}  // namespace kiln::test
