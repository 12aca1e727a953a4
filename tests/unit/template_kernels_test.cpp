// SPDX-License-Identifier: Apache-2.0
//
// Several kernels in a template, and kernels that are C++ templates: which lines belong to which, their arguments.
#include "template_support.h"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;

std::string two(const std::string& first_lines = "", const std::string& second_lines = "",
                const std::string& second_arguments = "const float* partial, float* y") {
    return "//@ param THREADS int in 32, 64 = 32\n//@ kernel first\n//@ block THREADS\n//@ grid n\n" +
           first_lines + "//@ kernel second\n//@ block 64\n//@ grid ceil_div(n, 4)\n" + second_lines +
           "extern \"C\" __global__ void first(int n, const float* x, float* partial) {}\n"
           "extern \"C\" __global__ void second(" +
           second_arguments + ") {}\n";
}

Template parsed(const std::string& text) { return Template::parse(text, "dir/k.cu"); }

std::vector<std::string> arguments(const Template& of) {
    std::vector<std::string> texts;
    const Variant variant = of.variant();
    for (const KernelArgument& argument : variant.arguments())
        texts.push_back(argument.type + " " + argument.name);
    return texts;
}

TEST(Kernels, HaveTheirOwnLinesAndShareArgumentsByName) {
    const Template of = parsed(two("//@ shared static 4 * THREADS\n", "//@ shared 1024\n"));
    EXPECT_EQ(of.name(), "first");
    EXPECT_THAT(arguments(of), ElementsAre("int n", "const float* x", "float* partial", "float* y"));
    const auto kernels = of.variant().kernels();
    ASSERT_EQ(kernels.size(), 2u);
    EXPECT_EQ(kernels[0].name, "first");
    EXPECT_EQ(kernels[0].block.x, 32u);
    EXPECT_EQ(kernels[0].static_shared_bytes, 128u);
    EXPECT_EQ(kernels[0].dynamic_shared_bytes, 0u);
    EXPECT_THAT(kernels[0].arguments, ElementsAre("n", "x", "partial"));
    EXPECT_EQ(kernels[1].name, "second");
    EXPECT_EQ(kernels[1].block.x, 64u);
    EXPECT_EQ(kernels[1].static_shared_bytes, 0u);
    EXPECT_EQ(kernels[1].dynamic_shared_bytes, 1024u);
    EXPECT_THAT(kernels[1].arguments, ElementsAre("partial", "y"));
    const Source source = of.variant().source(Backend::cuda);
    EXPECT_EQ(source.entry, "first");
    EXPECT_THAT(source.more_entries, ElementsAre("second"));
}

TEST(Kernels, WhatOneReadsAndAnotherWritesIsWritten) {
    EXPECT_THAT(arguments(parsed(two("", "", "const float* partial, float* x"))),
                ElementsAre("int n", "float* x", "float* partial"));
}

TEST(Kernels, OneKernelIsAsItWas) {
    const auto kernels = make("").variant().kernels();
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_THAT(kernels[0].arguments, ElementsAre("m", "n", "c"));
    EXPECT_TRUE(make("").variant().source(Backend::cuda).more_entries.empty());
}

TEST(Kernels, Errors) {
    expect_template_error(two("//@ block 1\n"), 5, 5, "a second block line; the first is on line 3");
    expect_template_error(two("", "//@ grid 1\n"), 8, 5, "a second grid line; the first is on line 7");
    expect_template_error(two("", "", "const double* partial"), 9, 28,
                          "the argument partial is const double* here, and float* in another kernel");
    expect_template_error(two("", "", "const float*"), 9, 28, "an argument needs a name");
    expect_template_error("//@ kernel k\n//@ kernel k\nextern \"C\" __global__ void k(int n) {}\n", 2, 12,
                          "second kernel line for k");
    expect_template_error(
        "//@ kernel a\n//@ block 1\n//@ grid 1\n//@ kernel b\n//@ block 1\n"
        "extern \"C\" __global__ void a(int n) {}\nextern \"C\" __global__ void b(int n) {}\n",
        4, 12, "b needs a line //@ grid");
    expect_template_error(
        "//@ kernel a\n//@ block 1\nextern \"C\" __global__ void a(int n) {}\n//@ grid 1\n"
        "//@ kernel b\n//@ block 1\n//@ grid 1\nextern \"C\" __global__ void b(int n) {}\n",
        4, 5, "must stand before the kernel");
}

std::string of_template(const std::string& expression) {
    return "//@ param T type in half, float = half\n//@ param N int in 1, 2 = 2\n//@ kernel " + expression +
           "\n//@ block 32\n//@ grid n\n"
           "template <class E, int WIDTH = 3>\n__global__ void k(int n, const E* x, E* y) {}\n";
}

TEST(Kernels, TemplatesAreNamedWithTheirArguments) {
    const Template of = parsed(of_template("k<T, N>"));
    EXPECT_EQ(of.name(), "k");
    EXPECT_THAT(arguments(of), ElementsAre("int n", "const half* x", "half* y"));
    EXPECT_EQ(of.variant().source(Backend::cuda).entry, "k<T, N>");
    const Variant floats = of.variant({{"T", "float"}});
    EXPECT_EQ(floats.arguments()[1].type, "const float*");
    EXPECT_EQ(parsed(of_template("k<T>")).variant().source(Backend::cuda).entry, "k<T>");
    EXPECT_THAT(arguments(parsed(of_template("k<float, (2 > 1)>"))),
                ElementsAre("int n", "const float* x", "float* y"));
    EXPECT_THAT(arguments(parsed(of_template("k<Pair<float, 2>>"))),
                ElementsAre("int n", "const Pair<float, 2>* x", "Pair<float, 2>* y"));
    expect_template_error(of_template("k"), 7, 17, "as in //@ kernel k<T, BLOCK>");
    expect_template_error(of_template("k<T, N, 1>"), 7, 17, "has 2 parameters");
    expect_template_error(of_template("k<T, N"), 3, 18, "closing >");
    expect_template_error(of_template("absent<T>"), 3, 12,
                          "no definition template <...> __global__ void absent");
    expect_template_error(
        "//@ kernel k<1>\n//@ block 1\n//@ grid 1\nextern \"C\" __global__ void k(int n) {}\n", 4, 28,
        "is no template");
}

}  // namespace
}  // namespace kiln::test
