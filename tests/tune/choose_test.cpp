// SPDX-License-Identifier: Apache-2.0
//
// Choosing: exact wisdom, near wisdom, stale wisdom, none; which templates compute the same; and how long it takes.
#include <algorithm>
#include <ctime>

#include "tune/model.h"
#include "tune/problem_space.h"
#include "tune_support.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

class Choose : public Tune {
  protected:
    Choice chosen(const std::vector<WisdomEntry>& entries, std::int64_t n, const Values& fixed = {}) {
        return Chooser(service(), wisdom(entries)).choose(service().find("ways"), fixed, {{"n", n}});
    }
    static std::vector<std::string> names(const std::vector<Template>& templates) {
        std::vector<std::string> names;
        for (const Template& one : templates) names.push_back(one.name());
        return names;
    }
};

TEST_F(Choose, AnEntryForTheShapeIsTaken) {
    const Choice choice = chosen({entry(3000, 50, 1), entry(3001, 1, 0.5)}, 3000);
    EXPECT_EQ(choice.origin, ChoiceOrigin::wisdom);
    EXPECT_EQ(choice.variant.value("WORK"), Value(50));
    EXPECT_FALSE(choice.stale);
    EXPECT_THAT(choice.text(),
                AllOf(HasSubstr("wisdom of 2026-11-22 for this shape"), HasSubstr("best of 3")));
}

TEST_F(Choose, ElseTheNearestShape) {
    const std::vector<WisdomEntry> entries = {entry(1024, 1, 1), entry(4096, 50, 1)};
    const Choice choice = chosen(entries, 3500);
    EXPECT_EQ(choice.origin, ChoiceOrigin::nearest);
    EXPECT_EQ(choice.variant.value("WORK"), Value(50));
    EXPECT_THAT(choice.text(), HasSubstr("near shape n=4096"));
    EXPECT_EQ(chosen(entries, 1200).variant.value("WORK"), Value(1));
    EXPECT_EQ(chosen(entries, 100).origin, ChoiceOrigin::model)
        << "more than eight times as large is not near";
    // Of two that are alike far, the one of the same alignment.
    EXPECT_EQ(chosen({entry(2000, 1, 1), entry(2001, 50, 1)}, 2003).variant.value("WORK"), Value(50));
}

TEST_F(Choose, OtherDevicesTypesAndArchitecturesDoNotCount) {
    std::vector<WisdomEntry> entries(3, entry(3000, 50, 1));
    entries[0].device = "another";
    entries[1].arch = "x86-64-v9";
    entries[2].values.insert_or_assign("T", "double");
    const Choice choice = chosen(entries, 3000);
    EXPECT_EQ(choice.origin, ChoiceOrigin::model);
    EXPECT_EQ(choice.variant, service().find("ways").variant());
    EXPECT_FALSE(choice.entry.has_value());
    EXPECT_THAT(choice.text(), HasSubstr("no wisdom"));
    EXPECT_EQ(chosen(entries, 3000, {{"T", "double"}}).origin, ChoiceOrigin::wisdom);
}

TEST_F(Choose, ValuesThatAreAskedForAreKept) {
    const std::vector<WisdomEntry> entries = {entry(3000, 50, 1)};
    EXPECT_EQ(chosen(entries, 3000, {{"WAY", 2}}).origin, ChoiceOrigin::wisdom);
    const Choice other = chosen(entries, 3000, {{"WAY", 1}});
    EXPECT_EQ(other.origin, ChoiceOrigin::model);
    EXPECT_EQ(other.variant.value("WAY"), Value(1));
    EXPECT_THROW(chosen(entries, 3000, {{"WHY", 1}}), VariantError);
}

TEST_F(Choose, StaleWisdomIsUsedAndReported) {
    WisdomEntry old = entry(3000, 50, 1);
    old.digest = "0000000000000000";
    const Choice choice = chosen({old}, 3000);
    EXPECT_EQ(choice.origin, ChoiceOrigin::wisdom);
    EXPECT_TRUE(choice.stale);
    EXPECT_THAT(choice.text(), HasSubstr("stale: ways has changed"));

    Wisdom both = wisdom({entry(3000, 50, 2)});
    both.prefer(wisdom({old}));
    const Choice fresh = Chooser(service(), both).choose(service().find("ways"), {}, {{"n", 3000}});
    EXPECT_FALSE(fresh.stale) << "a faster time of another source counts for nothing";

    WisdomEntry gone = old;
    gone.values.emplace("GONE", 1);
    const Choice other = chosen({gone}, 3000);
    EXPECT_EQ(other.origin, ChoiceOrigin::model);
    EXPECT_THAT(other.unusable, ElementsAre(HasSubstr("no parameter GONE")));
    WisdomEntry illegal = old;
    illegal.values.insert_or_assign("WORK", 51);
    EXPECT_THAT(chosen({illegal}, 3000).unusable, SizeIs(1));
}

// Which sizes a variant takes depends on VEC, and VEC = 1 is legal with another WAY than the default only.
TEST_F(Choose, SizesThatTheDefaultsRefuseGetAVariantThatTakesThem) {
    write_text(folder() / "pairs.cu",
               line_template("//@ param WAY int in 1, 2, 3 = 1\n//@ param VEC int in 1, 2, 4, 8 = 4\n"
                             "//@ param MOST int in 100..1000000 = 1000\n"
                             "//@ let STEP = VEC * 2\n//@ require VEC > 1 || WAY > 1\n"
                             "//@ size n = 800 multiple STEP at_most MOST\n"
                             "//@ input x [n]\n//@ output y [n] by ways_reference\n",
                             "int n, const float* x, float* y", "if (i < n) y[i] = x[i];", "pairs"));
    const Template of = service().find("pairs");
    const auto choice_for = [&](std::int64_t n, const Values& fixed = {},
                                const std::vector<WisdomEntry>& known = {}) {
        return Chooser(service(), wisdom(known)).choose(of, fixed, {{"n", n}});
    };
    EXPECT_EQ(choice_for(808).variant, of.for_target(service().target()).variant());
    EXPECT_EQ(choice_for(804).variant.value("VEC"), Value(2)) << "the nearest to the default";
    EXPECT_EQ(choice_for(802).variant.value("VEC"), Value(1));
    EXPECT_EQ(choice_for(802).variant.value("WAY"), Value(2));
    EXPECT_EQ(choice_for(1008).variant.value("MOST"), Value(1008));
    EXPECT_THROW(choice_for(801), VariantError) << "no variant takes an odd size";
    EXPECT_THROW(choice_for(802, {{"VEC", 8}}), VariantError);

    WisdomEntry measured = entry(802, 1, 1);
    measured.template_name = "pairs";
    measured.values = {{"WAY", 3}, {"VEC", 1}, {"MOST", 5000}};
    measured.problem_values = {};
    measured.digest = template_digest(of);
    const Choice choice = choice_for(802, {}, {measured});
    EXPECT_EQ(choice.origin, ChoiceOrigin::wisdom);
    EXPECT_EQ(choice.variant.value("WAY"), Value(3));
    EXPECT_EQ(choice_for(802, {{"MOST", 4000}}, {measured}).variant.value("WAY"), Value(2));
    EXPECT_FALSE(Chooser(service(), {}).considered(std::span(&of, 1), {}, {{"n", 802}}, 5).empty());
}

TEST_F(Choose, ADigestIsOfTheSourceAndItsHeaders) {
    const std::string text = ways_template();
    const Template of = service().parse(text, "ways.cu");
    EXPECT_EQ(template_digest(of), template_digest(service().find("ways")));
    EXPECT_NE(template_digest(service().parse(ways_template("int unused = 0; (void)unused;"), "ways.cu")),
              template_digest(of));
    const auto with_header = [&](const std::string& header) {
        std::string included = text;
        included.insert(included.find("#include"), "#include \"mine.h\"\n");
        return template_digest(service().parse(included, "ways.cu", {{"mine.h", header}}));
    };
    EXPECT_EQ(with_header("// one\n"), with_header("// one\n"));
    EXPECT_NE(with_header("// one\n"), with_header("// two\n"));
}

TEST_F(Choose, WhatAParameterIsAboutIsFound) {
    EXPECT_THAT(problem_parameters(service(), service().find("ways")), ElementsAre("T"));
    EXPECT_THAT(problem_parameters(hopper(), hopper().find("gemm_mma")),
                ElementsAre("ACTIVATION", "ALPHA", "T", "TRANS_A", "TRANS_B"));
    EXPECT_THAT(problem_parameters(hopper(), hopper().find("gemm_tiled")), ElementsAre("T"));
    // Their references have THREADS too, for the bound alone.
    EXPECT_THAT(problem_parameters(hopper(), hopper().find("softmax")), ElementsAre("T"));
    EXPECT_THAT(problem_parameters(hopper(), hopper().find("layer_norm")), ElementsAre("T"));
    EXPECT_THAT(problem_parameters(hopper(), hopper().find("sum_shuffle")), ElementsAre("T"));
    EXPECT_THAT(problem_parameters(hopper(), hopper().find("column_sum")), ElementsAre("T"));
    EXPECT_THAT(problem_parameters(hopper(), hopper().find("decode_paged")),
                AllOf(IsSupersetOf({"HEAD_DIM", "GQA_GROUP", "PAGE_SIZE", "T"}), Not(Contains("THREADS"))));
}

TEST_F(Choose, TemplatesOfTheSameProductAreAlternatives) {
    const Chooser chooser(hopper(), Wisdom());
    const auto half = names(chooser.alternatives(hopper().find("gemm_tiled"), {{"T", "half"}}));
    EXPECT_THAT(half, IsSupersetOf({"gemm_tiled", "gemm_wgmma", "gemm_mma", "gemm_buffered", "gemm_async"}));
    EXPECT_THAT(half, Not(Contains("gemm_naive")));
    EXPECT_THAT(half, Not(Contains("gemm_batched"))) << "it has a batch";
    EXPECT_THAT(half, Not(Contains("gemm_mfma"))) << "it is AMD's";
    EXPECT_THAT(half, Not(Contains("softmax")));
    const auto floats = names(chooser.alternatives(hopper().find("gemm_tiled"), {{"T", "float"}}));
    EXPECT_THAT(floats, Contains("gemm_buffered"));
    EXPECT_THAT(floats, Not(Contains("gemm_wgmma"))) << "it has no float";
    const auto transposed =
        names(chooser.alternatives(hopper().find("gemm_mma"), {{"T", "half"}, {"TRANS_B", true}}));
    EXPECT_THAT(transposed, Not(Contains("gemm_tiled")));
}

TEST_F(Choose, OtherTemplatesThatAreWrongAreLeftOutOfTheAlternatives) {
    const auto with = [](std::string text, const std::string& name, const std::string& line) {
        text.insert(text.find("#include"), line);
        const std::string kernel = "//@ kernel ways";
        text.replace(text.find(kernel), kernel.size(), "//@ kernel " + name);
        const std::string declared = "void ways(";
        text.replace(text.find(declared), declared.size(), "void " + name + "(");
        return text;
    };
    write_text(folder() / "ways.cu", with(ways_template(), "ways", "//@ naive ways_naive\n"));
    write_text(folder() / "ways_naive.cu", with(ways_template(), "ways_naive", ""));
    write_text(folder() / "more_ways.cu", with(ways_template(), "more_ways", "//@ naive ways_naive\n"));
    write_text(folder() / "other_naive.cu", with(ways_template(), "other_naive", ""));
    write_text(folder() / "half_written.cu", "//@ kernel half_written\n//@ blok 32\n");
    write_text(folder() / "lonely.cu", with(ways_template(), "lonely", "//@ naive not_there\n"));
    EXPECT_THAT(names(Chooser(service(), Wisdom()).alternatives(service().find("ways"))),
                ElementsAre("more_ways", "ways"));
    EXPECT_THAT(names(Chooser(service(), Wisdom()).alternatives(service().find("lonely"))),
                ElementsAre("lonely"));
    // And of the names of families.
    EXPECT_EQ(find_family(service(), "other").name(), "other_naive");
}

// A matrix with a short side goes to the kernel whose blocks move all of that side; from some 200 elements on tiles take less (310 x
// 606750 in bfloat16 219 us instead of 275, 9532 x 452 in half 9.7 instead of 12.5, H200).
TEST_F(Choose, ShortSidesOfMatricesHaveAKernelOfTheirOwn) {
    const Chooser chooser(hopper(), Wisdom());
    const auto chosen = [&](const char* type, std::int64_t rows, std::int64_t cols) {
        const Values fixed{{"T", type}};
        const std::vector<Template> candidates = chooser.candidates(hopper().find("transpose_tiled"), fixed);
        return chooser.choose(candidates, fixed, {{"rows", rows}, {"cols", cols}}).variant.template_name();
    };
    for (const auto& [type, rows, cols] : {std::tuple{"bfloat16", 5314151, 11},
                                           {"bfloat16", 992913, 25},
                                           {"bfloat16", 8, 7492624},
                                           {"half", 32, 557152}})
        EXPECT_EQ(chosen(type, rows, cols), "transpose_narrow") << type << " " << rows << " x " << cols;
    for (const auto& [type, rows, cols] : {std::tuple{"bfloat16", 4104, 18344},
                                           {"float", 8192, 8192},
                                           {"half", 208, 2607560},
                                           {"bfloat16", 304, 337736},
                                           {"bfloat16", 7985, 339},
                                           {"half", 2000, 100000},
                                           {"float", 20552, 3656}})
        EXPECT_EQ(chosen(type, rows, cols), "transpose_tiled") << type << " " << rows << " x " << cols;
}

// What is done with the result hardly changes which tile is fast.
TEST_F(Choose, WisdomServesOtherEpilogues) {
    const Template skinny = hopper().find("gemm_skinny").for_target(hopper().target());
    WisdomEntry known;
    known.template_name = "gemm_skinny";
    known.values = skinny.variant({{"WARPS_K", 16}, {"UNROLL", 1}}).values();
    known.problem_values = problem_parameters(hopper(), skinny);
    known.sizes = {{"m", 1}, {"n", 4096}, {"k", 4096}};
    known.device = "NVIDIA H200";
    known.arch = "sm_90a";
    known.median_ms = 0.004;  // shorter than what the model expects of any other
    known.digest = template_digest(skinny);
    known.date = "2026-01-01T00:00:00Z";
    const Chooser chooser(hopper(), wisdom({known}));
    const auto chosen_for = [&](const Values& fixed) { return chooser.choose(skinny, fixed, known.sizes); };
    EXPECT_EQ(chosen_for({{"T", "half"}}).origin, ChoiceOrigin::wisdom);
    const Choice linear = chosen_for({{"T", "half"}, {"OUT", "half"}, {"BIAS", 1}, {"ACTIVATION", 2}});
    EXPECT_EQ(linear.origin, ChoiceOrigin::nearest);
    EXPECT_EQ(linear.variant.value("WARPS_K"), Value(16));
    EXPECT_EQ(linear.variant.value("OUT"), Value("half"));
    EXPECT_EQ(linear.variant.value("BIAS"), Value(1));
    EXPECT_EQ(chosen_for({{"T", "bfloat16"}}).origin, ChoiceOrigin::model) << "it reads other types";
    EXPECT_EQ(chosen_for({{"TRANS_B", false}}).origin, ChoiceOrigin::model) << "and another layout";
}

TEST_F(Choose, ShortRowsShareBlocks) {
    const Chooser chooser(hopper(), Wisdom());
    const auto chosen_for = [&](const char* name, const Values& fixed, const Sizes& sizes) {
        const Choice choice = chooser.choose(hopper().find(name), fixed, sizes);
        EXPECT_EQ(choice.origin, ChoiceOrigin::model);
        return choice.variant;
    };
    const auto number = [](const Variant& variant, const char* parameter) {
        return variant.value(parameter).as_int();
    };
    for (const char* name : {"softmax", "layer_norm", "rms_norm"}) {
        for (const std::int64_t cols : {16, 77, 288}) {
            const Variant variant = chosen_for(name, {{"T", "half"}}, {{"rows", 1 << 20}, {"cols", cols}});
            SCOPED_TRACE(variant.text() + " for " + std::to_string(cols));
            EXPECT_GE(number(variant, "ROWS"), 4);
            const auto held =
                variant.model(variant.problem({{"rows", 1 << 20}, {"cols", cols}}).sizes).row_capacity;
            EXPECT_GE(held, cols) << "the row is read once";
            EXPECT_LE(held, 8 * cols);
            if (!variant.value("ANY_ROWS").as_bool()) {
                EXPECT_EQ(cols % number(variant, "VEC"), 0);
            }
        }
        const Variant wide = chosen_for(name, {{"T", "float"}}, {{"rows", 200}, {"cols", 63936}});
        EXPECT_GE(number(wide, "THREADS") * number(wide, "CLUSTER"), 1024) << wide.text();
    }
    const Variant tall = chosen_for("column_sum", {{"T", "float"}}, {{"rows", 1000000}, {"cols", 64}});
    EXPECT_GE(number(tall, "SPLIT_ROWS"), 64) << tall.text();
}

TEST_F(Choose, ClustersShareRowsThatNoBlockHolds) {
    const Chooser chooser(hopper(), Wisdom());
    for (const char* name : {"softmax", "layer_norm", "rms_norm"}) {
        for (const std::int64_t cols : {77, 1000, 4096, 16384, 110560, 202104, 262144}) {
            const Values fixed = {{"T", cols % 2 == 0 ? "float" : "half"}};
            const std::int64_t rows =
                (1 << 26) / cols;  // of few short rows any variant takes what the launch takes
            const Variant variant =
                chooser.choose(hopper().find(name), fixed, {{"rows", rows}, {"cols", cols}}).variant;
            SCOPED_TRACE(variant.text() + " for " + std::to_string(cols));
            const std::int64_t blocks = variant.value("CLUSTER").as_int();
            if (cols <= 4096) {
                EXPECT_EQ(blocks, 1);
            }
            if (cols > 100000) {
                EXPECT_GT(blocks, 1);
            }
            const ModelFacts facts = variant.model(variant.problem({{"rows", rows}, {"cols", cols}}).sizes);
            EXPECT_GE(facts.row_capacity, cols) << "the row is read once";
        }
    }
}

// So few tiles of queries that most multiprocessors would have none; and so many that a join would only cost time.
TEST_F(Choose, BlocksShareTheKeysOfFewQueries) {
    const Chooser chooser(hopper(), Wisdom());
    const Values fixed = {{"T", "half"}, {"HEAD_DIM", 64}, {"CAUSAL", false}};
    const auto chosen_for = [&](const Sizes& sizes) {
        return chooser.choose(chooser.alternatives(hopper().find("attention_mma"), fixed), fixed, sizes)
            .variant;
    };
    for (const Sizes& few :
         {Sizes{{"batch", 8}, {"kv_heads", 2}, {"group", 4}, {"queries", 32}, {"keys", 29296}},
          Sizes{{"batch", 1}, {"kv_heads", 8}, {"group", 1}, {"queries", 1}, {"keys", 65536}}}) {
        const Variant variant = chosen_for(few);
        ASSERT_EQ(variant.template_name(), "attention_mma") << variant.text();
        EXPECT_GT(variant.value("SPLIT_KEYS").as_int(), 1) << variant.text();
    }
    const Sizes many = {{"batch", 4}, {"kv_heads", 16}, {"group", 1}, {"queries", 4096}, {"keys", 4096}};
    EXPECT_EQ(chosen_for(many).template_name(), "attention_wgmma");
    const Variant of_mma = chooser.choose(hopper().find("attention_mma"), fixed, many).variant;
    EXPECT_EQ(of_mma.value("SPLIT_KEYS"), Value(1));
}

TEST_F(Choose, WithoutWisdomTheModelChoosesQuicklyAndAlwaysTheSame) {
    const Chooser chooser(hopper(), Wisdom());
    const auto templates = chooser.alternatives(hopper().find("gemm_tiled"), {{"T", "half"}});
    const Sizes large = {{"m", 4096}, {"n", 4096}, {"k", 4096}};
    const Choice first = chooser.choose(templates, {{"T", "half"}}, large);
    EXPECT_EQ(first.origin, ChoiceOrigin::model);
    EXPECT_EQ(first.variant.template_name(), "gemm_wgmma");
    double best_ms = 1e9;
    for (int i = 0; i < 5; ++i) {
        // Of the processor: on a busy machine a clock on the wall says little.
        const std::clock_t start = std::clock();
        const Choice again = chooser.choose(templates, {{"T", "half"}}, large);
        best_ms = std::min(best_ms, 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
        EXPECT_EQ(again.variant, first.variant);
    }
#ifdef NDEBUG
    EXPECT_LT(best_ms, 10);
#endif
    // Odd rows are no TMA's: another template serves.
    const Choice odd = chooser.choose(templates, {{"T", "half"}}, {{"m", 1000}, {"n", 999}, {"k", 333}});
    EXPECT_NE(odd.variant.template_name(), "gemm_wgmma");
    EXPECT_NO_THROW(static_cast<void>(odd.variant.problem({{"m", 1000}, {"n", 999}, {"k", 333}})));
    // Small products want small tiles: more blocks than a few.
    const Sizes small = {{"m", 512}, {"n", 512}, {"k", 512}};
    const Choice tiny = chooser.choose(hopper().find("gemm_buffered"), {{"T", "float"}}, small);
    EXPECT_GE(grid_of(tiny.variant, small).count(), 64U);
    EXPECT_THROW(static_cast<void>(chooser.choose(hopper().find("gemm_wgmma"), {}, {{"n", 7}})),
                 VariantError);
}

/// An entry of gemm_wgmma on an H200, with the time that the model estimates.
WisdomEntry wgmma_entry(const Values& values, const Sizes& sizes) {
    const Template of = hopper().find("gemm_wgmma");
    const Variant variant = of.variant(values);
    WisdomEntry entry;
    entry.template_name = "gemm_wgmma";
    entry.values = variant.values();
    entry.problem_values = {"T"};
    entry.sizes = sizes;
    entry.device = "NVIDIA H200";
    entry.arch = "sm_90a";
    const Machine machine(hopper().target(), "");
    entry.median_ms = Model(machine).ms(variant, variant.problem(sizes)).value();
    entry.digest = template_digest(of);
    entry.date = "2026-11-22T00:00:00Z";
    return entry;
}

TEST_F(Choose, NearWisdomIsUsedWhereTheModelAgrees) {
    const WisdomEntry entry =
        wgmma_entry({{"BM", 128}, {"BN", 256}, {"CLUSTER_M", 2}}, {{"m", 4096}, {"n", 4096}, {"k", 4096}});
    const Chooser chooser(hopper(), wisdom({entry}));
    const Template of = hopper().find("gemm_wgmma");
    const Choice alike = chooser.choose(of, {}, {{"m", 4096}, {"n", 4096}, {"k", 4000}});
    EXPECT_EQ(alike.origin, ChoiceOrigin::nearest);
    EXPECT_EQ(alike.variant.values(), entry.values);
    // As near in doublings, but its 8 tiles would leave most of the device idle.
    const Sizes small = {{"m", 512}, {"n", 512}, {"k", 4096}};
    const Choice other = chooser.choose(of, {}, small);
    EXPECT_EQ(other.origin, ChoiceOrigin::model);
    EXPECT_LT(other.variant.value("BM").as_int() * other.variant.value("BN").as_int(), 128 * 256);
}

TEST_F(Choose, MeasuredTimesOfNearSizesCorrectTheModel) {
    // What was measured is far slower than the model says, so another template is taken for near sizes.
    WisdomEntry slow = wgmma_entry({}, {{"m", 2048}, {"n", 2048}, {"k", 2048}});
    slow.median_ms *= 1000;
    const std::vector<Template> templates = {hopper().find("gemm_wgmma"), hopper().find("gemm_mma")};
    const Sizes sizes = {{"m", 2048}, {"n", 2048}, {"k", 2040}};
    EXPECT_EQ(Chooser(hopper(), Wisdom()).choose(templates, {}, sizes).variant.template_name(), "gemm_wgmma");
    EXPECT_EQ(Chooser(hopper(), wisdom({slow})).choose(templates, {}, sizes).variant.template_name(),
              "gemm_mma");
}

// The shipped wisdom has a variant of gemm_skinny whose blocks give each multiprocessor of an H200 two for 1 x 16384 x 4096.
// Here most would have one, so that it may win by the model's estimate only.
TEST_F(Choose, WhatFillsLessOfTheDeviceHereIsNotTakenForItsTimeElsewhere) {
    const Values fixed = {{"T", "bfloat16"}, {"TRANS_B", false}};
    const Chooser chooser(hopper(), Wisdom::shipped(), "NVIDIA H200");
    const auto templates = chooser.alternatives(hopper().find("gemm_tiled"), fixed);
    EXPECT_EQ(chooser.choose(templates, fixed, {{"m", 3}, {"n", 9760}, {"k", 4112}}).origin,
              ChoiceOrigin::model);
}

// Small problems want few rows of a block and warps to share k, and rows at any element other accesses.
TEST_F(Choose, FewRowsGetVariantsThatDefaultsAreFarFrom) {
    const Chooser chooser(hopper(), Wisdom(), "NVIDIA H200");
    const Template skinny = hopper().find("gemm_skinny");
    const auto chosen = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
        return chooser.choose(skinny, {{"TRANS_B", true}}, {{"m", m}, {"n", n}, {"k", k}}).variant;
    };
    EXPECT_EQ(chosen(4, 16, 402).value("BM"), Value(8));
    EXPECT_EQ(chosen(4, 16, 402).value("ANY"), Value(true));
    EXPECT_EQ(chosen(4, 16, 400).value("ANY"), Value(false));
    EXPECT_GT(chosen(22, 32, 8768).value("WARPS_K").as_int(), 8);
}

TEST_F(Choose, WhatIsConsideredBeginsWithWhatIsTaken) {
    const Chooser chooser(hopper(), Wisdom());
    const auto templates = chooser.alternatives(hopper().find("gemm_tiled"), {{"T", "half"}});
    const Sizes sizes = {{"m", 1024}, {"n", 1024}, {"k", 1024}};
    const Choice choice = chooser.choose(templates, {{"T", "half"}}, sizes);
    const auto list = chooser.considered(templates, {{"T", "half"}}, sizes, 5);
    ASSERT_EQ(list.size(), 5U);
    EXPECT_EQ(list[0].variant, choice.variant);
    for (std::size_t i = 0; i < list.size(); ++i) {
        EXPECT_THAT(list[i].reason, AllOf(HasSubstr("bound by"), HasSubstr("waves"))) << i;
        EXPECT_GE(list[i].ms, list[i == 0 ? 0 : i - 1].ms) << i;
    }
    EXPECT_GT(chooser.considered(templates, {{"T", "half"}}, sizes, 1000).size(), 50U);
    // An entry for these very sizes is taken, and told as what was measured.
    const WisdomEntry entry = wgmma_entry({{"BM", 64}}, sizes);
    const auto known = Chooser(hopper(), wisdom({entry})).considered(templates, {{"T", "half"}}, sizes, 3);
    EXPECT_EQ(known[0].origin, ChoiceOrigin::wisdom);
    EXPECT_EQ(known[0].ms, entry.median_ms);
    EXPECT_THAT(known[0].reason, HasSubstr("measured on 2026-11-22"));
}

TEST_F(Choose, OfSeveralTemplatesTheFasterEntryWins) {
    WisdomEntry wgmma;
    wgmma.template_name = "gemm_wgmma";
    wgmma.values = hopper().find("gemm_wgmma").variant().values();
    wgmma.problem_values = {"T"};
    wgmma.sizes = {{"m", 256}, {"n", 256}, {"k", 256}};
    wgmma.device = "NVIDIA H200";
    wgmma.arch = "sm_90a";
    wgmma.median_ms = 0.010;
    wgmma.digest = template_digest(hopper().find("gemm_wgmma"));
    wgmma.date = "2026-11-22T00:00:00Z";
    WisdomEntry tiled = wgmma;
    tiled.template_name = "gemm_tiled";
    tiled.values = hopper().find("gemm_tiled").variant({{"BM", 32}}).values();
    tiled.digest = template_digest(hopper().find("gemm_tiled"));
    tiled.median_ms = 0.009;
    const std::vector<Template> templates = {hopper().find("gemm_wgmma"), hopper().find("gemm_tiled")};
    const Choice choice = Chooser(hopper(), wisdom({wgmma, tiled})).choose(templates, {}, wgmma.sizes);
    EXPECT_EQ(choice.variant.template_name(), "gemm_tiled");
    EXPECT_EQ(choice.variant.value("BM"), Value(32));
    // One of an older text of its template competes with its time.
    tiled.digest = "0000000000000000";
    const auto chosen = [&] {
        return Chooser(hopper(), wisdom({wgmma, tiled})).choose(templates, {}, wgmma.sizes);
    };
    EXPECT_EQ(chosen().variant.template_name(), "gemm_tiled");
    EXPECT_TRUE(chosen().stale);
    tiled.median_ms = 0.011;
    EXPECT_EQ(chosen().variant.template_name(), "gemm_wgmma");
    tiled.median_ms = wgmma.median_ms;
    EXPECT_FALSE(chosen().stale) << "of two that are alike the one that is known to be of today's text";
    // Near entries: the same.
    tiled.sizes = wgmma.sizes = {{"m", 256}, {"n", 256}, {"k", 512}};
    tiled.median_ms = 0.001;
    const Choice near =
        Chooser(hopper(), wisdom({wgmma, tiled})).choose(templates, {}, {{"m", 256}, {"n", 256}, {"k", 256}});
    EXPECT_EQ(near.origin, ChoiceOrigin::nearest);
    EXPECT_EQ(near.variant.template_name(), "gemm_tiled");
    // What is not legal any more does not count.
    tiled.values.insert_or_assign("BM", 48);
    EXPECT_EQ(chosen().variant.template_name(), "gemm_wgmma");
}

}  // namespace
}  // namespace kiln::test
