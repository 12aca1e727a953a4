// SPDX-License-Identifier: Apache-2.0
//
// Variables of the module that a template's `input` lines name, and cooperative kernels.
#include "template/kernel_launch.h"
#include "template_support.h"

namespace kiln::test {
namespace {

std::string text_with(const std::string& declaration,
                      const std::string& lines = "//@ input weights [K, 3]\n") {
    return "//@ param T type in half, float = half\n//@ param K int in 1, 2, 3 = 3\n//@ kernel k\n" + lines +
           "//@ block 32\n//@ grid n\n" + declaration +
           "\nextern \"C\" __global__ void k(int n, float* c) {}\n";
}

std::string type_of(const std::string& declaration) {
    const Variant variant = Template::parse(text_with(declaration), "dir/k.cu").variant();
    const auto& arguments = variant.arguments();
    EXPECT_EQ(arguments.size(), 3u) << declaration;
    EXPECT_EQ(arguments.back().name, "weights");
    return arguments.back().type;
}

TEST(Variables, AreArgumentsBehindThoseOfTheKernels) {
    EXPECT_EQ(type_of("__constant__ float weights[9];"), "const float*");
    EXPECT_EQ(type_of("static __constant__ T weights[3][3];"), "const half*");
    EXPECT_EQ(type_of("namespace a { __device__ __align__(16) const unsigned char weights[9] = {1, 2}; }"),
              "const unsigned char*");
    EXPECT_EQ(type_of("__device__ int f(int weights);\n__constant__ double other[2], weights[9];"),
              "const double*");
    const Template of = Template::parse(text_with("__constant__ float weights[9];"), "dir/k.cu");
    const auto kernels = of.variant().kernels();
    EXPECT_THAT(kernels[0].arguments, testing::ElementsAre("n", "c"));
    EXPECT_FALSE(kernels[0].cooperative);
}

TEST(Variables, AreCopiedWholeOrAsFarAsTheTensorGoes) {
    const Template of = Template::parse(text_with("__constant__ float weights[9];"), "dir/k.cu");
    int n = 5;
    void* pointer = nullptr;
    void* const arguments[] = {&n, &pointer, &pointer};
    for (const std::int64_t k : {1, 3}) {
        const Variant variant = of.variant({{"K", k}});  // the names are its own
        const auto copies = variable_copies(variant, arguments);
        ASSERT_EQ(copies.size(), 1u);
        EXPECT_EQ(copies[0].name, "weights");
        EXPECT_EQ(copies[0].argument, 2u);
        EXPECT_EQ(copies[0].bytes, static_cast<std::size_t>(12 * k));
    }
    EXPECT_FALSE(has_variable_copies(make("").variant()));
}

TEST(Variables, ThatAreNotDeclaredAreNoArguments) {
    expect_template_error(text_with("float weights[9];"), 4, 11, "k has no argument weights");
    expect_template_error(text_with("__device__ float weights(int);"), 4, 11, "k has no argument weights");
    expect_template_error(text_with("__constant__ float weights[9];", "//@ output weights [9] by r\n"), 4, 12,
                          "k has no argument weights");
}

TEST(Cooperative, BelongsToAKernel) {
    EXPECT_TRUE(make("//@ cooperative\n").variant().kernels()[0].cooperative);
    expect_template_error(template_text("//@ cooperative 3\n"), 2, 17, "has nothing behind it");
    const Template two = Template::parse(
        "//@ kernel a\n//@ block 1\n//@ grid 1\n//@ kernel b\n//@ block 1\n//@ grid 1\n//@ cooperative\n"
        "extern \"C\" __global__ void a(int n) {}\nextern \"C\" __global__ void b(int n) {}\n",
        "dir/k.cu");
    EXPECT_FALSE(two.variant().kernels()[0].cooperative);
    EXPECT_TRUE(two.variant().kernels()[1].cooperative);
}

}  // namespace
}  // namespace kiln::test
