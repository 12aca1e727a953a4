// SPDX-License-Identifier: Apache-2.0
//
// The `let` line: a constant of the source that all other lines may name.
#include <kiln/build.h>

#include "template_support.h"

namespace kiln {
namespace {

using test::cuda_target;
using test::expect_template_error;
using test::make;
using test::template_text;
using test::variant_error;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kPipeline =
    "//@ param PINGPONG bool = false\n"
    "//@ param BM int in 64, 128, 192 = 128\n"
    "//@ param T type in half, float = half\n"
    "//@ let CONSUMERS = PINGPONG ? 2 : BM / 64 \"warpgroups that multiply\"\n"
    "//@ let THREADS = 128 * (1 + CONSUMERS)\n"
    "//@ let WIDE = CONSUMERS > 2\n"
    "//@ let FAR = 3000000000 * CONSUMERS\n";

TEST(TemplateLet, IsAConstantOfTheSource) {
    const Variant variant = make(kPipeline).variant();
    EXPECT_THAT(variant.source(Backend::cuda).text, HasSubstr("using T = kiln::half;\n"
                                                              "constexpr int CONSUMERS = 2;\n"
                                                              "constexpr int THREADS = 384;\n"
                                                              "constexpr bool WIDE = false;\n"
                                                              "constexpr long long FAR = 6000000000;\n"
                                                              "#line 1 \"k.cu\"\n"));
    EXPECT_THAT(
        make(kPipeline).variant({{"BM", 192}}).source(Backend::host).text,
        AllOf(HasSubstr("constexpr int CONSUMERS = 3;\n"), HasSubstr("constexpr bool WIDE = true;\n")));
    EXPECT_EQ(variant.constants(),
              (Values{{"CONSUMERS", 2}, {"FAR", 6000000000LL}, {"THREADS", 384}, {"WIDE", false}}));
    EXPECT_EQ(variant.text(), "k PINGPONG=false BM=128 T=half") << "what follows from the values is none";
}

TEST(TemplateLet, IsANameForAllOtherLines) {
    const Template of =
        make(std::string(kPipeline) +
                 "//@ param STAGES int in 1..9 = WIDE ? 3 : HALF\n"
                 "//@ let HALF = 4 / 2\n"
                 "//@ size m = THREADS test CONSUMERS\n//@ size n = THREADS * 2 multiple CONSUMERS\n"
                 "//@ output c [THREADS, m]\n//@ flops THREADS * m\n"
                 "//@ require !WIDE || STAGES >= 3 \"wide ones need stages\"\n",
             "int m, int n, float* c",
             "//@ block THREADS\n//@ grid ceil_div(n, THREADS)\n//@ shared CONSUMERS * threads\n"
             "//@ opt_level WIDE ? 3 : 1\n");
    const Variant variant = of.for_target(cuda_target()).variant();
    EXPECT_EQ(variant.block().x, 384U);
    EXPECT_EQ(variant.dynamic_shared_bytes(), 2U * 384U);
    EXPECT_EQ(variant.opt_level(), 1);
    EXPECT_EQ(variant.value("STAGES"), Value(2));
    int m = 1, n = 1000;
    void* arguments[] = {&m, &n, &n};
    EXPECT_EQ(variant.grid(arguments).x, 3U);
    const Problem problem = variant.problem();
    EXPECT_EQ(problem.sizes, (Sizes{{"m", 384}, {"n", 768}}));
    EXPECT_THAT(problem.tensors.front().extents, ElementsAre(384, 384));
    EXPECT_EQ(problem.flops, 384 * 384);
    EXPECT_EQ(variant.problem({}, true).sizes.at("m"), 2);
    EXPECT_THAT(variant_error([&] {
                    static_cast<void>(variant.problem({{"n", 3}}));
                }),
                HasSubstr("must be a multiple of 2"));
    const Variant wide = of.variant({{"BM", 192}});
    EXPECT_EQ(wide.value("STAGES"), Value(3));
    EXPECT_THAT(variant_error([&] {
                    static_cast<void>(of.variant({{"BM", 192}, {"STAGES", 2}}));
                }),
                AllOf(HasSubstr("wide ones need stages"), HasSubstr("BM = 192"), HasSubstr("WIDE = true"),
                      HasSubstr("STAGES = 2")));
    std::size_t legal = 0;
    for (const Variant& one : of.variants())
        legal += one.constants().at("WIDE").as_bool() ? one.value("STAGES").as_int() >= 3 : 1;
    EXPECT_EQ(legal, of.variants().size());
}

TEST(TemplateLet, IsDescribed) {
    const Template of = make(kPipeline);
    ASSERT_EQ(of.constants().size(), 4U);
    const Constant& threads = of.constants()[1];
    EXPECT_EQ(threads.name, "THREADS");
    EXPECT_EQ(threads.expression, "128 * (1 + CONSUMERS)");
    EXPECT_THAT(threads.uses, ElementsAre("PINGPONG", "BM"));
    EXPECT_EQ(threads.line, 6);
    EXPECT_EQ(of.constants()[0].text, "warpgroups that multiply");
    EXPECT_TRUE(of.constants()[2].is_bool);
    EXPECT_THAT(variant_error([&] {
                    static_cast<void>(of.variant({{"THREADS", 64}}));
                }),
                AllOf(HasSubstr("THREADS is no parameter but a constant, 128 * (1 + CONSUMERS)"),
                      HasSubstr("PINGPONG or BM")));
}

TEST(TemplateLet, UsesWhatIsAboveIt) {
    expect_template_error(template_text("//@ let A = B + 1\n//@ let B = 2\n"), 2, 13,
                          "B can't be used here: the constant is declared on line 3");
    expect_template_error(template_text("//@ let A = A + 1\n"), 2, 13,
                          "a constant may use those above it only");
    expect_template_error(template_text("//@ param BM int in 1, 2 = 1\n//@ let A = BN\n"), 3, 13,
                          "BN is not known here; did you mean BM?");
    expect_template_error(template_text("//@ let A = threads / 32\n"), 2, 13, "lines that may use constants");
    expect_template_error(template_text("//@ let A = n\n"), 2, 13, "known only at launch");
    expect_template_error(template_text("//@ let A = device.multiprocessors\n"), 2, 13,
                          "can't depend on the device");
    // A default and a constant that need each other.
    expect_template_error(template_text("//@ param P int in 1..9 = A\n//@ let A = P\n"), 2, 27,
                          "the default of P depends on itself");
}

TEST(TemplateLet, IsAnIntegerOrABoolean) {
    expect_template_error(template_text("//@ param T type in half, float = half\n//@ let U = T\n"), 3, 13,
                          "T is a type");
    expect_template_error(template_text("//@ param F float = 1\n//@ let G = F\n"), 3, 13, "F is a float");
    expect_template_error(template_text("//@ let A 3\n"), 2, 11, "let THREADS = WARPS * 32");
    expect_template_error(template_text("//@ let A = 3 4\n"), 2, 15, "4");
    expect_template_error(template_text("//@ let a = 3\n"), 2, 9,
                          "in UPPER_CASE, starting with a letter, such as A");
}

TEST(TemplateLet, HasANameOfItsOwn) {
    expect_template_error(template_text("//@ param P int in 1, 2 = 1\n//@ let P = 2\n"), 3, 9,
                          "the parameter on line 2");
    expect_template_error(template_text("//@ let A = 1\n//@ let A = 2\n"), 3, 9, "the first is on line 2");
    expect_template_error(template_text("//@ let N = 1\n", "int N, float* c", "//@ block 32\n//@ grid N\n"),
                          2, 9, "an argument of the kernel");
    expect_template_error(
        "//@ kernel K\n//@ let K = 1\n//@ block 1\n//@ grid 1\n"
        "extern \"C\" __global__ void K(int n) {}\n",
        2, 9, "the name of the kernel");
    const std::string shape = "//@ block 32\n//@ grid n\n";
    const auto with = [&](const std::string& code) {
        return template_text("//@ let A = 1\n", "int n, float* c", shape + code);
    };
    expect_template_error(with("constexpr int A = 3;\n"), 2, 9, "declares A itself, on line 5");
    expect_template_error(with("\nstruct A {};\n"), 2, 9, "declares A itself, on line 6");
    expect_template_error(with("__device__ float A(int);\n"), 2, 9, "declares A itself, on line 5");
    // Uses, and other scopes.
    for (const char* const code :
         {"constexpr int kB = 2 * A;\n", "template <int A = 3> struct S {};\n",
          "__device__ int f(int A) { int B = A; return B; }\n", "struct S { int A; };\n", "int field[A];\n"})
        EXPECT_NO_THROW(Template::parse(with(code), "k.cu")) << code;
}

TEST(TemplateLet, HasAValueInEveryVariant) {
    const Template of = make("//@ param P int in 0..2 = 1\n//@ let SHARE = 64 / P \"a thread's part\"\n");
    EXPECT_EQ(of.variants().size(), 2U);
    EXPECT_THAT(variant_error([&] {
                    static_cast<void>(of.variant({{"P", 0}}));
                }),
                AllOf(HasSubstr("SHARE = 64 / P (dir/k.cu:3:17) can't be computed"),
                      HasSubstr("64 / P divides by zero"), HasSubstr("P = 0"), HasSubstr("P = 1, 2")));
    const Template large = make("//@ param P int in 1, 2 = 1\n//@ let FAR = 9223372036854775807 * P\n");
    EXPECT_EQ(large.variants().size(), 1U);
    EXPECT_THAT(variant_error([&] {
                    static_cast<void>(large.variant({{"P", 2}}));
                }),
                HasSubstr("9223372036854775807 * P overflows 64 bits"));
}

// Each line doubles the work of the one before.
TEST(TemplateLet, TakesNoEndlessTime) {
    std::string lines = "//@ let A0 = 1\n";
    for (int i = 1; i < 60; ++i) {
        const std::string before = "A" + std::to_string(i - 1);
        lines += "//@ let A" + std::to_string(i) + " = " + before + " - " + before + "\n";
    }
    expect_template_error(template_text(lines), 13, 21, "more than 10000 terms and operators");
}

}  // namespace
}  // namespace kiln
