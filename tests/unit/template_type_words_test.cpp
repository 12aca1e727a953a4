// SPDX-License-Identifier: Apache-2.0
//
// half, __half and the like without kiln::, in signatures and in the source that compilers get.
#include "template_support.h"

namespace kiln {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

/// The source of a template with this text around its kernel.
std::string source_of(const std::string& before, const std::string& body, std::vector<Header> headers = {}) {
    const std::string text =
        "//@ kernel k\n//@ param T type in half, bfloat16 = half\n//@ block 32\n//@ grid n\n" + before +
        "\nextern \"C\" __global__ void k(int n, const T* x) {" + body + "}\n";
    return Template::parse(text, "k.cu", std::move(headers)).variant().source(Backend::cuda).text;
}

const char* const kHalf = "using half = kiln::half;\n";

TEST(TypeWords, AreDeclaredWhereTheyAreUsedBare) {
    EXPECT_THAT(source_of("", "half h(1.0f);"), HasSubstr(kHalf));
    EXPECT_THAT(source_of("__device__ __half twice(__half x);", ""),
                HasSubstr("using __half = kiln::half;\n"));
    EXPECT_THAT(source_of("", "auto y = __nv_bfloat16(1.0f);"),
                HasSubstr("using __nv_bfloat16 = kiln::bfloat16;\n"));
    EXPECT_THAT(source_of("using V = half;", ""), HasSubstr(kHalf));
    EXPECT_THAT(source_of("__device__ float f(half x) { return float(x); }", ""), HasSubstr(kHalf));
    EXPECT_THAT(source_of("extern \"C\" { __device__ half one(); }", ""), HasSubstr(kHalf));
    EXPECT_THAT(source_of("#include \"mine.h\"", "", {{"mine.h", "inline int f(const half* x);"}}),
                HasSubstr(kHalf));
}

TEST(TypeWords, AreNotDeclaredWhereNobodyUsesThem) {
    const std::string plain = source_of("// half of them, a half", "kiln::half h; x->half; s.half = 1;");
    EXPECT_THAT(plain, Not(HasSubstr("using half")));
    EXPECT_EQ(plain.find("#line 1"), plain.find("using T = kiln::half;\n") + 22) << "the key is what it was";
}

TEST(TypeWords, AreLeftToATemplateThatDeclaresThem) {
    for (const char* own :
         {"using half = unsigned short;", "typedef kiln::half half;", "struct half { short bits; };",
          "struct half;", "using kiln::half;", "using namespace kiln;", "constexpr int half = 2;",
          "__device__ int half(int x);", "__constant__ float half[2];", "#include <cuda_fp16.h>",
          "extern \"C\" { struct half; }"})
        EXPECT_THAT(source_of(own, "sizeof(half);"), Not(HasSubstr("using half = kiln"))) << own;
    EXPECT_THAT(source_of("#include \"mine.h\"", "half y;", {{"mine.h", "struct half {};"}}),
                Not(HasSubstr("using half = kiln")));
    EXPECT_THAT(source_of("using half = unsigned short;", "__half y; half z;"),
                HasSubstr("using __half = kiln::half;\n"));
    EXPECT_THAT(source_of("namespace mine { using half = int; }", "half y;"), HasSubstr(kHalf));
    EXPECT_THAT(source_of("", "const int half = n / 2;"), HasSubstr(kHalf)) << "which does no harm";
}

TEST(TypeWords, AreTypesOfArguments) {
    const Template of =
        make("", "int m, int n, const __half* a, half* b, __nv_bfloat16 c, const hip_bfloat16* d");
    std::vector<std::string> types;
    const Variant variant = of.variant();
    for (const KernelArgument& argument : variant.arguments()) types.push_back(argument.type);
    EXPECT_EQ(types, (std::vector<std::string>{"int", "int", "const half*", "half*", "bfloat16",
                                               "const bfloat16*"}));
}

TEST(TypeWords, AreValuesOfATypeParameter) {
    const Template of = make("//@ param T type in half, bfloat16 = half\n");
    EXPECT_EQ(of.parameter("T")->parse("__half"), Value("half"));
    EXPECT_EQ(of.parameter("T")->parse("__nv_bfloat16"), Value("bfloat16"));
    expect_template_error(template_text("//@ param T type in __half = half\n"), 2, 21, "write half");
}

}  // namespace
}  // namespace kiln
