// SPDX-License-Identifier: Apache-2.0
//
// The tuner on the host: the fastest right variant wins, wrong ones never, a killed run goes on, shards cover all.
#include <kiln/cache.h>

#include <algorithm>
#include <chrono>
#include <locale>
#include <set>

#include "base/file.h"
#include "rejected.h"
#include "scoped_variable.h"
#include "tune/candidate_runner.h"
#include "tune/candidates.h"
#include "tune/journal.h"
#include "tune/problem_space.h"
#include "tune_support.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

using TuneHost = Tune;

/// The template in a service with a cache of its own, in which nothing is compiled yet.
struct FreshWays {
    explicit FreshWays(ServiceOptions setup)
        : service([&] {
              setup.cache.directory = cache.path();
              return setup;
          }()) {}

    const TemporaryDirectory cache;
    Service service;
    const Template ways = service.find("ways");
};

TEST_F(TuneHost, TheFastestRightVariantWinsAndWrongOnesAreReported) {
    TuneOptions options;
    options.budget_seconds = 120;
    const TuneReport report = tuned(options);
    ASSERT_THAT(report.shapes, SizeIs(1));
    const TunedShape& shape = report.shapes.front();
    EXPECT_EQ(shape.legal, 15U) << "T is the problem's: its default alone";
    EXPECT_EQ(shape.timed, 6U);
    ASSERT_THAT(shape.best, SizeIs(1));
    const WisdomEntry& best = shape.best.front();
    EXPECT_EQ(best.values.at("WORK"), Value(1));
    EXPECT_LE(best.values.at("WAY").as_int(), 2);
    EXPECT_EQ(best.sizes, (Sizes{{"n", 3000}}));
    EXPECT_EQ(best.tried, 6U);
    EXPECT_EQ(best.problem_values, std::vector<std::string>{"T"});
    EXPECT_EQ(best.digest, template_digest(service().find("ways")));
    ASSERT_TRUE(shape.default_ms.has_value());
    EXPECT_GT(*shape.default_ms, best.median_ms) << "it does four hundred times the work";
    ASSERT_THAT(shape.failures, SizeIs(9));
    int wrong = 0;
    for (const TuneFailure& failure : shape.failures) {
        if (failure.variant.find("WAY=5") != std::string::npos) {
            EXPECT_THAT(failure.reason, HasSubstr("five is broken"));
        }
        if (failure.variant.find("WAY=4") != std::string::npos) {
            EXPECT_THAT(failure.reason, HasSubstr("1 of 3000 elements of y are wrong"));
        }
        if (failure.variant.find("WAY=3") != std::string::npos) {
            EXPECT_THAT(failure.reason, HasSubstr("after the end of y"));
        }
        wrong += failure.wrong ? 1 : 0;
    }
    EXPECT_EQ(wrong, 6);
    EXPECT_EQ(report.wisdom.entries().front().text(), best.text());
    EXPECT_NO_THROW(static_cast<void>(Wisdom::parse(report.wisdom.text(), "w")));
}

TEST_F(TuneHost, FixedValuesAndShapesAreKept) {
    TuneOptions options;
    options.fixed = {{"T", "double"}, {"WAY", 2}};
    options.shapes = {{{"n", 100}}, {{"n", 33}}};
    options.budget_seconds = 60;
    const TuneReport report = tuned(options);
    ASSERT_THAT(report.wisdom.entries(), SizeIs(2));
    for (const WisdomEntry& entry : report.wisdom.entries()) {
        EXPECT_EQ(entry.values.at("T"), Value("double"));
        EXPECT_EQ(entry.values.at("WAY"), Value(2));
    }
    options.shapes = {{{"m", 100}}};
    EXPECT_THROW(tuned(options), VariantError);
    options.shapes.clear();
    options.fixed = {{"WHY", 2}};
    EXPECT_THROW(tuned(options), VariantError);
}

TEST_F(TuneHost, AResumedRunTimesNothingTwice) {
    TuneOptions options;
    options.fixed = {{"WORK", 1}};
    options.budget_seconds = 60;
    options.journal = folder() / "w.journal";
    options.resume = true;
    // What a killed run left: one candidate timed, one wrong, and half a line.
    const Template of = service().find("ways");
    const std::string digest = template_digest(of);
    const auto key = [&](int way) {
        return of.variant({{"WAY", way}, {"WORK", 1}}).text() + " | n=3000 | " + digest;
    };
    write_text(options.journal, journal_head() + "ok 0.0001 | " + key(2) + "\nwrong seen before | " + key(4) +
                                    "\nok 0.00001 | " + key(3).substr(0, 9));
    const TuneReport report = tuned(options);
    const TunedShape& shape = report.shapes.front();
    EXPECT_EQ(shape.timed, 2U);  // 1 now, 2 then
    EXPECT_EQ(shape.resumed, 1U);
    EXPECT_TRUE(shape.complete);
    EXPECT_THAT(shape.failures, Contains(Field(&TuneFailure::reason, "seen before")));
    EXPECT_THAT(shape.failures, Contains(Field(&TuneFailure::reason, HasSubstr("after the end"))));
    EXPECT_FALSE(std::filesystem::exists(options.journal)) << "all is tried: it is of no more use";

    write_text(options.journal, "# kiln tuning journal 1: another device, sm_80\n");
    EXPECT_THROW(tuned(options), UsageError);
}

TEST_F(TuneHost, WhatARunEndedInIsNotTriedAgain) {
    TuneOptions options;
    options.fixed = {{"WORK", 1}, {"WAY", 1}};
    options.journal = folder() / "w.journal";
    const Template of = service().find("ways");
    const std::string key = of.variant(options.fixed).text() + " | n=3000 | " + template_digest(of);
    std::string seen;
    options.on_progress = [&](const TuneProgress&) {
        if (seen.empty()) seen = *read_text_if_exists(options.journal);
        if (seen == journal_head()) seen.clear();
    };
    EXPECT_THAT(tuned(options).wisdom.entries(), SizeIs(1));
    EXPECT_THAT(seen, StartsWith(journal_head() + "trying | " + key + "\n"));

    options.on_progress = nullptr;
    options.resume = true;
    write_text(options.journal, journal_head() + "ok 0.1 g++ | " + key + "\ntrying | " + key + "\n");
    const TuneReport report = tuned(options);
    EXPECT_THAT(report.wisdom.entries(), IsEmpty());
    EXPECT_THAT(report.shapes.front().failures, ElementsAre(Field(&TuneFailure::reason, HasSubstr("ended"))));

    write_text(options.journal, journal_head() + "trying | " + key + "\nuntried | " + key + "\n");
    EXPECT_THAT(tuned(options).wisdom.entries(), SizeIs(1));
}

TEST_F(TuneHost, AFileThatIsNoJournalStays) {
    const auto file = folder() / "w.txt.journal";
    for (const std::string text : {"my diary\n", "# kiln wisdom 1\n"}) {
        write_text(file, text);
        for (const bool resume : {false, true})
            EXPECT_THAT(rejected<UsageError>([&] { const Journal other(file, "work", resume); }),
                        HasSubstr("would replace a file that is no journal"));
        EXPECT_EQ(read_text_if_exists(file), text);
    }
    write_text(file, "# kiln tun");  // by a run that was killed
    { const Journal begun(file, "work", false); }
    EXPECT_EQ(read_text_if_exists(file), "# kiln tuning journal 1: work\n");
    write_text(file.string() + ".lock", "my diary\n");
    EXPECT_THAT(rejected<UsageError>([&] { const Journal other(file, "work", false); }),
                HasSubstr("w.txt.journal.lock is not empty, so that it is no lock"));
    EXPECT_EQ(read_text_if_exists(file.string() + ".lock"), "my diary\n");
}

TEST_F(TuneHost, AJournalIsOfOneRunAtATime) {
    TuneOptions options;
    options.fixed = {{"WORK", 1}, {"WAY", 1}};
    options.journal = folder() / "w.journal";
    {
        const Journal other(options.journal, "other work", false);
        try {
            tuned(options);
            FAIL() << "two runs write the same journal";
        } catch (const UsageError& error) {
            EXPECT_THAT(error.what(), AllOf(HasSubstr("another tuning run"), HasSubstr("--output")));
        }
        EXPECT_THAT(*read_text_if_exists(options.journal), HasSubstr("other work")) << "it is as it was";
    }
    EXPECT_THAT(tuned(options).wisdom.entries(), SizeIs(1));
}

/// 1234.5 is 1.234,5
class DecimalComma : public std::numpunct<char> {
  protected:
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};

/// The global locale as long as it lives.
class ScopedDecimalComma {
  public:
    ScopedDecimalComma() : before_(std::locale::global(std::locale(std::locale(), new DecimalComma))) {}
    ScopedDecimalComma(const ScopedDecimalComma&) = delete;
    ScopedDecimalComma& operator=(const ScopedDecimalComma&) = delete;
    ~ScopedDecimalComma() { std::locale::global(before_); }

  private:
    std::locale before_;
};

TEST_F(TuneHost, AJournalIsTheSameInEveryLocale) {
    const ScopedDecimalComma global;
    const auto file = folder() / "w.journal";
    {
        Journal journal(file, "work", false);
        journal.add("key", {1234.5678, false, "g++ 12"});
        EXPECT_THAT(*read_text_if_exists(file), HasSubstr("\nok 1234.5678 g++ 12 | key\n"));
    }
    const auto record = Journal(file, "work", true).find("key");
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->median_ms, 1234.5678);
    EXPECT_EQ(record->text, "g++ 12");
}

TEST_F(TuneHost, ResumingKeepsTheBudget) {
    FreshWays fresh(this->options());
    TuneOptions options;
    options.fixed = {{"WAY", 2}};
    options.budget_seconds = 0;
    options.journal = folder() / "w.journal";
    options.resume = true;
    std::string lines;
    for (const int work : {1, 50, 400})
        lines += "ok 0." + std::to_string(work) + " g++ | " +
                 fresh.ways.variant({{"WAY", 2}, {"WORK", work}}).text() + " | n=3000 | " +
                 template_digest(fresh.ways) + "\n";
    write_text(options.journal, journal_head() + lines);
    const TuneReport report = tune(fresh.service, std::span(&fresh.ways, 1), options);
    ASSERT_THAT(report.wisdom.entries(), SizeIs(1));
    EXPECT_EQ(report.wisdom.entries().front().values.at("WORK"), Value(1));
    EXPECT_EQ(Cache(fresh.service.options().cache).entries().size(), 2U) << "the winner and the reference";
}

TEST_F(TuneHost, WhatTheSystemLacksIsNoFailureForTheNextRun) {
    FreshWays fresh(this->options());
    TuneOptions options;
    options.budget_seconds = 60;
    options.fixed = {{"WAY", 2}, {"WORK", 1}};
    ASSERT_THAT(tune(fresh.service, std::span(&fresh.ways, 1), options).wisdom.entries(), SizeIs(1));
    options.fixed = {{"WAY", 2}};
    options.journal = folder() / "w.journal";
    std::string journals;
    options.on_progress = [&](const TuneProgress&) {
        journals += read_text_if_exists(options.journal).value_or("");
    };
    const test::ScopedVariable nowhere("TMPDIR", "/proc");  // where nobody makes directories
    const TuneReport report = tune(fresh.service, std::span(&fresh.ways, 1), options);
    EXPECT_THAT(report.wisdom.entries(), SizeIs(1));
    EXPECT_THAT(report.shapes.front().failures,
                AllOf(SizeIs(2), Each(Field(&TuneFailure::reason, HasSubstr("TMPDIR")))));
    EXPECT_THAT(journals, AllOf(HasSubstr("\nok "), Not(HasSubstr("\nfailed "))));
}

TEST_F(TuneHost, AStoppedRunKeepsWhatItHasAndGoesOn) {
    TuneOptions options;
    options.fixed = {{"WAY", 1}};
    options.budget_seconds = 60;
    options.journal = folder() / "w.journal";
    std::stop_source stop;
    options.stop = stop.get_token();
    options.on_progress = [&](const TuneProgress& progress) {
        if (progress.done > 0) stop.request_stop();
    };
    const TuneReport first = tuned(options);
    EXPECT_TRUE(first.stopped);
    EXPECT_THAT(first.wisdom.entries(), SizeIs(1));
    ASSERT_TRUE(std::filesystem::exists(options.journal));
    const std::uint64_t timed = first.shapes.front().timed;
    EXPECT_LT(timed, 3U);

    options.stop = {};
    options.on_progress = nullptr;
    options.resume = true;
    const TuneReport second = tuned(options);
    EXPECT_EQ(second.shapes.front().resumed, timed);
    EXPECT_EQ(second.shapes.front().timed, 3U);
}

TEST_F(TuneHost, TheBudgetIsKept) {
    TuneOptions options;
    options.fixed = {{"WAY", 1}, {"T", "double"}};  // which no other test has compiled
    options.budget_seconds = 0.05;
    const auto start = std::chrono::steady_clock::now();
    const TuneReport report = tuned(options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_THAT(report.shapes.front().best, SizeIs(1)) << "one candidate is tried, however small the budget";
    EXPECT_EQ(report.shapes.front().timed, 1U) << "more may have been compiled by then: they come too late";
    EXPECT_LT(took.count(), 30);
    EXPECT_FALSE(report.stopped);
    EXPECT_FALSE(report.shapes.front().complete);

    options.budget_seconds = 0;
    options.shapes = {{{"n", 10}}, {{"n", 20}}};
    for (const TunedShape& shape : tuned(options).shapes) EXPECT_EQ(shape.timed, 1U);
}

TEST_F(TuneHost, ATemplateThatCantTakeAShapeIsLeftOutOfIt) {
    const std::string text = line_template(
        "//@ size n = 3000 multiple 8\n//@ input x [n]\n//@ output y [n] by ways_reference\n"
        "//@ param T type in float = float\n",
        "int n, const T* x, T* y", kRight, "eights");
    const std::vector<Template> both = {service().parse(text, "eights.cu"), service().find("ways")};
    TuneOptions options;
    options.shapes = {{{"n", 33}}, {{"n", 40}}};
    options.budget_seconds = 0.5;
    const TuneReport report = tune(service(), both, options);
    ASSERT_THAT(report.shapes, SizeIs(2));
    EXPECT_THAT(report.shapes[0].left_out,
                ElementsAre(AllOf(HasSubstr("eights"), HasSubstr("n = 33 must be a multiple of 8"))));
    EXPECT_EQ(report.shapes[0].legal, 15U);
    EXPECT_THAT(report.shapes[0].best, Each(Field(&WisdomEntry::template_name, "ways")));
    EXPECT_THAT(report.shapes[1].left_out, IsEmpty());
    EXPECT_EQ(report.shapes[1].legal, 16U);

    bool begun = false;
    options.on_progress = [&](const TuneProgress&) { begun = true; };
    EXPECT_THROW(static_cast<void>(tune(service(), std::span(both).first(1), options)), VariantError);
    EXPECT_FALSE(begun) << "before anything is timed";
}

TEST_F(TuneHost, AnOverlapOfLaunchesIsNotTuned) {
    const std::string text = line_template(
        "//@ param DEPENDENT bool = true\n//@ dependent DEPENDENT\n"
        "//@ size n = 100\n//@ input x [n]\n//@ output y [n] by ways_reference\n"
        "//@ param T type in float = float\n#include \"kiln/launch.h\"\n",
        "int n, const T* x, T* y", "kiln::wait_for_previous_grid();\n    " + std::string(kRight), "late");
    const Template of = service().parse(text, "late.cu");
    const auto variants = [&](const Values& fixed) {
        return legal_spaces(service(), std::span(&of, 1), fixed).front().variants;
    };
    ASSERT_THAT(variants({}), SizeIs(1));
    EXPECT_EQ(variants({}).front().value("DEPENDENT"), Value(true)) << "its default";
    EXPECT_EQ(variants({{"DEPENDENT", false}}).front().value("DEPENDENT"), Value(false));
}

TEST_F(TuneHost, ATemplateWithoutSizesIsTuned) {
    std::string text =
        line_template("//@ output y [32] by three_reference\n", "float* y", "if (i < 32) y[i] = 3;", "three");
    text.replace(text.find("ceil_div(n + 1, 32)"), 19, "1");
    write_text(folder() / "three.cu", text);
    write_text(folder() / "three_reference.cu",
               reference_template("three_reference", "", "expected[i] = 3; bound[i] = 0;"));
    const Template of = service().find("three");
    const TuneReport report = tune(service(), std::span(&of, 1), {});
    const auto file = folder() / "wisdom.txt";
    Wisdom::store(file, report.wisdom);
    ASSERT_THAT(Wisdom::load(file).entries(), SizeIs(1));
    const Choice choice = Chooser(service(), Wisdom::load(file)).choose(of, {}, {});
    EXPECT_EQ(choice.origin, ChoiceOrigin::wisdom);
}

/// Launches after the LAST end in a trap; the more of them there are, the longer each takes.
// A compiler that hangs for some variants: the tuner goes without them, and so does the end of the service.
TEST_F(TuneHost, CompilesThatItNoLongerWaitsForAreCancelled) {
    const std::string compiler = (folder() / "c++").string();
    write_text(compiler,
               "#!/bin/sh\nfor file; do case $file in *specialised.cpp)\n"
               "    if grep -q 'WORK = 50;' \"$file\"; then echo > '" +
                   (folder() / "hung").string() + "'; sleep 100; fi;;\nesac; done\nexec g++ \"$@\"\n");
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    const ScopedVariable use("KILN_HOST_CXX", compiler);
    const auto start = std::chrono::steady_clock::now();
    {
        Service own(options());
        const Template of = own.find("ways");
        TuneOptions options;
        options.budget_seconds = 2;
        const TuneReport report = tune(own, std::span(&of, 1), options);
        EXPECT_FALSE(report.shapes.front().complete);
        EXPECT_GT(report.shapes.front().timed, 0U);
    }
    EXPECT_TRUE(std::filesystem::exists(folder() / "hung"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

class TuneLate : public Tune {
  protected:
    TuneLate()
        : Tune(
              line_template("//@ param T type in float = float\n//@ param LAST int in 0, 4, 34, 1000 = 1000\n"
                            "//@ size n = 3000\n//@ input x [n]\n//@ output y [n] by ways_reference\n",
                            "int n, const T* x, T* y",
                            "static int launches = 0;\n"
                            "    if (i == 0 && ++launches > LAST) kiln_host::trap(\"worn out\");\n"
                            "    volatile int sum = 0;\n"
                            "    for (int w = 0; w < LAST; ++w) sum = sum + 1;\n    " +
                                std::string(kRight),
                            "ways")) {}
};

// 0: the check; 4: the first comparison, after a check and three launches; 34: what is verified, after thirty more.
TEST_F(TuneLate, WhatFailsOnTheDeviceIsItsOwnFailureWhereverItDoes) {
    TuneOptions options;
    options.journal = folder() / "w.journal";
    const TuneReport report = tuned(options);
    const TunedShape& shape = report.shapes.front();
    ASSERT_THAT(shape.best, SizeIs(1));
    EXPECT_EQ(shape.best.front().values.at("LAST"), Value(1000));
    EXPECT_EQ(shape.timed, 3U);
    EXPECT_TRUE(shape.complete);
    ASSERT_THAT(shape.failures, SizeIs(3));
    for (const TuneFailure& failure : shape.failures) {
        EXPECT_THAT(failure.reason, HasSubstr("worn out")) << failure.variant;
        EXPECT_FALSE(failure.wrong);
    }
}

TEST_F(TuneHost, ScratchOfOthersIsNotKeptWhenItIsLarge) {
    constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
    const std::string text = line_template(
        "//@ param SIZE int in 20, 21, 22, 23, 24, 25 = 20\n//@ size n = 100\n//@ input x [n]\n"
        "//@ output y [n]\n//@ scratch s [SIZE, 1048576]\n",
        "int n, const float* x, float* y, float* s", kRight, "roomy");
    const Template of = service().parse(text, "roomy.cu");
    CandidateRunner runner(service(), service(), false, 1);
    std::uint64_t most = 0;
    for (const Variant& variant : of.variants()) {
        const AnyKernel kernel = service().build(variant);
        EXPECT_EQ(runner.check(kernel, variant.problem()), "");
        EXPECT_GT(runner.time_ms(kernel, variant.problem()), 0);
        most = std::max(most, runner.held_bytes());
    }
    EXPECT_GT(most, 100 * kMebibyte);
    EXPECT_LT(most, 400 * kMebibyte) << "of 540 in all";
    runner.drop_scratch();
    EXPECT_LT(runner.held_bytes(), kMebibyte);
}

// Random terms of both signs hide two of a thousand: less than what rounding may do.
TEST_F(TuneHost, WhatLosesAFewContributionsDoesNotWin) {
    write_text(folder() / "rows.cu",
               line_template("//@ param WAY int in 1, 2 = 1\n//@ size n = 8\n//@ size k = 1024\n"
                             "//@ input x [n, k]\n//@ output y [n] by rows_reference\n",
                             "int n, int k, const float* x, float* y",
                             "if (i >= n) return;\n    float sum = 0;\n"
                             "    const int last = WAY == 2 ? k - 2 : k;\n"
                             "    for (int j = 0; j < last; ++j) sum += x[i * k + j];\n    y[i] = sum;",
                             "rows"));
    write_text(folder() / "rows_reference.cu",
               reference_template("rows_reference", "int k, const float* x",
                                  "expected[i] = 0;\n    bound[i] = 1.99;\n"
                                  "    for (int j = 0; j < k; ++j) expected[i] += x[e * k + j];",
                                  "//@ data x term k\n"));
    const Template of = service().find("rows");
    const TuneReport report = tune(service(), std::span(&of, 1), {});
    ASSERT_THAT(report.shapes, SizeIs(1));
    const TunedShape& shape = report.shapes.front();
    EXPECT_EQ(shape.timed, 1U) << "the other is left out before it is timed";
    ASSERT_THAT(shape.best, SizeIs(1));
    EXPECT_EQ(shape.best.front().values.at("WAY"), Value(1));
    ASSERT_THAT(shape.failures, SizeIs(1));
    EXPECT_TRUE(shape.failures.front().wrong);
    EXPECT_THAT(shape.failures.front().reason,
                HasSubstr("8 of 8 elements of y are wrong, with inputs that make each contribution visible"));
}

TEST_F(TuneHost, AVariantThatLeavesElementsUnwrittenIsWrongThoughTheyWouldBeRight) {
    write_text(
        folder() / "bytes.cu",
        line_template("//@ param WAY int in 1, 2 = 1\n//@ size n = 100\n"
                      "//@ output y [n] by bytes_reference\n",
                      "int n, unsigned char* y", "if (i < n && (WAY == 1 || i != 7)) y[i] = 165;", "bytes"));
    write_text(folder() / "bytes_reference.cu",
               reference_template("bytes_reference", "", "expected[i] = 165;\n    bound[i] = 0;"));
    const Template of = service().find("bytes");
    const TuneReport report = tune(service(), std::span(&of, 1), {});
    ASSERT_THAT(report.shapes, SizeIs(1));
    ASSERT_THAT(report.shapes.front().failures, SizeIs(1));
    EXPECT_TRUE(report.shapes.front().failures.front().wrong);
    EXPECT_THAT(report.shapes.front().failures.front().reason,
                HasSubstr("1 elements of y were never written"));
}

TEST_F(TuneHost, ShardsCoverEveryCandidateOnce) {
    const Template of = service().find("ways");
    TuneOptions options;
    const std::vector<VariantSpace> spaces = legal_spaces(service(), std::span(&of, 1), {});
    const Candidates found = ordered_candidates(service(), spaces, {}, false);
    const std::vector<Candidate>& all = found.ordered;
    EXPECT_EQ(found.legal, 15U);
    for (const std::uint64_t shards : {1, 2, 7, 20}) {
        std::multiset<std::string> covered;
        for (std::uint64_t shard = 0; shard < shards; ++shard)
            for (const Candidate& one : of_shard(all, shard, shards)) covered.insert(one.variant.text());
        EXPECT_EQ(covered.size(), all.size());
        for (const Candidate& one : all) EXPECT_EQ(covered.count(one.variant.text()), 1U);
    }
    options.shard = options.shards = 2;
    EXPECT_THROW(tuned(options), UsageError);
}

TEST_F(TuneHost, TheSearchGivesEachCandidateOnceAndFollowsTheBest) {
    const Template of = service().find("ways");
    const auto all =
        ordered_candidates(service(), legal_spaces(service(), std::span(&of, 1), {}), {}, false).ordered;
    EXPECT_EQ(all.front().variant.values(), of.variant().values()) << "the defaults come first";
    CandidateQueue search(all);
    std::set<std::size_t> seen;
    while (const auto next = search.next()) {
        EXPECT_TRUE(seen.insert(*next).second);
        search.timed(*next, static_cast<double>(1 + *next));
    }
    EXPECT_EQ(seen.size(), all.size());

    const auto index = [&](int way, int work) {
        return static_cast<std::size_t>(
            std::ranges::find(all, of.variant({{"WAY", way}, {"WORK", work}}).text(),
                              [](const Candidate& one) { return one.variant.text(); }) -
            all.begin());
    };
    CandidateQueue other(all);
    static_cast<void>(other.next());
    other.timed(index(3, 50), 1);
    const std::set<std::size_t> beside = {index(2, 50), index(4, 50), index(3, 1), index(3, 400)};
    EXPECT_TRUE(beside.contains(*other.next()));
}

// They share the memory of y, whose first user's reference has an argument that the others lack. As on a GPU: not each in a
// process of its own.
TEST_F(TuneHost, TemplatesWithReferencesOfTheirOwnCompete) {
    const std::string sizes = "//@ param T type in float = float\n//@ size n = 100\n//@ input x [n]\n";
    write_text(folder() / "with_z.cu",
               line_template(sizes + "//@ input z [n]\n//@ output y [n] by with_z_reference\n",
                             "int n, const T* x, const T* z, T* y", "if (i < n) y[i] = 2 * x[i] + 0 * z[i];",
                             "with_z"));
    write_text(folder() / "with_z_reference.cu",
               reference_template("with_z_reference", "const T* x, const T* z",
                                  "expected[i] = 2.0 * x[e] + 0.0 * z[e]; bound[i] = 0;",
                                  "//@ param T type in float = float\n"));
    ServiceOptions together = options();
    together.isolate_host = false;
    Service own(together);
    const std::vector<Template> both = {own.find("with_z"), own.find("ways")};
    TuneOptions options;
    options.fixed = {{"SHIFTED", false}};  // which neither has
    options.shapes = {{{"n", 100}}};
    options.budget_seconds = 5;
    const TunedShape shape = tune(own, both, options).shapes.front();
    ASSERT_THAT(shape.best, SizeIs(2));
    EXPECT_NE(shape.best[0].template_name, shape.best[1].template_name);
    EXPECT_TRUE(shape.default_ms.has_value());
}

// However little time there is, and though the defaults do four hundred times the work.
TEST_F(TuneHost, NothingSlowerIsFoundThanWhatAnApplicationGets) {
    TuneOptions options;
    options.fixed = {{"WORK", 1}, {"WAY", 2}};
    const auto file = folder() / "known.txt";
    Wisdom::store(file, tuned(options).wisdom);
    const ScopedVariable use("KILN_WISDOM", file.string());
    options.fixed.clear();
    options.budget_seconds = 0;
    const TunedShape shape = tuned(options).shapes.front();
    EXPECT_EQ(shape.timed, 1U);
    ASSERT_THAT(shape.best, SizeIs(1));
    EXPECT_EQ(shape.best.front().values.at("WORK"), Value(1));
    EXPECT_EQ(shape.best.front().values.at("WAY"), Value(2));
}

TEST_F(TuneHost, TheSearchBeginsWithWhatItIsGivenAndTheDefaults) {
    const Template of = service().find("ways");
    const auto all =
        ordered_candidates(service(), legal_spaces(service(), std::span(&of, 1), {}), {}, false).ordered;
    const Variant first[] = {of.variant({{"WAY", 2}, {"WORK", 1}}), of.variant({{"T", "double"}}),
                             of.variant({{"WAY", 4}, {"WORK", 50}})};
    CandidateQueue search(all, first);
    const auto next = *search.next();
    EXPECT_EQ(all[next].variant, first[0]);
    search.timed(next, 1);  // its neighbours come later
    EXPECT_EQ(all[*search.next()].variant, of.variant());
    EXPECT_EQ(all[*search.next()].variant, first[2]);
}

// Most combinations of the values of these are not legal, so that all legal ones can be listed.
TEST(TuneCandidates, OfManyCombinationsTheLegalOnesAreListed) {
    const auto listed = [](const char* name, const char* parameter) {
        const Template of = hopper().find(name).for_target(hopper().target());
        std::set<std::string> values;
        const std::vector<VariantSpace> spaces = legal_spaces(hopper(), std::span(&of, 1), {});
        for (const Variant& variant : spaces.front().variants) values.insert(variant.value(parameter).text());
        return values.size();
    };
    EXPECT_EQ(listed("softmax", "THREADS"), 10U);
    EXPECT_EQ(listed("softmax", "CLUSTER"), 4U);
    EXPECT_GT(listed("gemm_wgmma", "SPLIT_K"), 1U);
    EXPECT_GT(listed("gemm_wgmma", "CLUSTER_M"), 1U);
}

TEST_F(TuneHost, WhatNobodyChecksIsNotTuned) {
    const Template of = service().parse(line_template("//@ size n = 10\n//@ output y [n]\n",
                                                      "int n, float* y", "if (i < n) y[i] = 1;", "free"),
                                        "free.cu");
    EXPECT_THROW(static_cast<void>(tune(service(), std::span(&of, 1), {})), UsageError);
    EXPECT_THROW(static_cast<void>(tune(service(), {}, {})), UsageError);
    TuneOptions nobody;
    nobody.finalists = 0;
    EXPECT_THAT(rejected<UsageError>([&] { static_cast<void>(tune(service(), std::span(&of, 1), nobody)); }),
                HasSubstr("TuneOptions::finalists must be an integer from 1"));
}

}  // namespace
}  // namespace kiln::test
