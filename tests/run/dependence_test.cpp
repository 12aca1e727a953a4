// SPDX-License-Identifier: Apache-2.0
//
// Results that depend on what outputs or scratch held before the launch are found, whatever hides a NaN there: maxima, minima and
// comparisons are those of the other operand.
#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunDependence : public Run {
  protected:
    void SetUp() override {
        add_template("copy_reference",
                     reference_template("copy_reference", "const float* x",
                                        "expected[i] = kiln::wide(x[e]);\n    bound[i] = 0;"));
        add_template("extreme_reference",
                     reference_template("extreme_reference", "const int* x, int n",
                                        "expected[i] = kiln::wide(x[0]);\n    for (int j = 1; j < n; ++j)\n"
                                        "        if (LARGEST ? x[j] > expected[i] : x[j] < expected[i]) "
                                        "expected[i] = x[j];\n    bound[i] = 0;",
                                        "//@ param LARGEST bool = false\n"));
    }

    /// What the results depend on, without and with timed launches, which must agree.
    std::vector<Dependence> dependent(const std::string& text, const Values& values = {}) {
        std::vector<Dependence> found;
        for (const bool time : {false, true}) {
            RunOptions options = once();
            options.time = time;
            options.iterations = 2;
            const RunResult result = run(text, options, values);
            EXPECT_THAT(result.unstable, IsEmpty()) << time;
            for (const OutputCheck& check : result.outputs_checked)
                EXPECT_EQ(check.wrong + check.unwritten, 0U) << time;
            EXPECT_EQ(result.pass(), result.dependent.empty());
            if (time) {
                EXPECT_EQ(result.dependent, found);
            }
            found = result.dependent;
        }
        return found;
    }

    /// y = x, by `body`.
    static std::string copying(const std::string& body, const std::string& type = "float",
                               const std::string& scratch = "") {
        return line_template("//@ size n = 100\n//@ input x [n]\n//@ output y [n] by copy_reference\n" +
                                 (scratch.empty() ? "" : "//@ scratch z " + scratch + "\n"),
                             "int n, const float* x, " + type + "* y" + (scratch.empty() ? "" : ", float* z"),
                             body);
    }
};

const Dependence kOnItself{"y", "y"}, kOnScratch{"y", "z"};

TEST_F(RunDependence, AMaximumOrMinimumWithTheOutputIsFound) {
    for (const char* body :
         {"if (i < n) y[i] = fmaxf(y[i], x[i]);", "if (i < n) y[i] = fminf(y[i], x[i]);",
          "if (i < n) y[i] = max(y[i], x[i]);", "if (i < n && !(y[i] >= x[i])) y[i] = x[i];",
          "if (i < n && !(y[i] <= x[i])) y[i] = x[i];",
          // One element only, the last.
          "if (i < n - 1) y[i] = x[i]; else if (i < n) y[i] = fminf(y[i], x[i]);"})
        EXPECT_THAT(dependent(copying(body)), ElementsAre(kOnItself)) << body;
    EXPECT_THAT(dependent(copying("if (i < n) y[i] = x[i];")), IsEmpty());
}

// In the usual order each thread takes the place of its own index, and so meets only what it wrote itself.
TEST_F(RunDependence, OnTheOrderOfThreadsIsFound) {
    for (const bool right : {true, false})
        for (const bool time : {false, true}) {
            RunOptions options = once();
            options.time = time;
            options.iterations = 2;
            const std::string barrier = right ? " __syncthreads();" : "";
            const RunResult result = run(
                copying("__shared__ int places[32], many; if (threadIdx.x == 0) many = 0; __syncthreads(); "
                        "places[atomicAdd(&many, 1)] = i;" +
                        barrier +
                        " const int at = places[threadIdx.x]; if (at >= 0 && at < n) y[at] = x[at];"),
                options);
            EXPECT_EQ(result.pass(), right) << time;
            for (const OutputCheck& check : result.outputs_checked) EXPECT_EQ(check.wrong, 0U) << time;
        }
}

// With one block and with many, whatever hides a NaN there. The inputs are such that the zeros which a first block finds are right.
TEST_F(RunDependence, OnSharedMemoryThatNobodyInitialisedIsFound) {
    using Texts = std::pair<std::string, std::string>;
    for (const auto& [of, type] : {Texts{"fmaxf", "float"},
                                   {"fminf", "float"},
                                   {"fmax", "double"},
                                   {"fmin", "double"},
                                   {"max", "int"},
                                   {"min", "int"},
                                   {"max", "long long"},
                                   {"min", "long long"}})
        for (const std::string n : {"20", "4000"})
            for (const bool right : {true, false}) {
                std::string text =
                    copying("__shared__ " + type + " seen;\n    " +
                            (right ? "if (threadIdx.x == 0) seen = 0;\n    __syncthreads();\n    "
                                   : "if (n < 0) seen = 0;\n    ") +
                            "if (i < n) y[i] = " + of + "((" + type + ")x[i], seen);");
                text.replace(text.find("n = 100"), 7, "n = " + n);
                text.replace(text.find("x [n]"), 5,
                             of.find("max") != of.npos ? "x [n] in 1..9" : "x [n] in -9..-1");
                RunOptions options = once();
                options.data = Data::integers;
                const RunResult result = run(text, options);
                EXPECT_EQ(result.pass(), right) << of << " of " << n << " " << type;
            }
}

// Four sums side by side would lie in one register, which is zero in most cases.
TEST_F(RunDependence, OnSumsThatNobodyBeganIsFound) {
    for (const std::string begin : {" = {}", ""})
        for (const std::string sums : {"float part[4]", "float4 part"}) {
            std::string body = sums + begin + ";\n    for (int j = 0; j < n; ++j) ";
            body += sums.ends_with(']')
                        ? "for (int k = 0; k < 4; ++k) part[k] += x[j];"
                        : "{ part.x += x[j]; part.y += x[j]; part.z += x[j]; part.w += x[j]; }";
            body += sums.ends_with(']') ? "\n    const float sum = part[0] + part[1] + part[2] + part[3];"
                                        : "\n    const float sum = part.x + part.y + part.z + part.w;";
            body += "\n    if (i < n) y[i] = sum > -1e30f ? x[i] : sum;";
            EXPECT_EQ(run(copying(body), once()).pass(), !begin.empty()) << sums;
        }
}

TEST_F(RunDependence, SoItIsInOtherTypes) {
    EXPECT_THAT(dependent(copying("if (i < n) y[i] = fmax(y[i], double(x[i]));", "double")),
                ElementsAre(kOnItself));
    for (const std::string type : {"kiln::half", "kiln::bfloat16"})
        for (const std::string of : {"fmaxf", "fminf"})
            EXPECT_THAT(
                dependent(copying("if (i < n) y[i] = " + type + "(" + of + "(float(y[i]), x[i]));", type)),
                ElementsAre(kOnItself))
                << type << of;
}

TEST_F(RunDependence, ExtremesOfIntegersAreFound) {
    const auto text = [](const std::string& type, const std::string& range) {
        return line_template(
            "//@ param LARGEST bool = false\n//@ size n = 100\n//@ input x [n] in " + range +
                "\n//@ output y [1] by extreme_reference\n",
            "int n, const int* x, " + type + "* y",
            "if (i >= n) return;\n    if (LARGEST) atomicMax(y, x[i]); else atomicMin(y, x[i]);");
    };
    // The other extremes are wrong at once, with the first poison.
    EXPECT_THAT(dependent(text("int", "0..100"), {{"LARGEST", true}}), ElementsAre(kOnItself));
    EXPECT_THAT(dependent(text("unsigned", "1..100"), {{"LARGEST", false}}), ElementsAre(kOnItself));
    EXPECT_THAT(dependent(text("unsigned long long", "1..100"), {{"LARGEST", false}}),
                ElementsAre(kOnItself));
}

TEST_F(RunDependence, AMaximumOrMinimumWithScratchIsFound) {
    for (const std::string of : {"fmaxf", "fminf"}) {
        const std::string body = "if (i < n) { z[i] = " + of + "(z[i], x[i]); y[i] = z[i]; }";
        EXPECT_THAT(dependent(copying(body, "float", "[n]")), ElementsAre(kOnScratch)) << of;
    }
    const std::string right = "if (i < n) { z[i] = x[i]; y[i] = fmaxf(z[i], x[i]); }";
    EXPECT_THAT(dependent(copying(right, "float", "[n]")), IsEmpty());
    // What is zero before the launch stays so.
    const std::string zeroed =
        "if (i < n) { y[i] = fmaxf(z[i], fabsf(x[i])) == fabsf(x[i]) ? x[i] : 7; z[i] = 0; }";
    EXPECT_THAT(dependent(copying(zeroed, "float", "[n] = 0")), IsEmpty());
}

TEST_F(RunDependence, AnInoutIsAnInput) {
    add_template(
        "limit_reference",
        reference_template("limit_reference", "const float* x, const float* y",
                           "expected[i] = kiln::wide(x[e] > y[e] ? x[e] : y[e]);\n    bound[i] = 0;"));
    const auto text = [](const std::string& scratch, const std::string& body) {
        return line_template(
            "//@ size n = 100\n//@ input x [n]\n//@ inout y [n] by limit_reference\n" + scratch,
            std::string("int n, const float* x, float* y") + (scratch.empty() ? "" : ", float* z"), body);
    };
    EXPECT_THAT(dependent(text("", "if (i < n) y[i] = fmaxf(y[i], x[i]);")), IsEmpty());
    EXPECT_THAT(dependent(text("//@ scratch z [n]\n",
                               "if (i < n) { z[i] = fminf(z[i], x[i]); y[i] = fmaxf(y[i], z[i]); }")),
                ElementsAre(kOnScratch));
}

TEST_F(RunDependence, TheMessageNamesResultAndTensor) {
    EXPECT_THAT(
        run(copying("if (i < n) y[i] = fmaxf(y[i], x[i]);"), once()).failures(),
        ElementsAre("y depends on what it held before the launch: the kernel reads elements of y that it has "
                    "not written."));
    EXPECT_THAT(
        run(copying("if (i < n) { z[i] = fmaxf(z[i], x[i]); y[i] = z[i]; }", "float", "[n]"), once())
            .failures(),
        ElementsAre(HasSubstr("y depends on what z held before the launch: the kernel reads elements of z")));
}

// Also where few elements are compared, and where the reference gives an infinite bound.
TEST_F(RunDependence, WhatIsNeverWrittenIsReportedAsThat) {
    add_template(
        "copy_reference",
        reference_template("copy_reference", "const float* x",
                           "expected[i] = kiln::wide(x[e]);\n    bound[i] = e % 2 == 0 ? 0 : 1 / 0.0;"));
    RunOptions few = once();
    few.check = Check::sample;
    few.sample_elements = 10;
    for (const RunOptions& options : {once(), few}) {
        const RunResult result = run(copying("if (i < n && i % 2 == 0) y[i] = x[i];"), options);
        EXPECT_THAT(result.failures(), ElementsAre("50 of 100 elements of y were never written."));
    }
}

// Such results differ whatever the tensors held.
TEST_F(RunDependence, ResultsThatDifferAnywayDependOnNothing) {
    const std::string text =
        line_template("//@ size n = 100\n//@ input x [n]\n//@ output y [n] by copy_reference\n",
                      "int n, const float* x, float* y",
                      "static int launches = 0;\n    if (i == 0) ++launches;\n    __syncthreads();\n"
                      "    if (i < n) y[i] = x[i] + (launches > 1 && i == 0 ? launches : 0);");
    const RunResult result = run(text, once());
    EXPECT_THAT(result.dependent, IsEmpty());
    EXPECT_THAT(result.unstable, ElementsAre("y"));
}

}  // namespace
}  // namespace kiln::test
