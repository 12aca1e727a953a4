// SPDX-License-Identifier: Apache-2.0
//
// Outputs declared `any_order`: bits may differ from launch to launch, and each launch is held to the reference.
#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunAnyOrder : public Run {
  protected:
    void SetUp() override {
        add_template("total_reference",
                     reference_template("total_reference", "const float* x, int n",
                                        "double total = 0, magnitude = 0;\n"
                                        "    for (int j = 0; j < n; ++j) {\n"
                                        "        total += x[j] / 3.0;\n"
                                        "        magnitude += x[j] < 0 ? -x[j] / 3.0 : x[j] / 3.0;\n    }\n"
                                        "    expected[i] = total;\n"
                                        "    bound[i] = kiln::gamma<float>(n + 1) * magnitude;"));
    }

    /// y = the sum of x, which a block adds up by atomic operations; `before_store` keeps them before the store.
    static std::string adding(const std::string& words, const std::string& before_store = "__syncthreads();",
                              const std::string& store = "total") {
        return line_template("//@ size n = 31\n//@ input x [n]\n//@ output y [1] by total_reference" + words +
                                 "\n//@ scratch z [1]\n",
                             "int n, const float* x, float* y, float* z",
                             "__shared__ float total;\n    if (i == 0) total = 0;\n    __syncthreads();\n"
                             "    if (i < n) atomicAdd(&total, x[i] / 3);\n    " +
                                 before_store + "\n    if (i == 31) {\n        y[0] = " + store +
                                 ";\n        z[0] = 0;\n    }");
    }

    RunResult run_timed(const std::string& text, bool timed) {
        RunOptions options = once();
        options.time = timed;
        options.iterations = 2;
        return run(text, options);
    }
};

TEST_F(RunAnyOrder, OtherBitsFailUnlessTheyAreAllowed) {
    for (const bool timed : {false, true}) {
        const RunResult other = run_timed(adding(""), timed);
        EXPECT_THAT(other.unstable, ElementsAre("y"));
        EXPECT_THAT(other.failures(), ElementsAre(HasSubstr("`any_order`")));
        EXPECT_THAT(run_timed(adding(" any_order"), timed).failures(), IsEmpty());
    }
}

TEST_F(RunAnyOrder, ALaterLaunchBeyondTheBoundIsFound) {
    const RunResult unordered = run_timed(adding(" any_order", ""), false);
    ASSERT_EQ(unordered.outputs_checked.size(), 1U);
    EXPECT_EQ(unordered.outputs_checked[0].wrong, 1U);
    EXPECT_TRUE(unordered.outputs_checked[0].later_launch);
    EXPECT_THAT(unordered.failures(), ElementsAre(HasSubstr("after a later launch on the same inputs")));
    // What the launch before has left in scratch is read.
    for (const bool timed : {false, true}) {
        const RunResult again =
            run_timed(adding(" any_order", "__syncthreads();", "z[0] == 0 ? 2 : total"), timed);
        EXPECT_THAT(again.failures(), ElementsAre(HasSubstr("after a later launch on the same inputs")));
    }
}

TEST_F(RunAnyOrder, AFirstLaunchBeyondItIsNoLaterOne) {
    const RunResult wrong = run_timed(adding(" any_order", "__syncthreads();", "2 * total"), false);
    ASSERT_EQ(wrong.outputs_checked.size(), 1U);
    EXPECT_EQ(wrong.outputs_checked[0].wrong, 1U);
    EXPECT_FALSE(wrong.outputs_checked[0].later_launch);
}

}  // namespace
}  // namespace kiln::test
