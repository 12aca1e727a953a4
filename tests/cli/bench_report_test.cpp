// SPDX-License-Identifier: Apache-2.0
//
// How a benchmark's report is written: table, Markdown and JSON of a report that is made by hand; and kiln bench
// itself on the host, where it is only tried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/files.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "cli/kiln_bench_report.h"
#include "kiln_program.h"
#include "rejected.h"

namespace kiln::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BenchReport made_report() {
    BenchReport report;
    report.backend = Backend::cuda;
    report.device = "NVIDIA H200";
    report.arch = "sm_90a";
    report.runs.emplace_back();
    BenchRun& run = report.runs[0];
    run.id = "20261122T100000-aaaaaa";
    run.date = "2026-11-22T10:00:00Z";
    run.machine = "16 x a processor";
    run.device = report.device;
    run.arch = report.arch;
    run.driver = "CUDA 13.0, driver 580.1";
    run.versions = {{"cuBLAS", "13.1.0"}, {"PyTorch", "2.11.0"}};
    run.ceilings.copy_gbps = 4200;
    run.ceilings.copy_source = "the driver's copy";
    report.parts.push_back(
        {"skinny.4096", run.id, 61.25, {"half 4 x 4096 x 4096"}, ChipState{1980, 3201, 123.4, 41}, {}});
    BenchSuite suite;
    suite.name = "skinny";
    suite.title = "products of few rows";
    BenchRow row;
    row.problem = "half 1 x 4096 x 4096";
    row.variant = "gemm_skinny BM=8";
    row.origin = "wisdom";
    row.part = "4096";
    row.run = run.id;
    row.sizes = {{"m", 1}, {"n", 4096}, {"k", 4096}};
    row.unit = "us";
    row.kiln = BenchSpread{9.5, 10, 11, 21};
    row.rate = 3355.5;
    row.rate_unit = "GB/s";
    row.verified = true;
    BenchComparison library;
    library.with = "cublasLt";
    library.detail = "heuristic 3 of 8";
    library.time = BenchSpread{15, 15.5, 17, 21};
    library.ratio = 1.55;
    library.must = 1.2;
    library.aim = 1.9;
    library.verified = true;
    BenchComparison copy;
    copy.with = "copy";
    copy.is_ceiling = true;
    copy.ratio = 0.8;
    copy.must = 0.85;
    copy.aim = 0.95;
    row.comparisons = {library, copy};
    suite.rows.push_back(row);
    BenchRow broken;
    broken.problem = "half 2 x 8 x 8";
    broken.unit = "us";
    broken.failures = {"out of memory"};
    broken.notes = {"cublasLt failed: not supported"};
    suite.rows.push_back(broken);
    BenchMean& mean = suite.means.emplace_back();
    mean.with = "cublasLt";
    mean.ratio = mean.least = 1.55;
    mean.rows = 1;
    suite.notes = {"torch is not compared with: it is not there"};
    suite.failures = {"the measuring process 'host' failed"};
    suite.seconds = 1.25;
    report.suites = {suite};
    return report;
}

TEST(BenchText, IsATableOfProblemsAndWhatTheyAreBeside) {
    const Terminal terminal("kiln");
    EXPECT_EQ(to_text(made_report(), terminal), R"(NVIDIA H200 (sm_90a)
  ceilings   copy 4200 GB/s (the driver's copy)

skinny: products of few rows
  problem                   Kiln    min to max  throughput  against     median    min to max  ratio     must / aim             result
  half 1 x 4096 x 4096  10.00 us  9.50 to 11.0   3356 GB/s                                                                     right   gemm_skinny (wisdom)
                                                            cublasLt  15.50 us  15.0 to 17.0   1.55    1.20 / 1.90  below aim  right   heuristic 3 of 8
                                                            of copy                           0.800  0.850 / 0.950  MISSED
  half 2 x 8 x 8
  FAILED  half 2 x 8 x 8: out of memory
  FAILED  the measuring process 'host' failed
  variant    gemm_skinny BM=8: half 1 x 4096 x 4096
  mean       geometric mean 1.55 of cublasLt, the least 1.55, of 1 row
  note       half 2 x 8 x 8: cublasLt failed: not supported
  note       torch is not compared with: it is not there
  took       1.2 s
  left out   skinny.4096: half 4 x 4096 x 4096: its time was up

  missed     skinny: half 1 x 4096 x 4096: 0.8 of copy, and it must be 0.85
)");
}

TEST(BenchText, SaysThatItWasInterrupted) {
    BenchReport report = made_report();
    report.interrupted = true;
    for (const std::string& text : {to_text(report, Terminal("kiln")), to_markdown(report)})
        EXPECT_THAT(text, HasSubstr("\nInterrupted: the rest was not measured.\n"));
    EXPECT_EQ(to_json(report)["interrupted"], true);
}

TEST(BenchMarkdown, HasARowPerComparison) {
    const std::string text = to_markdown(made_report());
    for (const char* part :
         {"NVIDIA H200 (sm_90a), CUDA 13.0, driver 580.1. Ceilings: copy 4200 GB/s (the driver's copy).\n",
          "\n### skinny\n",
          "| half 1 x 4096 x 4096 | 10.00 us | 9.50 to 11.0 | 3356 GB/s | cublasLt | 15.50 us | 15.0 to 17.0 "
          "| 1.55 "
          "| 1.20 / 1.90 | below aim |\n",
          "| | | | | of copy | | | 0.800 | 0.850 / 0.950 | MISSED |\n",
          "- failed: half 2 x 8 x 8: out of memory\n", "- failed: the measuring process 'host' failed\n",
          "- half 2 x 8 x 8: cublasLt failed: not supported\n",
          "- torch is not compared with: it is not there\n", "- `gemm_skinny BM=8`: half 1 x 4096 x 4096\n"})
        EXPECT_THAT(text, HasSubstr(part));
}

TEST(BenchJson, HasEveryFigure) {
    const Json json = to_json(made_report());
    EXPECT_EQ(json["runs"][0]["ceilings"]["copy_gbps"], 4200);
    EXPECT_TRUE(json["runs"][0]["ceilings"]["matrix_tflops"].is_null());
    const Json& row = json["suites"][0]["rows"][0];
    EXPECT_EQ(row["time"]["median"], 10);
    EXPECT_EQ(row["comparisons"][0]["ratio"], 1.55);
    EXPECT_EQ(row["comparisons"][0]["time"]["count"], 21);
    EXPECT_TRUE(row["comparisons"][1]["time"].is_null());
    EXPECT_EQ(row["meets_must"], false);
    EXPECT_EQ(json["suites"][0]["rows"][1]["failures"][0], "out of memory");
    EXPECT_EQ(json["suites"][0]["rows"][1]["notes"][0], "cublasLt failed: not supported");
    EXPECT_TRUE(json["suites"][0]["rows"][1]["time"].is_null());
    EXPECT_EQ(json["suites"][0]["failures"][0], "the measuring process 'host' failed");
    EXPECT_EQ(json["interrupted"], false);
    EXPECT_EQ(json["missed"].size(), 1U);
    EXPECT_EQ(json["pass"], false);
}

TEST(BenchJson, ReadAgainIsTheSame) {
    const Json json = to_json(made_report());
    EXPECT_EQ(to_json(bench_report(json)), json);
    EXPECT_EQ(Json::parse(bench_record(made_report())), json);
    EXPECT_THAT(bench_record(made_report()), HasSubstr("\n    {\"problem\":\"half 2 x 8 x 8\""))
        << "a row has a line";
    // What it says in other words.
    EXPECT_THAT(json["missing"].dump(), HasSubstr("skinny.4096: half 4 x 4096 x 4096"));
    EXPECT_THAT(json["missing"].dump(), HasSubstr("gemm-f16.large"));
}

TEST(BenchPage, TablesComeFromTheRecordThatTheMarkerNames) {
    const TemporaryDirectory directory;
    const std::filesystem::path page = directory.path() / "page.md";
    std::ofstream(directory.path() / "record.json") << bench_record(made_report());
    const std::string old =
        "# A page\n\n<!-- kiln bench: record.json asked -->\n\nstale\n\n<!-- end -->\nProse 1.5.\n"
        "<!-- kiln bench: record.json tables skinny -->\n<!-- end -->\n"
        "<!-- kiln bench: record.json tables memory -->\n<!-- end -->\n"
        "<!-- kiln bench: record.json runs -->\n<!-- end -->\nThe end.\n";
    const std::string anew = written_anew(old, page);
    EXPECT_EQ(written_anew(anew, page), anew);
    EXPECT_THAT(anew, Not(HasSubstr("stale")));
    for (const char* part :
         {"# A page\n\n<!-- kiln bench: record.json asked -->\n\n| suite | against |", "Prose 1.5.\n",
          "| skinny | cublasLt | 1.20 / 1.90 | | 1.55 | 1.55 (half 1 x 4096 x 4096) | below aim in 1 of 1 "
          "rows |\n",
          "| skinny | copy | 0.850 / 0.950 | | | 0.800 (half 1 x 4096 x 4096) | MISSED in 1 of 1 rows |\n",
          "### skinny\n\nProducts of few rows.\n",
          "| 15.50 us | 15.0 to 17.0 | 1.55 | 1.20 / 1.90 | below aim |\n",
          "tables memory -->\n\nNot measured.\n",
          "| 20261122T100000-aaaaaa | 16 x a processor | NVIDIA H200 (sm_90a), CUDA 13.0, driver 580.1 | "
          "PyTorch "
          "2.11.0, cuBLAS 13.1.0 | copy 4200 GB/s (the driver's copy) |\n",
          "| skinny.4096 | 20261122T100000-aaaaaa | 61.2 | 1980, 3201 MHz, 123 W, 41 C | not read |\n",
          "- skinny.4096: half 4 x 4096 x 4096\n", "- memory.softmax\n", "The end.\n"})
        EXPECT_THAT(anew, HasSubstr(part));
}

TEST(BenchPage, MistakesAreReportedWithTheirLine) {
    const TemporaryDirectory directory;
    const std::filesystem::path page = directory.path() / "page.md";
    std::ofstream(directory.path() / "record.json") << bench_record(made_report());
    std::ofstream(directory.path() / "broken.json") << "{\"backend\": \"cuda\"}";
    const auto message = [&](const std::string& marker, const std::string& end = "<!-- end -->\n") {
        try {
            written_anew("prose\n<!-- kiln bench: " + marker + " -->\n" + end, page);
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    EXPECT_THAT(message("none.json asked"), HasSubstr("page.md:2: there is no record"));
    const std::string long_name(300, 'x');
    EXPECT_THAT(message(long_name + " asked"), HasSubstr("page.md:2: can't find out whether "));
    EXPECT_THAT(message(long_name + " asked"), HasSubstr(long_name + " exists: File name too long"));
    EXPECT_THAT(message("record.json asked", "\r\n<!-- end -->\r\n"),
                HasSubstr("page.md:3: the line ends with a"));
    EXPECT_THAT(test::rejected<UsageError>([&] { written_anew("prose\n<!-- end -->\n", page); }),
                HasSubstr("no line is a marker such as '<!-- kiln bench: FILE asked -->'"));
    EXPECT_THAT(message("broken.json asked"), HasSubstr("page.md:2: "));
    EXPECT_THAT(message("record.json askd"), HasSubstr("'askd' is not one of the views"));
    EXPECT_THAT(message("record.json tables memmory"), HasSubstr("there is no suite 'memmory'"));
    EXPECT_THAT(message("record.json asked", ""), HasSubstr("have no end"));
}

// The document holds what was recorded, and nothing else.
TEST(BenchPage, TheDocumentIsWhatItsRecordSays) {
    const std::filesystem::path page =
        std::filesystem::path(std::getenv("KILN_TEST_SOURCE_DIR")) / "docs/performance.md";
    const std::string text = file_content(page);
    EXPECT_THAT(text, HasSubstr("<!-- kiln bench: "));
    EXPECT_EQ(written_anew(text, page), text) << "rewrite it by 'kiln bench page docs/performance.md'";
}

BenchReport drawn_report() {
    BenchReport report = made_report();
    report.suites[0].name = "unseen";
    report.suites[0].failures.clear();
    report.suites[0].rows.pop_back();
    BenchRow& row = report.suites[0].rows[0];
    row.part = "gemm-f16";
    row.comparisons.resize(1);
    row.comparisons[0].with = "cublasLt first heuristic";
    row.comparisons[0].ratio = 0.6;
    BenchComparison best;
    best.with = "best known variant";
    best.detail = "gemm_mma BM=64";
    best.ratio = 0.75;
    row.comparisons.push_back(best);
    BenchMean mean;
    mean.with = "cublasLt first heuristic";
    mean.part = "gemm-f16";
    mean.percent = 5;
    mean.rows = 1;
    mean.ratio = 0.98;
    mean.low = mean.least = 0.6;
    mean.must = 0.97;
    mean.low_must = 0.75;
    report.suites[0].means = {mean};
    return report;
}

TEST(BenchPage, DistinguishesTheLossOfChoosingFromThatOfKernels) {
    const TemporaryDirectory directory;
    std::ofstream(directory.path() / "record.json") << bench_record(drawn_report());
    const std::string text =
        written_anew("<!-- kiln bench: record.json drawn -->\n<!-- end -->\n", directory.path() / "page.md");
    for (const char* part : {"| gemm-f16 | cublasLt first heuristic | 1 | 0.980 | 0.970 | 0.600 (5th) | "
                             "0.750 | 0.600 | mean met; "
                             "percentile MISSED |\n",
                             "\nBelow 0.9:\n\n",
                             "| gemm-f16: half 1 x 4096 x 4096 | 0.600 of cublasLt first heuristic | "
                             "`gemm_skinny BM=8` | wisdom | 0.750 "
                             "| `gemm_mma BM=64` | 0.800 |\n"})
        EXPECT_THAT(text, HasSubstr(part));
    EXPECT_THAT(
        written_anew("<!-- kiln bench: record.json asked -->\n<!-- end -->\n", directory.path() / "page.md"),
        Not(HasSubstr("gemm-f16")))
        << "that table is of problems that do not change";
}

TEST(BenchPage, CountsTheDrawnProblemsThatNoTemplateComputes) {
    BenchReport report = drawn_report();
    for (const char* reason :
         {"no template has HEAD_DIM=96", "no template has HEAD_DIM=256", "no template has HEAD_DIM=96"}) {
        BenchRow row;
        row.problem = "problem " + std::to_string(report.suites[0].rows.size());
        row.part = "attention";
        row.notes = {reason};
        report.suites[0].rows.push_back(row);
    }
    const TemporaryDirectory directory;
    std::ofstream(directory.path() / "record.json") << bench_record(report);
    EXPECT_THAT(
        written_anew("<!-- kiln bench: record.json drawn -->\n<!-- end -->\n", directory.path() / "page.md"),
        HasSubstr("\nNot computed by any template:\n\n- attention: 3 of 3 problems; "
                  "no template has HEAD_DIM=256 (1); no template has HEAD_DIM=96 (2)\n"));
}

TEST(BenchJson, ReadAgainMeansOfPartsAreTheSame) {
    const Json json = to_json(drawn_report());
    EXPECT_EQ(to_json(bench_report(json)), json);
    EXPECT_EQ(json["suites"][0]["means"][0]["low_must"], 0.75);
    EXPECT_THAT(
        to_text(drawn_report(), Terminal("kiln")),
        HasSubstr("gemm-f16: geometric mean 0.980 of cublasLt first heuristic, percentile 5 0.600, the least "
                  "0.600, of 1 row"));
}

class KilnBench : public test::Kiln {
  protected:
    test::Outcome bench(std::vector<std::string> words) const {
        words.insert(words.begin(), "bench");
        words.insert(words.end(), {"--backend", "host"});
        return run(std::move(words));
    }
};

TEST_F(KilnBench, ListsItsSuites) {
    const test::Outcome outcome = run({"bench"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const char* suite : {"jit", "gemm-f16", "gemm-f32", "gemm-mma", "skinny", "attention", "decode",
                              "memory", "graphs", "host", "unseen"})
        EXPECT_THAT(outcome.out, HasSubstr(suite));
    EXPECT_EQ(Json::parse(run({"bench", "--json"}).out)["suites"].size(), 11U);
}

TEST_F(KilnBench, ListsThePartsOfItsSuites) {
    const test::Outcome outcome = run({"bench", "--list-suites"});
    EXPECT_THAT(outcome.out, HasSubstr(".small .large .odd"));
    const Json suites = Json::parse(run({"bench", "memory", "--list-suites", "--json"}).out)["suites"];
    EXPECT_EQ(suites[1]["parts"], Json({"gemm-f16.small", "gemm-f16.large", "gemm-f16.odd"}));
}

TEST_F(KilnBench, ListsVariantsForAMachineWithoutAGpu) {
    const std::vector<std::string> words = {
        "bench",  "unseen.histogram", "unseen.reduction", "--list-variants",
        "--arch", "sm_90a",           "--backend",        "cuda"};
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), words.begin(), words.end());
        return run(std::move(more));
    };
    const test::Outcome outcome = with({});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count)
        EXPECT_TRUE((line.starts_with("histogram ") || line.starts_with("sum_")) &&
                    line.ends_with(" @cuda:sm_90a"))
            << line;
    EXPECT_GT(count, 60U);
    const Json json = Json::parse(with({"--json"}).out);
    EXPECT_EQ(json["arch"], "sm_90a");
    EXPECT_EQ(json["variants"].size(), count);
    EXPECT_LT(Json::parse(with({"--others", "1", "--json"}).out)["variants"].size(), count);
    EXPECT_NE(with({"--for-device", "NVIDIA H100 PCIe"}).out, outcome.out)
        << "another device, another choice";
    expect_error(run({"bench", "skinny", "--for-device", "NVIDIA H200"}), 2, {"--list-variants"});
    expect_error(with({"--others", "-1"}), 2, {"--others"});
    expect_error(run({"bench", "skinny", "--list-variants"}), 2, {"skinny.4096", "unseen"});
}

TEST_F(KilnBench, AFileIsOfOneRunAtATime) {
    const auto file = path("rows.json");
    const std::vector<std::string> words = {"skinny.4096", "--quick", "--resume", file.string()};
    {
        const auto lock = lock_output(file);
        ASSERT_TRUE(lock);
        expect_error(bench(words), 2, {"rows.json", "another run of kiln bench"});
        EXPECT_FALSE(std::filesystem::exists(file));
    }
    EXPECT_EQ(bench(words).status, 0);
    EXPECT_TRUE(std::filesystem::exists(file));
    EXPECT_FALSE(std::filesystem::exists(file.string() + ".lock"));
}

TEST_F(KilnBench, GoesOnWithAFileAndMergesFilesAndWritesPages) {
    const std::string first = path("first.json").string(), second = path("second.json").string();
    ASSERT_EQ(bench({"skinny.4096", "--quick", "--resume", first}).status, 0);
    const Json before = Json::parse(file_content(first));
    const test::Outcome again = bench({"skinny", "gemm-mma.small", "--quick", "--resume", first, "--json"});
    ASSERT_EQ(again.status, 0) << again.err;
    const Json went_on = Json::parse(again.out);
    EXPECT_EQ(went_on["suites"][0]["rows"][0], before["suites"][0]["rows"][0]) << "it is there";
    EXPECT_EQ(went_on["runs"].size(), 2U);
    EXPECT_EQ(went_on, Json::parse(file_content(first)));
    expect_error(bench({"skinny", "--resume", first}), 2, {"--quick"});
    Json other = before;
    other["arch"] = "sm_90";
    expect_error(bench({"skinny", "--quick", "--resume", write("other.json", other.dump())}), 2,
                 {"with kernels for sm_90 and for " + before["arch"].get<std::string>()});

    ASSERT_EQ(bench({"gemm-f32", "--quick", "--resume", second}).status, 0);
    const test::Outcome merged =
        run({"bench", "merge", first, second, "--output", path("all.json").string()});
    ASSERT_EQ(merged.status, 0) << merged.err;
    EXPECT_THAT(merged.out, HasSubstr("  missing    memory.softmax"));
    EXPECT_EQ(Json::parse(file_content(path("all.json")))["suites"].size(), 3U);
    for (const int indent : {-1, 2, 8}) {
        const std::string printed = write("printed.json", went_on.dump(indent));
        EXPECT_EQ(run({"bench", "merge", first, "--output", printed}).status, 0) << indent;
        EXPECT_THAT(file_content(printed), ::testing::StartsWith("{\n \"backend\""));
    }
    const std::string mine = write("mine.json", R"({"backend": "mine"})");
    expect_error(run({"bench", "merge", first, "--output", mine}), 2, {"mine.json is no report"});
    EXPECT_EQ(run({"bench", "merge", first, second, "--check"}).status, 1) << "parts are missing";
    expect_error(run({"bench", "merge", first, path("none.json").string()}), 2, {"none.json"});
    write("half.json", "{");
    expect_error(run({"bench", "merge", path("half.json").string()}), 2, {"half.json is not a report"});

    const std::string page = write("page.md", "<!-- kiln bench: all.json asked -->\n<!-- end -->\n");
    EXPECT_EQ(run({"bench", "page", "--check", page}).status, 1);
    EXPECT_EQ(run({"bench", "page", page}).status, 0);
    EXPECT_EQ(run({"bench", "page", "--check", page}).status, 0);
    EXPECT_THAT(file_content(page), HasSubstr("| suite | against |"));
}

TEST_F(KilnBench, RejectsASuiteThatThereIsNot) {
    expect_error(bench({"memmory"}), 2, {"memmory", "did you mean memory"});
    expect_error(bench({"memory", "--compare", "cubb"}), 2, {"cubb", "did you mean cub"});
    const test::Outcome outcome = bench({"memory", "--json", "--markdown"});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("--markdown"));
}

TEST_F(KilnBench, AComparatorThatIsMissingIsANoteAndAskedForByNameAnError) {
    const test::Outcome outcome = bench({"gemm-f32", "--quick", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json suite = Json::parse(outcome.out)["suites"][0];
    EXPECT_EQ(suite["rows"][0]["verified"], true);
    EXPECT_THAT(suite["notes"].dump(), HasSubstr("cublas is not compared with: it needs a CUDA device"));
    expect_error(bench({"gemm-f32", "--quick", "--compare", "cublas"}), 2,
                 {"cublas", "it needs a CUDA device"});
}

// The second suite compiles for many seconds, one compile after the other, and its row takes longer than a program
// has to end.
TEST_F(KilnBench, CtrlCLosesNoRow) {
    // What asks the compiler for its parts (-###) compiles nothing.
    const std::string compiler = write("slow_cxx",
                                       "#!/bin/sh\ncase \" $* \" in *\" -### \"*) ;; *\" -o \"*) echo "
                                       ">>\"$COMPILES\"; sleep 0.3 ;; esac\nexec g++ \"$@\"\n");
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    const test::Outcome outcome = run_in_shell(
        "env --default-signal=INT \"$0\" bench skinny jit --backend host --json & job=$!\n"
        "tries=0; while [ \"$(cat \"$COMPILES\" | wc -l)\" -lt 4 ] && [ $((tries += 1)) -lt 600 ]; do sleep "
        "0.05; "
        "done\nkill -INT $job; wait $job; exit $?",
        {{"KILN_CACHE_DIR", path("cache").string()},
         {"KILN_HOST_CXX", compiler},
         {"COMPILES", write("compiles", "")}});
    EXPECT_EQ(outcome.status, 130) << outcome.err;
    const Json json = outcome.json();
    EXPECT_EQ(json["interrupted"], true);
    ASSERT_FALSE(json["suites"][0]["rows"].empty());
    EXPECT_EQ(json["suites"][0]["rows"][0]["verified"], true);
    EXPECT_EQ(json["suites"][0]["rows"][0]["problem"], "half 1 x 40 x 72");
}

TEST_F(KilnBench, ComparesWithOpenBlasOnlyWhereThatIsWanted) {
    const test::Outcome outcome =
        bench({"host", "--quick", "--json", "--rounds", "1", "--compare", "cublas"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("openblas")));
    EXPECT_THAT(outcome.out, Not(HasSubstr("\"with\": \"OpenBLAS\"")));
}

// Their processes see what this one was given.
TEST_F(KilnBench, MeasuresTheTemplatesOfADirectoryInProcessesOfItsOwn) {
    const std::filesystem::path root = std::getenv("KILN_TEST_SOURCE_DIR");
    const std::string mine =
        with_template("gemm_tiled", file_content(root / "kernels_src" / "gemm_tiled.cu") + "#error mine\n");
    const test::Outcome outcome = bench({"host", "--quick", "--rounds", "1", "--template-dir", mine});
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("mine"));
}

// gemm-f32 and graphs are run above and below.
class KilnBenchSuite : public KilnBench, public ::testing::WithParamInterface<const char*> {};

TEST_P(KilnBenchSuite, IsRightOnTheHost) {
    const test::Outcome outcome = bench({GetParam(), "--quick", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const Json suite = outcome.json()["suites"][0];
    EXPECT_TRUE(suite["failures"].empty());
    EXPECT_FALSE(suite["rows"].empty());
    for (const Json& row : suite["rows"]) {
        EXPECT_TRUE(row["time"].is_object()) << row;
        EXPECT_NE(row["verified"], false) << row;
    }
}

INSTANTIATE_TEST_SUITE_P(All, KilnBenchSuite,
                         ::testing::Values("jit", "gemm-f16", "gemm-mma", "skinny", "attention", "decode",
                                           "memory", "host"),
                         [](const auto& suite) {
                             std::string name = suite.param;
                             std::erase(name, '-');
                             return name;
                         });

TEST_F(KilnBench, DrawsProblemsFromASeed) {
    const std::string file = path("timed.tsv").string();
    const test::Outcome outcome = bench({"unseen.reduction", "--quick", "--json", "--seed", "9", "--draws",
                                         "1", "--no-wisdom", "--timed-variants", file});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const Json suite = outcome.json()["suites"][0];
    ASSERT_EQ(suite["rows"].size(), 1U);
    EXPECT_THAT(suite["rows"][0]["problem"].get<std::string>(), HasSubstr("(seed 9)"));
    EXPECT_EQ(suite["rows"][0]["origin"], "model");
    EXPECT_THAT(file_content(file),
                ::testing::MatchesRegex("reduction\tT=[a-z0-9]+\tn=[0-9]+\tsum_[^\t]+\tchosen(.|\n)*"));
    expect_error(bench({"unseen", "--draws", "0"}), 2, {"--draws"});
    expect_error(bench({"unseen", "--timed-variants", path("none/timed.tsv").string()}), 2,
                 {"can't be written to"});
}

TEST_F(KilnBench, DrawsAPictureOfEachSuite) {
    const test::Outcome outcome = bench({"graphs", "--quick", "--svg", path("plots")});
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("one by one"));
    EXPECT_THAT(outcome.out, Not(HasSubstr("WRONG")));
    EXPECT_TRUE(std::filesystem::exists(path("plots/graphs.svg")));
    EXPECT_EQ(bench({"graphs", "--quick", "--svg", path("plots")}).status, 0) << "Kiln's own is replaced";
    write("plots/graphs.svg", "<svg>mine</svg>\n");
    expect_error(bench({"graphs", "--quick", "--svg", path("plots")}), 2,
                 {"graphs.svg is no picture that Kiln wrote"});
    EXPECT_EQ(file_content(path("plots/graphs.svg")), "<svg>mine</svg>\n");
}

// A picture is drawn of each suite of the report.
TEST_F(KilnBench, KeepsAPictureOfAnothersWhereTheFileHasItsSuite) {
    const std::string file = path("rows.json").string();
    ASSERT_EQ(bench({"skinny.4096", "--quick", "--resume", file}).status, 0);
    const std::string before = file_content(file);
    std::filesystem::create_directory(path("plots"));
    write("plots/skinny.svg", "<svg>mine</svg>\n");
    expect_error(bench({"gemm-mma.small", "--quick", "--resume", file, "--svg", path("plots")}), 2,
                 {"skinny.svg is no picture that Kiln wrote"});
    EXPECT_EQ(file_content(path("plots/skinny.svg")), "<svg>mine</svg>\n");
    EXPECT_EQ(file_content(file), before) << "nothing was measured";
}

TEST_F(KilnBench, OptionsOfARunAreErrorsWhereNothingIsMeasured) {
    for (const std::vector<std::string>& option :
         {std::vector<std::string>{"--quick"}, {"--resume", path("rows.json")}, {"--svg", path("plots")}}) {
        std::vector<std::string> listing = {"bench", "--list-suites"}, bare = {"bench"},
                                 variants = {"bench", "unseen.histogram", "--list-variants"};
        for (auto* words : {&listing, &bare, &variants}) {
            words->insert(words->end(), option.begin(), option.end());
            expect_error(run(*words), 2, {option[0] + " would not be used"});
        }
    }
    EXPECT_FALSE(std::filesystem::exists(path("plots")));
}

}  // namespace
}  // namespace kiln::cli
