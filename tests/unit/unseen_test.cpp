// SPDX-License-Identifier: Apache-2.0
//
// kiln bench unseen: what is drawn from a seed, percentiles and means of parts, and the suite itself on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <kiln/service.h>
#include <kiln/tools/bench.h>
#include <kiln/wisdom.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>

#include "base/file.h"
#include "bench/results.h"
#include "bench/unseen_problems.h"

namespace kiln {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kMany = 32;

std::vector<std::string> texts(const std::vector<bench::DrawnProblem>& problems) {
    std::vector<std::string> list;
    for (const bench::DrawnProblem& one : problems) list.push_back(one.text);
    return list;
}

std::int64_t bytes_of(const bench::DrawnProblem& one) {
    const auto type = one.fixed.find("T");
    const std::int64_t bytes = type == one.fixed.end() ? 1 : type->second.text() == "float" ? 4 : 2;
    std::int64_t elements = 1;
    for (const auto& [name, size] : one.sizes) elements *= size;
    return elements * bytes;
}

TEST(UnseenProblems, AreTheSameForTheSameSeedAndOthersForAnother) {
    for (const bench::DrawnFamily& family : bench::drawn_families()) {
        const auto first = bench::drawn_problems(family.part, 1, kMany, false);
        EXPECT_EQ(texts(first), texts(bench::drawn_problems(family.part, 1, kMany, false)));
        EXPECT_NE(texts(first), texts(bench::drawn_problems(family.part, 2, kMany, false)));
        EXPECT_GE(first.size(), 30U) << family.part;
        const auto few = bench::drawn_problems(family.part, 1, 4, false);
        ASSERT_EQ(few.size(), 4U);
        EXPECT_EQ(few.back().text, first[3].text) << "a longer list begins with a shorter one";
    }
    // Those of the recorded measurements: another generator would make them worthless.
    EXPECT_EQ(bench::drawn_problems("gemm-f16", 1, 1, false)[0].text, "bfloat16 TN 1 x 12544 x 104 (seed 1)");
    EXPECT_EQ(bench::drawn_problems("softmax", 3, 3, false)[2].text, "bfloat16 41052 x 81 (seed 3)");
}

// FP32 output without an epilogue is that of gemm-f16.
TEST(UnseenProblems, GemmsHaveEachEpilogueAndOutput) {
    std::map<std::string, int> drawn;
    int all = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
        for (const bench::DrawnProblem& one : bench::drawn_problems("gemm-epilogue", seed, kMany, false)) {
            const std::string out = one.fixed.at("OUT").text(), type = one.fixed.at("T").text();
            EXPECT_TRUE(out == "float" || out == type) << one.text;
            ++drawn[(out == "float" ? "float " : "16 bits ") + one.fixed.at("BIAS").text() +
                    one.fixed.at("ACTIVATION").text()];
            ++drawn[one.fixed.at("TRANS_B").text()];
            ++drawn[out];
            ++all;
        }
    EXPECT_EQ(drawn.size(), 7U + 2 + 3);
    EXPECT_FALSE(drawn.contains("float 00"));
    for (const auto& [what, count] : drawn) EXPECT_GT(count, all / 20) << what;
    EXPECT_NEAR(drawn["float"], all / 2, all / 10);
}

TEST(UnseenProblems, OfGemmsHaveAllTemplatesWithTheEpilogue) {
    ServiceOptions options;
    options.backend = Backend::cuda;
    options.arch = "sm_90a";
    options.compile_only = true;
    options.cache.enabled = false;
    const Service service(options);
    const Chooser chooser(service);
    for (const bench::DrawnFamily& family : bench::drawn_families()) {
        if (family.part != "gemm-epilogue") continue;
        const Template of = service.find(family.templates.front()).for_target(service.target());
        for (const bench::DrawnProblem& one : bench::drawn_problems(family.part, 1, kMany, false)) {
            const std::vector<Template> able = chooser.candidates(of, one.fixed);
            std::vector<std::string> names;
            for (const Template& each : able) names.push_back(each.name());
            EXPECT_THAT(names, ::testing::IsSupersetOf({"gemm_skinny", "gemm_wgmma", "gemm_wgmma_any"}))
                << one.text;
            EXPECT_NO_THROW(chooser.choose(able, one.fixed, one.sizes)) << one.text;
        }
    }
}

TEST(UnseenProblems, OfAttentionHaveAllHeads) {
    std::map<std::string, int> heads;
    for (std::uint64_t seed = 1; seed <= 10; ++seed)
        for (const bench::DrawnProblem& one : bench::drawn_problems("attention", seed, kMany, false)) {
            std::string head = one.fixed.at("HEAD_DIM").text(), values = head;
            if (const auto found = one.fixed.find("VALUE_DIM"); found != one.fixed.end()) {
                values = found->second.text();
                EXPECT_NE(values, head) << one.text;
                head += "/" + values;
            }
            EXPECT_THAT(one.text, HasSubstr(" head " + head + " "));
            EXPECT_TRUE(one.torch.ends_with(" " + values)) << one.torch;
            ++heads[head];
        }
    ASSERT_EQ(heads.size(), 5U);
    for (const char* head : {"64", "96", "128", "192/128", "256"}) EXPECT_GT(heads[head], 320 / 8) << head;
}

TEST(UnseenProblems, OfAttentionHaveATemplateForEachHead) {
    ServiceOptions options;
    options.backend = Backend::cuda;
    options.arch = "sm_90a";
    options.compile_only = true;
    options.cache.enabled = false;
    const Service service(options);
    const Chooser chooser(service);
    const Template of = service.find("attention_mma").for_target(service.target());
    for (const bench::DrawnProblem& one : bench::drawn_problems("attention", 1, kMany, false)) {
        const std::vector<Template> able = chooser.candidates(of, one.fixed);
        EXPECT_NO_THROW(chooser.choose(able, one.fixed, one.sizes)) << one.text;
        EXPECT_EQ(std::ranges::count(able, "attention_wgmma", &Template::name), 1) << one.text;
    }
}

TEST(UnseenProblems, OfPackedAttentionTellPyTorchWhereSequencesBegin) {
    int differ = 0;
    for (const bench::DrawnProblem& one : bench::drawn_problems("attention-packed", 1, kMany, false)) {
        const Sizes& of = one.sizes;
        EXPECT_GE(of.at("total_keys"), 2 * of.at("batch")) << one.text;
        EXPECT_LE(std::max(of.at("total_keys"), of.at("total_queries")), 65537) << one.text;
        const std::size_t last = one.torch.rfind(' '), before = one.torch.rfind(' ', last - 1);
        EXPECT_TRUE(one.torch.ends_with("," + std::to_string(of.at("total_keys")))) << one.torch;
        EXPECT_THAT(one.torch.substr(0, last),
                    ::testing::EndsWith("," + std::to_string(of.at("total_queries"))));
        EXPECT_EQ(std::ranges::count(one.torch.substr(last), ','), of.at("batch"))
            << "one more than sequences";
        const bool same = one.torch.substr(before, last - before) == one.torch.substr(last);
        EXPECT_EQ(same, of.at("total_keys") == of.at("total_queries")) << one.torch;
        differ += same ? 0 : 1;
    }
    EXPECT_GT(differ, 0);
}

TEST(UnseenProblems, OfDecodeHaveAllPagesAndUpTo16NewTokens) {
    std::set<std::string> pages, added;
    int all = 0, one_each = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed)
        for (const bench::DrawnProblem& one : bench::drawn_problems("decode", seed, kMany, false)) {
            pages.insert(one.fixed.at("PAGE_SIZE").text());
            const auto tokens = one.fixed.find("NEW_TOKENS");
            if (tokens != one.fixed.end()) {
                added.insert(tokens->second.text());
                EXPECT_THAT(one.text, HasSubstr(", " + tokens->second.text() + " new tokens "));
            }
            one_each += tokens == one.fixed.end();
            ++all;
        }
    EXPECT_THAT(pages, ::testing::UnorderedElementsAre("16", "32", "64", "128"));
    EXPECT_EQ(added.size(), 15U) << "2 to 16";
    EXPECT_NEAR(one_each, all / 2, all / 10);
}

TEST(UnseenProblems, AreNotInTheShippedWisdom) {
    std::set<std::string> known;
    for (const WisdomEntry& entry : Wisdom::shipped().entries()) {
        std::string sizes;
        for (const auto& [name, size] : entry.sizes) sizes += name + "=" + std::to_string(size) + " ";
        known.insert(sizes);
    }
    for (const bench::DrawnFamily& family : bench::drawn_families())
        for (const std::uint64_t seed : bench::kRecordedSeeds)
            for (const bench::DrawnProblem& one : bench::drawn_problems(family.part, seed, kMany, false)) {
                std::string sizes;
                for (const auto& [name, size] : one.sizes) sizes += name + "=" + std::to_string(size) + " ";
                EXPECT_FALSE(known.contains(sizes)) << one.text;
            }
}

TEST(UnseenProblems, AThirdIsUnaligned) {
    for (const bench::DrawnFamily& family : bench::drawn_families()) {
        int unaligned = 0;
        for (const bench::DrawnProblem& one : bench::drawn_problems(family.part, 5, 30, false)) {
            unaligned += one.unaligned;
            bool is_aligned = true;
            for (const auto& [name, size] : one.sizes)
                if (name == "k" || name == "n" || name == "cols" || name == "keys" || name == "total_keys" ||
                    name == "max_length")
                    is_aligned = is_aligned && size % 8 == 0;
            EXPECT_EQ(is_aligned, !one.unaligned) << one.text;
        }
        EXPECT_NEAR(unaligned, 10, 1) << family.part;
    }
}

TEST(UnseenProblems, StayWithinTheirRangesAndReachTheirEnds) {
    std::int64_t least = 1 << 30, most = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        for (const char* part : {"gemm-f16", "gemm-epilogue", "gemm-f32"})
            for (const bench::DrawnProblem& one : bench::drawn_problems(part, seed, kMany, false))
                for (const auto& [name, size] : one.sizes) {
                    EXPECT_GE(size, 1) << one.text;
                    EXPECT_LE(size, 16385) << one.text;
                    least = std::min(least, size);
                    most = std::max(most, size);
                }
        for (const char* part :
             {"softmax", "layer-norm", "rms-norm", "transpose", "reduction", "column-reduction", "histogram"})
            for (const bench::DrawnProblem& one : bench::drawn_problems(part, seed, kMany, false)) {
                EXPECT_LE(bytes_of(one), std::int64_t{5} << 29) << part << ": " << one.text;
                EXPECT_GE(bytes_of(one), 1 << 18) << part << ": " << one.text;
            }
        for (const char* part : {"softmax", "layer-norm", "rms-norm"})
            for (const bench::DrawnProblem& one : bench::drawn_problems(part, seed, kMany, false)) {
                EXPECT_GE(one.sizes.at("cols"), 16) << part << ": " << one.text;
                EXPECT_LE(one.sizes.at("cols"), 262145) << part << ": " << one.text;
            }
        for (const bench::DrawnProblem& one : bench::drawn_problems("attention", seed, kMany, false)) {
            const Sizes& of = one.sizes;
            EXPECT_GE(of.at("keys"), 16);
            EXPECT_LE(of.at("keys"), 65537);
            const double pairs = static_cast<double>(of.at("queries")) * static_cast<double>(of.at("keys"));
            EXPECT_LE(
                4 * pairs * 128 * static_cast<double>(of.at("batch") * of.at("kv_heads") * of.at("group")),
                1e13)
                << one.text;
        }
        for (const bench::DrawnProblem& one : bench::drawn_problems("decode", seed, kMany, false)) {
            const Sizes& of = one.sizes;
            const std::int64_t bytes = 4 * of.at("batch") * of.at("kv_heads") * of.at("max_length") *
                                       one.fixed.at("HEAD_DIM").as_int();
            EXPECT_GE(bytes, 30 << 20) << one.text;
            EXPECT_LE(bytes, std::int64_t{5} << 29) << one.text;
        }
    }
    EXPECT_LE(least, 2);
    EXPECT_GE(most, 15000);
}

// Half of the sizes lie below the geometric middle of their range.
TEST(UnseenProblems, AreLogUniform) {
    int small = 0, all = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
        for (const bench::DrawnProblem& one : bench::drawn_problems("gemm-f16", seed, kMany, false)) {
            small += one.sizes.at("m") < 128;
            ++all;
        }
    EXPECT_NEAR(static_cast<double>(small) / all, 0.5, 0.06);
}

TEST(UnseenProblems, ThatThereAreNotAreRejected) {
    EXPECT_THROW(bench::drawn_problems("gemm", 1, 1, false), UsageError);
}

TEST(UnseenStatistics, APercentileIsInterpolated) {
    EXPECT_DOUBLE_EQ(bench::percentile({4, 1, 3, 2, 5}, 0), 1);
    EXPECT_DOUBLE_EQ(bench::percentile({4, 1, 3, 2, 5}, 50), 3);
    EXPECT_DOUBLE_EQ(bench::percentile({1, 2}, 5), 1.05);
    EXPECT_DOUBLE_EQ(bench::percentile({7}, 5), 7);
}

BenchSuite suite_of(const std::vector<std::pair<std::string, double>>& ratios) {
    BenchSuite suite;
    suite.name = "unseen";
    for (const auto& [part, ratio] : ratios) {
        BenchRow& row = suite.rows.emplace_back();
        row.problem = "problem " + std::to_string(suite.rows.size());
        row.part = part;
        row.unit = "us";
        row.kiln = BenchSpread{1, 1, 1, 1};
        BenchComparison& comparison = row.comparisons.emplace_back();
        comparison.with = "PyTorch";
        comparison.ratio = ratio;
    }
    return suite;
}

BenchMean of_part(const std::string& part) {
    BenchMean mean;
    mean.with = "PyTorch";
    mean.part = part;
    mean.percent = 5;
    mean.must = 1.25;
    mean.low_must = 0.95;
    return mean;
}

TEST(UnseenStatistics, MeansAreOfTheirPartAlone) {
    BenchSuite suite = suite_of({{"softmax", 2}, {"softmax", 0.5}, {"layer-norm", 8}});
    bench::add_mean(suite, of_part("softmax"));
    bench::add_mean(suite, of_part("layer-norm"));
    bench::add_mean(suite, of_part("transpose"));
    ASSERT_EQ(suite.means.size(), 2U);
    EXPECT_DOUBLE_EQ(suite.means[0].ratio, 1);
    EXPECT_DOUBLE_EQ(suite.means[0].low, 0.575);
    EXPECT_EQ(suite.means[0].least, 0.5);
    EXPECT_EQ(suite.means[0].rows, 2);
    EXPECT_DOUBLE_EQ(suite.means[1].ratio, 8);
    BenchReport report;
    report.suites = {suite};
    EXPECT_THAT(report.missed(),
                ElementsAre("unseen.softmax: geometric mean 1 of PyTorch, and it must be 1.25",
                            "unseen.softmax: percentile 5 is 0.575 of PyTorch, and it must be 0.95"));
}

TEST(UnseenStatistics, MergedMeansAreMadeOfAllRows) {
    BenchSuite first = suite_of({{"softmax", 2}}), second = suite_of({{"softmax", 0.5}});
    second.rows[0].problem = "another";
    BenchReport one, other;
    one.device = other.device = "NVIDIA H200";
    for (auto& [report, suite] : {std::pair{&one, &first}, std::pair{&other, &second}}) {
        bench::add_mean(*suite, of_part("softmax"));
        report->suites = {*suite};
    }
    const BenchReport all = merged_bench({one, other});
    ASSERT_EQ(all.suites.at(0).means.size(), 1U);
    EXPECT_EQ(all.suites[0].means[0].rows, 2);
    EXPECT_DOUBLE_EQ(all.suites[0].means[0].ratio, 1);
    EXPECT_EQ(all.suites[0].means[0].low_must, 0.95);
    EXPECT_THAT(all.missing(), Contains("unseen.histogram"));
    one.suites.clear();
    EXPECT_THAT(one.missing(), Not(Contains("unseen.histogram"))) << "nobody asked for what is drawn";
}

/// On the host, with tiny problems.
class UnseenRun : public ::testing::Test {
  protected:
    UnseenRun() {
        options_.service.backend = Backend::host;
        options_.service.cache.directory = folder_.path() / "cache";
        options_.quick = true;
        options_.draws = 2;
        options_.on_variant = [this](const BenchTimedVariant& one) { timed_.push_back(one); };
    }

    TemporaryDirectory folder_;
    BenchOptions options_;
    std::vector<BenchTimedVariant> timed_;
};

TEST_F(UnseenRun, DistinguishesTheChosenVariantFromTheBestKnown) {
    const std::filesystem::path root = std::getenv("KILN_TEST_SOURCE_DIR");
    write_text(folder_.path() / "transpose_tiled.cu",
               std::regex_replace(read_text_if_exists(root / "kernels_src/transpose_tiled.cu").value_or(""),
                                  std::regex("(//@ model *search [^\n]*\n)"),
                                  "$1//@ model search host [THREADS]\n"));
    options_.service.template_directories = {folder_.path()};
    options_.suites = {"unseen.transpose"};
    const BenchReport report = run_bench(options_);
    const BenchSuite& suite = report.suites.at(0);
    EXPECT_THAT(suite.failures, ::testing::IsEmpty());
    ASSERT_EQ(suite.rows.size(), 2U);
    std::map<std::string, int> chosen;
    for (const BenchTimedVariant& one : timed_) {
        EXPECT_EQ(one.family, "transpose");
        EXPECT_GT(one.us, 0);
        chosen[one.fixed + " " + std::to_string(one.sizes.at("rows"))] += one.is_chosen;
    }
    for (const auto& [problem, count] : chosen) EXPECT_EQ(count, 1) << problem;
    EXPECT_GT(timed_.size(), 4U) << "others are timed next to it";
    for (const BenchRow& row : suite.rows) {
        EXPECT_THAT(row.failures, ::testing::IsEmpty()) << row.problem;
        EXPECT_EQ(row.verified, true);
        EXPECT_EQ(row.part, "transpose");
        const auto best =
            std::ranges::find(row.comparisons, std::string("best known variant"), &BenchComparison::with);
        ASSERT_NE(best, row.comparisons.end());
        EXPECT_GT(best->ratio, 0);
        EXPECT_LE(best->ratio, 1);
        EXPECT_THAT(best->detail, ::testing::AnyOf("the chosen one", HasSubstr("transpose")));
    }
    EXPECT_THAT(suite.means, Contains(::testing::Field(&BenchMean::percent, 10)));
}

TEST_F(UnseenRun, GemmsWithAnEpilogueAreRight) {
    options_.suites = {"unseen.gemm-epilogue"};
    const BenchReport report = run_bench(options_);
    const BenchSuite& suite = report.suites.at(0);
    ASSERT_EQ(suite.rows.size(), 2U);
    std::set<std::string> outputs;
    for (const BenchRow& row : suite.rows) {
        EXPECT_THAT(row.failures, ::testing::IsEmpty()) << row.problem;
        EXPECT_EQ(row.verified, true) << row.problem;
        const std::size_t at = row.variant.find(" OUT=");
        ASSERT_NE(at, std::string::npos) << row.variant;
        const std::string output = row.variant.substr(at + 5, row.variant.find(' ', at + 1) - at - 5);
        EXPECT_THAT(row.problem, HasSubstr(" to " + output));
        outputs.insert(output);
    }
    EXPECT_GT(outputs.size(), 1U);
}

// Nobody could tell otherwise that a kernel is missing.
TEST_F(UnseenRun, AProblemThatNoTemplateComputesHasARowThatSaysSo) {
    const std::filesystem::path root = std::getenv("KILN_TEST_SOURCE_DIR");
    write_text(folder_.path() / "transpose_tiled.cu",
               std::regex_replace(read_text_if_exists(root / "kernels_src/transpose_tiled.cu").value_or(""),
                                  std::regex("(//@ param *T *type in )[^=]*= *[a-z0-9]*"), "$1half = half"));
    options_.service.template_directories = {folder_.path()};
    options_.suites = {"unseen.transpose"};
    options_.draws = 5;
    const BenchReport report = run_bench(options_);
    EXPECT_TRUE(report.pass());
    const BenchSuite& suite = report.suites.at(0);
    ASSERT_EQ(suite.rows.size(), 5U);
    int timed = 0;
    for (const BenchRow& row : suite.rows) {
        EXPECT_THAT(row.failures, ::testing::IsEmpty()) << row.problem;
        const std::string type = row.problem.substr(0, row.problem.find(' '));
        EXPECT_EQ(row.kiln.has_value(), type == "half") << row.problem;
        timed += row.kiln.has_value();
        if (type == "half") continue;
        EXPECT_THAT(row.notes, ElementsAre("no template has T=" + type));
        EXPECT_THAT(row.comparisons, ::testing::IsEmpty());
        EXPECT_TRUE(row.sizes.contains("rows"));
    }
    EXPECT_GT(timed, 0);
    EXPECT_LT(timed, 5);
    ASSERT_EQ(suite.means.size(), 1U);
    EXPECT_EQ(suite.means[0].rows, timed);
}

// Each value is allowed, but not all of them together.
TEST_F(UnseenRun, MoreNewTokensThanDecodeAttentionTakesHaveARowThatSaysSo) {
    const auto tokens_of = [](const Values& fixed) {
        const auto tokens = fixed.find("NEW_TOKENS");
        return tokens == fixed.end() ? 1 : tokens->second.as_int();
    };
    const auto fits = [&](const bench::DrawnProblem& one) {
        const std::int64_t queries = one.fixed.at("GQA_GROUP").as_int() * tokens_of(one.fixed);
        return queries <= (one.fixed.at("HEAD_DIM").as_int() == 64 ? 48 : 24);
    };
    options_.suites = {"unseen.decode"};
    options_.draws = 3;
    std::vector<bench::DrawnProblem> problems;
    for (; std::ranges::all_of(problems, fits); ++options_.seed)
        problems = bench::drawn_problems("decode", options_.seed + 1, options_.draws, true);
    const BenchReport report = run_bench(options_);
    const BenchSuite& suite = report.suites.at(0);
    ASSERT_EQ(suite.rows.size(), problems.size());
    int several = 0;
    for (std::size_t i = 0; i < problems.size(); ++i) {
        const BenchRow& row = suite.rows[i];
        EXPECT_THAT(row.failures, ::testing::IsEmpty()) << row.problem;
        EXPECT_EQ(row.kiln.has_value(), fits(problems[i])) << row.problem;
        if (!fits(problems[i])) {
            EXPECT_THAT(row.notes, ElementsAre(::testing::StartsWith("no template has GQA_GROUP=")));
        }
        several += fits(problems[i]) && tokens_of(problems[i].fixed) > 1;
    }
    EXPECT_GT(several, 0);
}

TEST_F(UnseenRun, RmsNormIsDrawnWithAResidualAndWithout) {
    options_.suites = {"unseen.rms-norm"};
    options_.draws = 4;
    const BenchReport report = run_bench(options_);
    const BenchSuite& suite = report.suites.at(0);
    ASSERT_EQ(suite.rows.size(), 4U);
    const std::vector<bench::DrawnProblem> drawn = bench::drawn_problems("rms-norm", options_.seed, 4, true);
    int with_residual = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        const BenchRow& row = suite.rows[i];
        EXPECT_THAT(row.failures, ::testing::IsEmpty()) << row.problem;
        EXPECT_EQ(row.verified, true) << row.problem;
        const bool residual = row.problem.find(", residual added") != std::string::npos;
        EXPECT_THAT(row.variant, HasSubstr(residual ? "RESIDUAL=true" : "RESIDUAL=false"));
        EXPECT_TRUE(drawn[i].torch.ends_with(residual ? " 1" : " 0")) << drawn[i].torch;
        with_residual += residual;
    }
    EXPECT_GT(with_residual, 0);
    EXPECT_LT(with_residual, 4);
}

TEST_F(UnseenRun, ShardsMeasureEachProblemOnceAndMerge) {
    options_.suites = {"unseen.transpose"};
    options_.draws = 3;
    options_.shards = 2;
    const BenchReport first = run_bench(options_);
    options_.shard = 1;
    const BenchReport second = run_bench(options_);
    ASSERT_EQ(first.suites.at(0).rows.size(), 2U);
    ASSERT_EQ(second.suites.at(0).rows.size(), 1U);
    EXPECT_THAT(first.parts.back().missing, ElementsAre(second.suites[0].rows[0].problem));
    EXPECT_EQ(second.parts.back().missing.size(), 2U);
    const BenchReport all = merged_bench({first, second});
    for (const BenchPart& part : all.parts) EXPECT_THAT(part.missing, ::testing::IsEmpty());
    std::set<std::string> problems;
    for (const BenchRow& row : all.suites.at(0).rows) problems.insert(row.problem);
    std::set<std::string> drawn;
    for (const bench::DrawnProblem& one : bench::drawn_problems("transpose", options_.seed, 3, true))
        drawn.insert(one.text);
    EXPECT_EQ(problems, drawn);
    for (const std::uint64_t none : {2U, 7U}) {
        options_.shard = none;
        EXPECT_THROW(run_bench(options_), UsageError);
    }
}

TEST_F(UnseenRun, AnotherSeedAddsItsProblemsToTheReport) {
    options_.suites = {"unseen.reduction"};
    options_.draws = 1;
    const BenchReport first = run_bench(options_);
    options_.before = first;
    int begun = 0;
    options_.on_phase = [&](std::string_view, std::string_view) { ++begun; };
    EXPECT_EQ(run_bench(options_).suites.at(0).rows.size(), 1U);
    EXPECT_EQ(begun, 0) << "it is measured already";
    options_.seed = 2;
    const BenchReport both = run_bench(options_);
    ASSERT_EQ(both.suites.at(0).rows.size(), 2U);
    EXPECT_THAT(both.suites[0].rows[0].problem, HasSubstr("(seed 1)"));
    EXPECT_THAT(both.suites[0].rows[1].problem, HasSubstr("(seed 2)"));
}

// All at once, they could take all the time that a run has.
TEST_F(UnseenRun, VariantsOfLaterProblemsAreBuiltLater) {
    options_.suites = {"unseen.rms-norm"};
    options_.draws = 5;
    std::vector<bool> is_build;
    options_.on_phase = [&](std::string_view, std::string_view phase) {
        is_build.push_back(phase == "building");
    };
    EXPECT_EQ(run_bench(options_).suites.at(0).rows.size(), 5U);
    EXPECT_THAT(is_build, ElementsAre(true, false, false, false, false, true, false));
}

TEST_F(UnseenRun, VariantsAreKnownBeforeItRuns) {
    options_.suites = {"unseen.rms-norm"};
    options_.service.compile_only = true;
    const Service service(options_.service);
    std::set<std::string> listed;
    for (const Variant& variant : bench_variants(service, options_))
        EXPECT_TRUE(listed.insert(variant.text()).second) << variant.text();
    options_.service.compile_only = false;
    static_cast<void>(run_bench(options_));
    std::set<std::string> launched;
    for (const BenchTimedVariant& one : timed_) launched.insert(one.variant);
    EXPECT_EQ(listed, launched);
    options_.suites = {"unseen.rms-norm", "skinny.4096"};
    EXPECT_THROW(bench_variants(service, options_), UsageError);
}

TEST_F(UnseenRun, AsManyOthersAreTimedAsAreAskedFor) {
    options_.suites = {"unseen.rms-norm"};
    for (const int others : {0, 1}) {
        timed_.clear();
        options_.others = others;
        const BenchReport report = run_bench(options_);
        for (const BenchRow& row : report.suites.at(0).rows) {
            EXPECT_THAT(row.failures, ::testing::IsEmpty());
            EXPECT_EQ(row.verified, true);
        }
        std::map<std::string, int> of_problem;
        for (const BenchTimedVariant& one : timed_)
            ++of_problem[one.fixed + " " + std::to_string(one.sizes.at("rows"))];
        EXPECT_EQ(of_problem.size(), 2U);
        for (const auto& [problem, count] : of_problem) EXPECT_LE(count, 1 + others) << problem;
    }
}

TEST_F(UnseenRun, TuningAddsAVariantAndWhatItWouldReach) {
    options_.suites = {"unseen.reduction"};
    options_.draws = 1;
    options_.tune_seconds = 0.5;
    const BenchReport report = run_bench(options_);
    const BenchRow& row = report.suites.at(0).rows.at(0);
    EXPECT_THAT(row.failures, ::testing::IsEmpty());
    EXPECT_THAT(row.notes, ::testing::IsEmpty());
    EXPECT_GT(timed_.size(), 1U);
}

}  // namespace
}  // namespace kiln
