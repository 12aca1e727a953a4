// SPDX-License-Identifier: Apache-2.0
//
// kiln run: its options, its report, its exit statuses; and jit-gemm on products that declare their problem.
#include "kiln_program.h"
#include "run_templates.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class KilnRun : public Kiln {
  protected:
    KilnRun() {
        add_doubling_templates([this](const auto& name, const auto& text) { with_template(name, text); });
    }
    Outcome run_doubling(Arguments more) const {
        more.insert(more.begin(), {"run", "doubling"});
        return on_host(std::move(more));
    }
};

TEST_F(KilnRun, ReportsWhatItFound) {
    const Outcome result = run_doubling({"--size", "n=300"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, IsEmpty());
    for (const char* word :
         {"doubling FACTOR=2 SCALE=1\n", "n=300 m=2", "x float (2 x 300), y float (2 x 300)", "(host, x86-64",
          "compiled in", "shared bytes per block", "median", "GFLOP/s", "GB/s",
          "y: at most 0; at most 0 of the bound; all 600 elements", "PASS", "random inputs, seed 1"})
        EXPECT_THAT(result.out, HasSubstr(word));
    EXPECT_THAT(result.out, Not(HasSubstr("\033")));
    EXPECT_THAT(run_doubling({"--no-time"}).out,
                AllOf(HasSubstr("from the cache (disk)"), Not(HasSubstr("median"))));
}

TEST_F(KilnRun, SaysWhichContributionsTheBoundsHide) {
    with_template(
        "row_sum",
        "// row_sum: for tests.\n//@ kernel row_sum\n//@ block 1\n//@ grid rows\n//@ size rows = 3\n//@ size "
        "n = 20000\n"
        "//@ input x [rows, n]\n//@ output y [rows] by row_sum_reference\n#include \"kiln/device.h\"\n"
        "extern \"C\" __global__ void row_sum(int rows, int n, const float* x, float* y) {\n    float sum = "
        "0;\n"
        "    for (int i = 0; i < n; ++i) sum += x[blockIdx.x * n + i];\n    y[blockIdx.x] = sum;\n}\n");
    const auto report = [&](const std::string& bound, const Arguments& more) {
        std::string reference =
            reference_template("row_sum_reference", "int n, const float* x",
                               "kiln::FloatSum sum;\n    for (int j = 0; j < n; ++j) sum.add(x[e * n + j]);\n"
                               "    expected[i] = sum.value();\n    bound[i] = " +
                                   bound + "kiln::gamma<float>(n) * sum.magnitude();");
        reference.insert(reference.find("//@ backend"), "//@ data x term n\n");
        with_template("row_sum_reference", reference);
        Arguments all = {"run", "row_sum", "--no-time"};
        all.insert(all.end(), more.begin(), more.end());
        return on_host(all);
    };
    const Outcome hiding = report("", {});
    EXPECT_EQ(hiding.status, 0) << hiding.err;
    EXPECT_THAT(hiding.out,
                AllOf(HasSubstr("all 3 elements, 0 of 24 contributions visible"),
                      HasSubstr("  note       the bounds of y hide what a kernel leaves out: 24 of 24"),
                      HasSubstr("kiln::FloatSum"), HasSubstr("PASS")));
    EXPECT_THAT(hiding.out, Not(HasSubstr("each contribution visible")));
    const nlohmann::json found = report("", {"--json"}).json()["outputs"][1]["contributions"];
    EXPECT_EQ(found["tried"], 24);
    EXPECT_EQ(found["hidden"], 24);
    EXPECT_EQ(found["input"], "x");
    EXPECT_LE(found["change"], found["bound"]);
    const Outcome showing = report("sum.is_exact() ? 0 : ", {});
    EXPECT_THAT(showing.out, AllOf(HasSubstr("each contribution visible"), Not(HasSubstr("note"))));
    EXPECT_TRUE(report("sum.is_exact() ? 0 : ", {"--json"}).json()["outputs"][1]["contributions"].is_null());
}

TEST_F(KilnRun, SaysOnWhatAResultDepends) {
    std::string text = doubling_template();
    const std::string right = "y[row * n + i] = FACTOR * x[row * n + i]";
    text.replace(text.find(right), right.size(),
                 "y[row * n + i] = fmaxf(y[row * n + i], FACTOR * x[row * n + i])");
    with_template("doubling", text);
    const Outcome result = run_doubling({});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("y depends on what it held before the launch"));
    EXPECT_EQ(run_doubling({"--json"}).json()["dependent"],
              nlohmann::json::parse(R"([{"output": "y", "tensor": "y"}])"));
}

TEST_F(KilnRun, BestIsOfAllTemplatesOfTheFamily) {
    const Outcome result = run(
        {"run", "sum", "T=float", "--best", "--size", "n=2000", "--backend", "host", "--no-time", "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.json()["template"].get<std::string>(), testing::StartsWith("sum_"));
    EXPECT_NE(result.json()["template"], "sum_naive");
    EXPECT_EQ(result.json()["values"]["T"], "float");
    EXPECT_EQ(result.json()["sizes"]["n"], 2000);
    EXPECT_TRUE(result.json()["choice"]["text"].is_string());
    const Outcome built = run({"build", "gemm", "T=half", "--best", "--size", "m=4096,n=4096,k=4096",
                               "--backend", "cuda", "--arch", "sm_90a", "--json"});
    if (built.status == 0) {
        EXPECT_EQ(built.json()["template"], "gemm_wgmma");
        EXPECT_THAT(built.json()["choice"].get<std::string>(), testing::StartsWith("by wisdom"));
    }
    EXPECT_THAT(run({"run", "sum", "--backend", "host"}).err,
                testing::AllOf(testing::HasSubstr("family of templates, sum_naive, sum_shuffle and sum_tree"),
                               testing::HasSubstr("--best")));
    const Outcome wrong = run({"run", "summ", "--best", "--backend", "host"});
    EXPECT_EQ(wrong.status, 2);
    EXPECT_THAT(wrong.err, testing::HasSubstr("summ"));
    EXPECT_THAT(run({"build", "sum_naive", "--size", "n=3", "--backend", "host"}).err,
                testing::HasSubstr("--best"));
}

TEST_F(KilnRun, BestTakesSizesThatTheDefaultsRefuse) {
    std::string text = doubling_template();
    const auto put = [&](const std::string& what, const std::string& with) {
        for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
            text.replace(at, what.size(), with);
    };
    put("doubling", "paired");
    put("paired_reference", "doubling_reference");
    put("//@ naive paired_naive\n", "//@ param VEC int in 1, 2, 4 = 4\n");
    put("n = 1000 test 97", "n = 1000 test 96 multiple VEC");
    with_template("paired", text);
    const Outcome odd = on_host({"run", "paired", "--best", "--size", "n=98", "--no-time", "--json"});
    ASSERT_EQ(odd.status, 0) << odd.err;
    EXPECT_EQ(odd.json()["values"]["VEC"], 2);
    EXPECT_EQ(odd.json()["sizes"], nlohmann::json({{"n", 98}, {"m", 2}}));
    EXPECT_THAT(on_host({"run", "paired", "VEC=4", "--best", "--size", "n=98"}).err,
                HasSubstr("the size n = 98 must be a multiple of 4; the nearest is 96 or 100"));
}

// gemm_naive, which stands for the family, has neither BM nor STAGES.
TEST_F(KilnRun, BestWithParametersThatOnlySomeTemplatesHave) {
    const auto best = [&](std::vector<std::string> words) {
        words.insert(words.begin(), "build");
        words.insert(words.end(), {"--best", "--backend", "host", "--json"});
        return run(words);
    };
    const Outcome tiled = best({"gemm", "T=float", "BM=32"});
    ASSERT_EQ(tiled.status, 0) << tiled.err;
    EXPECT_EQ(tiled.json()["values"]["BM"], 32);
    EXPECT_EQ(tiled.json()["values"]["T"], "float");
    const Outcome both = best({"gemm", "STAGES=2", "BM=64"});
    ASSERT_EQ(both.status, 0) << both.err;
    EXPECT_EQ(both.json()["values"]["BM"], 64);
    EXPECT_EQ(both.json()["values"]["STAGES"], 2);

    for (const auto& [words, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"gemm", "BMM=64"}, "has a parameter BMM; they have "},
             {{"gemm", "BMM=64"}, "Did you mean BM?"},
             {{"gemm", "BM=63"}, "the nearest is 64"},
             {{"gemm", "BM=64", "BM=32"}, "BM is given twice"},
             {{"gemm", "STAGES=2", "ROWS=8"}, "which have STAGES, has a parameter ROWS"},
             {{"gemm", "STAGES=2", "WM=64", "ROWS=8"},
              "gemm_mma, which has STAGES and WM, has no parameter ROWS"},
             {{"gem"}, "there is no template or family of templates 'gem'; did you mean gemm?"},
             {{"layer_nrom"}, "did you mean layer_norm"}}) {
        const Outcome wrong = best(words);
        EXPECT_EQ(wrong.status, 2) << message;
        EXPECT_THAT(wrong.err, HasSubstr(message));
    }
}

TEST_F(KilnRun, AWrongResultIsStatusOne) {
    const Outcome result = run_doubling({"FACTOR=3", "--no-time"});
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.out, HasSubstr("FAIL"));
    expect_clean_error(result, "kiln");
    EXPECT_THAT(result.err, HasSubstr("194 of 194 checked elements of y are wrong, the first at [0, 0]: "));
    const Outcome json = run_doubling({"FACTOR=3", "--no-time", "--json"});
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(json.json()["pass"], false);
    EXPECT_EQ(json.json()["outputs"][0]["wrong"], 194);
    EXPECT_EQ(json.json()["failures"].size(), 1U);
    const Outcome unchecked = run_doubling({"FACTOR=3", "--no-time", "--check", "none"});
    EXPECT_EQ(unchecked.status, 0);
    EXPECT_THAT(unchecked.out, HasSubstr("NOT CHECKED"));
}

TEST_F(KilnRun, WhatNothingIsComparedWithDoesNotPass) {
    const Outcome text = on_host({"run", "doubling_naive", "--no-time"});
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_THAT(text.out, AllOf(HasSubstr("y: not compared"),
                                HasSubstr("NOT CHECKED no output has a reference"), Not(HasSubstr("PASS"))));
    EXPECT_TRUE(on_host({"run", "doubling_naive", "--no-time", "--json"}).json()["pass"].is_null());
}

// The logarithm of what is below zero is NaN, whatever it is multiplied by.
TEST_F(KilnRun, WhatIsNanByExpectationIsReportedAndDoesNotPass) {
    const auto report = [&](const std::string& offset, const Arguments& more = {}) {
        with_template("logs",
                      "// logs: for tests.\n//@ kernel logs\n//@ block 32\n//@ grid ceil_div(n, 32)\n"
                      "//@ size n = 200\n//@ input x [n]\n//@ output y [n] by logs_reference\n"
                      "#include \"kiln/device.h\"\n"
                      "extern \"C\" __global__ void logs(int n, const float* x, float* y) {\n"
                      "    const int i = blockIdx.x * 32 + threadIdx.x;\n"
                      "    if (i < n) y[i] = logf(x[i] + " +
                          offset + ") * (x[i] + " + offset + " < 0 ? 3 : 7);\n}\n");
        with_template("logs_reference",
                      reference_template("logs_reference", "const float* x",
                                         "expected[i] = 7 * log(static_cast<double>(x[e] + " + offset +
                                             "f));\n    bound[i] = 1e-4;"));
        Arguments all = {"run", "logs", "--no-time"};
        all.insert(all.end(), more.begin(), more.end());
        const Outcome outcome = on_host(all);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome;
    };
    EXPECT_THAT(report("-5.0").out, AllOf(HasSubstr("all 200 elements, 200 of them NaN or infinite"),
                                          HasSubstr("Random inputs are in [-1, 1)"),
                                          HasSubstr("NOT CHECKED all that is expected is NaN or infinite"),
                                          Not(HasSubstr("PASS"))));
    const auto none = report("-5.0", {"--json"}).json();
    EXPECT_TRUE(none["pass"].is_null());
    EXPECT_EQ(none["outputs"][0]["not_finite"], 200);
    EXPECT_THAT(report("0.0").out,
                AllOf(HasSubstr(" of 200 checked elements of y are NaN or infinite, as expected"),
                      HasSubstr("PASS")));
    EXPECT_THAT(report("5.0").out, AllOf(Not(HasSubstr("NaN")), HasSubstr("PASS")));
}

TEST_F(KilnRun, SizesOfTestsAreTheHostsDefault) {
    EXPECT_THAT(run_doubling({"--no-time"}).out, HasSubstr("n=97 m=2 (the host is slow"));
    EXPECT_THAT(run_doubling({"--no-time", "--size", "n=5,m=3"}).out,
                AllOf(HasSubstr("n=5 m=3\n"), Not(HasSubstr("slow"))));
    const auto sizes =
        run_doubling({"--no-time", "--json", "--size", "n=5", "--size", "m=1"}).json()["sizes"];
    EXPECT_EQ(sizes, nlohmann::json({{"n", 5}, {"m", 1}}));
}

TEST_F(KilnRun, OptionsReachTheRun) {
    const auto json =
        run_doubling({"--json", "--data", "integers", "--seed", "7", "--check", "full", "--iterations", "3",
                      "--warm-up", "1", "--cold-l2", "--graph", "SCALE=0.1"})
            .json();
    EXPECT_EQ(json["data"], "integers");
    EXPECT_EQ(json["seed"], 7);
    EXPECT_EQ(json["check"], "full");
    EXPECT_EQ(json["time_ms"]["iterations"], 3);
    EXPECT_GT(json["graph_ms"]["median"], 0);
    EXPECT_EQ(json["values"]["SCALE"], 0.1);
    EXPECT_EQ(json["pass"], true);
}

TEST_F(KilnRun, ComparesWithTheNaiveTemplate) {
    const Outcome result = run_doubling({"--compare"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("doubling_naive: median"), HasSubstr("times as long")));
    const auto naive = run_doubling({"--compare", "--json"}).json()["naive"];
    EXPECT_EQ(naive["template"], "doubling_naive");
    EXPECT_GT(naive["speed_up"], 0);
    expect_error(on_host({"run", "doubling_naive", "--compare"}), 2, {"doubling_naive declares no template"});
}

TEST_F(KilnRun, MistakesAreReported) {
    expect_error(run_doubling({"--size", "k=3"}), 2, {"k"});
    expect_error(run_doubling({"--size", "n"}), 2, {"--size n: 'n' is not of the form NAME=N"});
    expect_error(run_doubling({"--size", "n=3,n=4"}), 2, {"--size n is given twice"});
    expect_error(run_doubling({"--size", "n=x"}), 2, {"--size n", "x"});
    expect_error(run_doubling({"--size", "n=-1"}), 2, {"from 0 to"});
    expect_error(run_doubling({"--size", "n=2000000000,m=1000000"}), 2, {"needs 240000000", "free"});
    expect_error(run_doubling({"--data", "ones"}), 2, {"--data", "random", "integers"});
    expect_error(run_doubling({"--check", "som"}), 2, {"--check", "sample"});
    expect_error(run_doubling({"--no-time", "--iterations", "3"}), 2, {"--iterations is about timing"});
    expect_error(run_doubling({"--no-time", "--graph"}), 2, {"--graph is about timing"});
    expect_error(run_doubling({"FACTOR=4"}), 2, {"FACTOR", "4"});
    expect_error(on_host({"run", "tiny"}), 2, {"tiny", "x"});
    expect_error(on_host({"run"}), 2, {"an argument is missing"});
}

TEST_F(KilnRun, AnOptionThatIsASizeOrAParameterSaysHowToWriteIt) {
    expect_error(run_doubling({"--n", "64"}), 2,
                 {"no option --n. n is a size of doubling: write --size n=64."});
    expect_error(run_doubling({"--m=3"}), 2, {"m is a size of doubling: write --size m=3."});
    expect_error(run_doubling({"--factor", "3"}), 2, {"FACTOR is a parameter of doubling: write FACTOR=3."});
    expect_error(run({"run", "softmax", "--rows", "5"}), 2,
                 {"rows is a size of softmax: write --size rows=5."});
    expect_error(run_doubling({"--sizes", "n=64"}), 2, {"Did you mean --size?"});
    expect_error(run_doubling({"n=64"}), 2,
                 {"no parameter n;", "n is a size: where a kernel runs, write --size n=64."});
}

TEST_F(KilnRun, OneVariantIsRunAndListsAreForOthers) {
    for (const char* list : {"FACTOR=2,3", "FACTOR=*"}) {
        expect_error(run_doubling({list}), 2,
                     {list, "means several variants", "'kiln analyze'", "'kiln report'"});
        expect_error(on_host({"build", "doubling", list}), 2, {"'kiln analyze'", "'kiln report'"});
    }
}

TEST_F(KilnRun, NoCacheAndACacheExcludeEachOther) {
    for (const Arguments& cache :
         {Arguments{"--cache-dir", path("other").string()}, Arguments{"--seed-pack", "x.pack"},
          Arguments{"--remote", "redis://localhost:1"}}) {
        Arguments arguments = {"build", "tiny", "--no-cache"};
        arguments.insert(arguments.end(), cache.begin(), cache.end());
        expect_error(on_host(arguments), 2, {"--no-cache uses no cache, and " + cache[0] + " names one"});
    }
}

TEST_F(KilnRun, JunkInTheSeedOfTheHostIsReported) {
    const Outcome outcome = run_doubling({});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    Environment environment = usual_environment();
    environment.emplace_back("KILN_HOST_SEED", "junk");
    expect_error(on_host({"run", "doubling"}, environment), 2,
                 {"KILN_HOST_SEED is set to \"junk\"; it is an integer"});
}

TEST_F(KilnRun, AReferenceThatLacksSomethingIsATemplateError) {
    with_template("doubling_reference",
                  reference_template("doubling_reference", "const float* z", "expected[i] = bound[i] = 0;"));
    const Outcome result = run_doubling({"--json"});
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.json()["error"]["kind"], "template");
    EXPECT_THAT(result.err, HasSubstr("its argument z is neither an input nor an inout"));
}

/// A product with a bias and a factor: not the plain signature.
class DeclaredProduct : public JitGemm {
  protected:
    std::string templates(const std::string& factor) const {
        std::string reference =
            reference_template("scaled_reference", "int n, int k, const float* a, const float* b",
                               "double sum = 0;\n    for (int p = 0; p < k; ++p)\n"
                               "        sum += kiln::wide(a[e / n * k + p]) * kiln::wide(b[p * n + e % n]);\n"
                               "    expected[i] = FACTOR * sum;\n    bound[i] = 1e-5 * k;");
        reference.insert(reference.find("//@ backend"), "//@ param FACTOR int in 2, 3 = 2\n");
        with_template("scaled_reference", reference);
        return with_template(
            "scaled",
            "// scaled: for tests.\n//\n//@ kernel scaled\n//@ param FACTOR int in 2, 3 = 2\n"
            "//@ block 16, 16\n//@ grid ceil_div(n, 16), ceil_div(m, 16), batch\n"
            "//@ size m = 64 test 17\n//@ size n = 64 test 18\n//@ size k = 64 test 19\n//@ size batch = 1\n"
            "//@ input a [m, k]\n//@ input b [k, n]\n//@ output c [m, n] by scaled_reference\n"
            "//@ flops 2 * m * n * k\n#include \"kiln/device.h\"\n\n"
            "extern \"C\" __global__ void scaled(int m, int n, int k, int batch, const float* a, const "
            "float* b, float* c) {\n"
            "    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;\n"
            "    if (row >= m || column >= n || blockIdx.z > 0) return;\n    float sum = 0;\n"
            "    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];\n"
            "    c[row * n + column] = " +
                factor + " * sum;\n}\n");
    }

    Outcome scaled(Arguments more, const std::string& factor = "FACTOR") const {
        more.insert(more.begin(),
                    {"--backend", "host", "--kernel", "scaled", "--template-dir", templates(factor)});
        return run(std::move(more));
    }
};

TEST_F(DeclaredProduct, IsRunAsItsTemplateDeclares) {
    const Outcome text = scaled({"--m", "5", "--n", "6", "--k", "7", "--factor", "3"});
    EXPECT_EQ(text.status, 0) << text.err;
    for (const char* word : {"scaled FACTOR=3", "m=5 n=6 k=7 batch=1", "a float (5 x 7)", "GFLOP/s, ",
                             "GB/s (from the median)", "of the bound; all 30 elements", "PASS"})
        EXPECT_THAT(text.out, HasSubstr(word));
    const auto json = scaled({"--m", "5", "--json", "--iters", "3", "--size", "batch=2"}).json();
    EXPECT_EQ(json["shape"], nlohmann::json({{"m", 5}, {"n", 18}, {"k", 19}}));
    EXPECT_EQ(json["dtype"], "f32");
    EXPECT_EQ(json["verified"], "full");
    EXPECT_EQ(json["time_ms"]["iterations"], 3);
    EXPECT_EQ(json["pass"], true);
    EXPECT_GT(json["gflops"], 0);
}

TEST_F(DeclaredProduct, AWrongOneFails) {
    const Outcome result = scaled({}, "4");
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.out, HasSubstr("FAIL"));
    EXPECT_THAT(result.err, HasSubstr("jit-gemm: wrong result: 306 of 306 checked elements of c"));
    EXPECT_THAT(scaled({"--verify", "none"}, "4").out, HasSubstr("NOT CHECKED"));
    EXPECT_EQ(scaled({"--compile-only"}, "4").status, 0);
}

TEST_F(DeclaredProduct, MistakesAreReported) {
    const auto refused = [&](const Arguments& more) {
        const Outcome result = scaled(more);
        EXPECT_EQ(result.status, 2);
        return result.err;
    };
    EXPECT_THAT(refused({"--dtype", "f16"}), HasSubstr("scaled has no type parameter T and is always f32"));
    EXPECT_THAT(refused({"--size", "depth=3"}), HasSubstr("depth"));
    EXPECT_THAT(refused({"--size", "m=3"}), HasSubstr("write --m N"));
    const Outcome plain = multiply({"--size", "batch=2"});
    EXPECT_EQ(plain.status, 2);
    EXPECT_THAT(plain.err, HasSubstr("gemm_naive has the sizes m, n and k alone"));
}

TEST_F(DeclaredProduct, IsMarkedInTheList) {
    const Outcome list = run({"--list-kernels", "--template-dir", templates("FACTOR")});
    EXPECT_THAT(list.out,
                AllOf(HasSubstr("(runs the problem that it declares)"), Not(HasSubstr("_reference"))));
    const auto kernels =
        run({"--list-kernels", "--json", "--template-dir", templates("FACTOR")}).json()["kernels"];
    std::size_t seen = 0;
    for (const auto& kernel : kernels) {
        if (kernel["name"] != "scaled" && kernel["name"] != "gemm_tiled") continue;
        ++seen;
        EXPECT_EQ(kernel["runs_here"], true);
        EXPECT_EQ(kernel["declared"], kernel["name"] == "scaled");
    }
    EXPECT_EQ(seen, 2U);
}

TEST_F(DeclaredProduct, APlainSignatureWithAnotherReferenceIsCheckedAgainstThat) {
    // As a plain product this would fail: it is twice the product, as its reference says.
    with_template(
        "twice_reference",
        reference_template("twice_reference", "int n, int k, const kiln::half* a, const kiln::half* b",
                           "double sum = 0;\n    for (int p = 0; p < k; ++p)\n"
                           "        sum += kiln::wide(a[e / n * k + p]) * kiln::wide(b[p * n + e % n]);\n"
                           "    expected[i] = 2 * sum;\n    bound[i] = 1e-5 * k;"));
    std::string text = naive_template("twice",
                                      "//@ size m = 9\n//@ size n = 8\n//@ size k = 7\n//@ input a [m, k]\n"
                                      "//@ input b [k, n]\n//@ output c [m, n] by twice_reference",
                                      "n");
    const std::string store = "c[(long long)row * n + column] = sum;";
    text.replace(text.find(store), store.size(), "c[(long long)row * n + column] = 2 * sum;");
    const Outcome result =
        run({"--backend", "host", "--kernel", "twice", "--template-dir", with_template("twice", text)});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, AllOf(HasSubstr("c: at most"), HasSubstr("all 72 elements")));
}

}  // namespace
}  // namespace kiln::test
