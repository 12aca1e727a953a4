// SPDX-License-Identifier: Apache-2.0
//
// Which problem is run, and what is rejected before anything runs.
#include "rejected.h"
#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunProblem : public Run {
  protected:
    /// The TemplateError that a run of the doubling template with this reference ends in.
    std::string refused_reference(const std::string& reference) {
        if (!reference.empty()) add_template("doubling_reference", reference);
        return rejected<TemplateError>([&] { run(doubling(kRight), once()); });
    }
};

TEST_F(RunProblem, SizesAreTheDeclaredOnesUnlessGiven) {
    RunOptions options = once();
    EXPECT_EQ(run_doubling(kRight, options).problem.sizes.at("n"), 1000);
    options.test_sizes = true;
    EXPECT_EQ(run_doubling(kRight, options).problem.sizes.at("n"), 97);
    for (const std::int64_t n : {1, 2, 31, 32, 33, 997}) {
        const RunResult result = run_doubling(kRight, once({{"n", n}}));
        EXPECT_TRUE(result.pass()) << n;
        EXPECT_EQ(result.outputs_checked[0].checked, static_cast<std::uint64_t>(n));
    }
}

TEST_F(RunProblem, WrongSizesAreRejected) {
    add_doubling_reference();
    const auto refused = [&](Sizes sizes) {
        return rejected<VariantError>([&] { run(doubling(kRight), once(std::move(sizes))); });
    };
    EXPECT_THAT(refused({{"m", 3}}), HasSubstr("m"));
    EXPECT_THAT(refused({{"n", -1}}), HasSubstr("-1"));
    EXPECT_THAT(refused({{"n", -5}}), HasSubstr("-5"));
    EXPECT_THAT(refused({{"n", std::int64_t{1} << 40}}), HasSubstr("1099511627776"));
}

TEST_F(RunProblem, MoreThanTheMemoryHasIsRejectedBeforeItIsTaken) {
    add_template("doubling_reference",
                 reference_template("doubling_reference", "const float* x", "expected[i] = bound[i] = 0;"));
    const std::string text = line_template(
        "//@ size n = 10\n//@ input x [n, 1000000]\n//@ output y [n, 1000000] by doubling_reference\n",
        "long long n, const float* x, float* y", "");
    EXPECT_THAT(rejected<UsageError>([&] {
                    run(text, once({{"n", 1000000000}}));
                }),
                AllOf(HasSubstr("n=1000000000 needs 12000000"), HasSubstr("x 3.6 PiB, y 3.6 PiB"),
                      HasSubstr("this machine has"), HasSubstr("Give smaller sizes")));
}

TEST_F(RunProblem, ATemplateWithoutAProblemIsRejected) {
    EXPECT_THAT(
        rejected<VariantError>([&] { run(line_template("", "int n, float* data", "data[i] = 0;"), once()); }),
        AllOf(HasSubstr("tested"), HasSubstr("data")));
}

TEST_F(RunProblem, AMissingReferenceIsRejected) {
    EXPECT_THAT(refused_reference({}), AllOf(HasSubstr("tested.cu:8:"), HasSubstr("output y"),
                                             HasSubstr("there is no template 'doubling_reference'")));
}

TEST_F(RunProblem, AReferenceThatLacksAnArgumentIsRejected) {
    EXPECT_THAT(
        refused_reference(
            reference_template("doubling_reference", "const float* z", "expected[i] = bound[i] = 0;")),
        AllOf(HasSubstr("doubling_reference can't be the reference of tested"),
              HasSubstr(
                  "its argument z is neither an input nor an inout of the tested template; those are x")));
}

TEST_F(RunProblem, AReferenceMayNotReadAnOutput) {
    EXPECT_THAT(refused_reference(reference_template("doubling_reference", "const float* y",
                                                     "expected[i] = bound[i] = 0;")),
                HasSubstr("its argument y is neither"));
}

TEST_F(RunProblem, AReferenceThatLacksASizeIsRejected) {
    EXPECT_THAT(
        refused_reference(reference_template("doubling_reference", "int m", "expected[i] = bound[i] = 0;")),
        HasSubstr("its argument m is not a size of the tested template; its sizes are n"));
}

TEST_F(RunProblem, AReferenceOfAnotherTypeIsRejected) {
    EXPECT_THAT(refused_reference(reference_template("doubling_reference", "const kiln::half* x",
                                                     "expected[i] = bound[i] = 0;")),
                HasSubstr("its argument x has elements of half, and those of the tested template are float"));
}

TEST_F(RunProblem, AReferenceWithOtherFirstArgumentsIsRejected) {
    EXPECT_THAT(refused_reference(
                    line_template("//@ backend host\n", "int n, const float* x", "", "doubling_reference")),
                HasSubstr("begin with (long long count"));
}

TEST_F(RunProblem, SeedsGiveEqualInputs) {
    add_doubling_reference();
    RunOptions options = once();
    options.keep_results = true;
    options.seed = 5;
    const auto outputs = run(doubling(kRight), options).outputs;
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_EQ(outputs[0].first, "y");
    EXPECT_EQ(outputs[0].second.size(), 4000U);
    EXPECT_EQ(run(doubling(kRight), options).outputs, outputs);
    options.seed = 6;
    EXPECT_NE(run(doubling(kRight), options).outputs, outputs);
}

TEST_F(RunProblem, TheNaiveTemplateTakesTheSameValues) {
    add_template("slow",
                 line_template("//@ param T type in half, float = half\n//@ size n = 5\n//@ input x [n]\n"
                               "//@ output y [n]\n",
                               "int n, const T* x, T* y", "if (i < n) y[i] = x[i];", "slow"));
    const std::string declarations =
        "//@ param T type in half, float = half\n//@ param WIDE int in 1, 2 = 1\n"
        "//@ size n = 5\n//@ input x [n]\n//@ output y [n]\n";
    const std::string body = "if (i < n) y[i] = x[i];", arguments = "int n, const T* x, T* y";
    Runner runner(service());
    const auto naive = runner.naive(parsed(line_template(declarations + "//@ naive slow\n", arguments, body),
                                           {{"T", "float"}, {"WIDE", 2}}));
    ASSERT_TRUE(naive.has_value());
    EXPECT_EQ(naive->text(), "slow T=float");
    EXPECT_FALSE(runner.naive(parsed(line_template(declarations, arguments, body))).has_value());
}

TEST_F(RunProblem, ABuiltKernelCanBeRunToo) {
    add_doubling_reference();
    Runner runner(service());
    const AnyKernel kernel = service().build(parsed(doubling(kRight)));
    EXPECT_TRUE(runner.run(kernel, once()).pass());
}

TEST_F(RunProblem, PhasesAreReported) {
    add_doubling_reference();
    std::vector<std::string> phases;
    RunOptions options;
    options.iterations = 1;
    options.on_phase = [&](std::string_view phase) { phases.emplace_back(phase); };
    run(doubling(kRight), options);
    EXPECT_THAT(phases, ElementsAre("building", "filling", "running", "checking",  //
                                    "filling", "running", "checking", "filling", "timing", "checking"));
}

// By the phase a message about the time limit says what was going on.
TEST_F(RunProblem, PhasesOfASecondLaunchAreReported) {
    add_doubling_reference();
    std::vector<std::string> phases;
    RunOptions options = once();
    options.on_phase = [&](std::string_view phase) { phases.emplace_back(phase); };
    run(doubling(kRight), options);
    EXPECT_THAT(phases, ElementsAre("building", "filling", "running", "checking",  //
                                    "filling", "running", "checking", "filling", "running", "checking"));
}

TEST_F(RunProblem, LaunchesAreTimedWithAColdCacheToo) {
    add_doubling_reference();
    RunOptions options;
    options.cold_l2 = true;
    options.iterations = 2;
    options.warm_up = 1;
    const RunResult result = run(doubling(kRight), options);
    EXPECT_TRUE(result.pass());
    EXPECT_EQ(result.time->iterations, 2);
    EXPECT_GE(result.time->max_ms, result.time->min_ms);
}

TEST_F(RunProblem, ReplaysOfAGraphAreTimedToo) {
    add_doubling_reference();
    RunOptions options;
    options.iterations = 2;
    EXPECT_FALSE(run(doubling(kRight), options).graph_time.has_value());
    options.graph = true;
    const RunResult result = run(doubling(kRight), options);
    EXPECT_TRUE(result.pass());
    ASSERT_TRUE(result.graph_time.has_value());
    EXPECT_EQ(result.graph_time->iterations, 3);  // replays
    EXPECT_GT(result.graph_time->min_ms, 0);
}

TEST_F(RunProblem, EveryElementTypeCanBeRun) {
    add_template("copy_reference",
                 reference_template(
                     "copy_reference", "const T* x", "expected[i] = kiln::wide(x[e]);\n    bound[i] = 0;",
                     "//@ param T type in half, bfloat16, float, double, bool, int8_t, uint8_t, "
                     "int16_t, uint16_t, int, unsigned = half\n"));
    const std::string text = line_template(
        "//@ param T type in half, bfloat16, float, double, bool, int8_t, uint8_t, int16_t, uint16_t, int, "
        "unsigned = "
        "half\n//@ size n = 70\n//@ input x [n] in 0..1\n//@ output y [n] by copy_reference exact\n",
        "int n, const T* x, T* y", "if (i < n) y[i] = x[i];");
    for (const char* type : {"half", "bfloat16", "float", "double", "bool", "int8_t", "uint8_t", "int16_t",
                             "uint16_t", "int", "unsigned"}) {
        const RunResult result = run(text, once(), {{"T", type}});
        EXPECT_THAT(result.failures(), ::testing::IsEmpty()) << type;
        EXPECT_EQ(result.outputs_checked[0].checked, 70U) << type;
    }
}

}  // namespace
}  // namespace kiln::test
