// SPDX-License-Identifier: Apache-2.0
//
// Finding the kernel's declaration and normalising its argument types.
#include "template/signature.h"
#include "template_support.h"

namespace kiln {
namespace {

const KernelName kName{"k", "k", {}};

std::vector<std::string> types(const std::string& arguments, const TypeNames& parameters = {{"T", "half"}}) {
    const auto signature = find_kernel("extern \"C\" __global__ void k(" + arguments + ") {}", kName, "k.cu");
    if (!signature) return {"no kernel"};
    std::vector<std::string> result;
    for (const auto& argument : signature->arguments)
        result.push_back(normalised_type(argument.type, parameters) + "|" + argument.name);
    return result;
}

using Strings = std::vector<std::string>;

TEST(Signature, Integers) {
    EXPECT_EQ(
        types("int a, unsigned b, unsigned int c, long d, unsigned long e, long long f, long long int g"),
        (Strings{"int|a", "unsigned int|b", "unsigned int|c", "long long|d", "unsigned long long|e",
                 "long long|f", "long long|g"}));
    EXPECT_EQ(types("short a, unsigned short int b, char c, signed char d, unsigned char e, bool f"),
              (Strings{"short|a", "unsigned short|b", "signed char|c", "signed char|d", "unsigned char|e",
                       "bool|f"}));
    EXPECT_EQ(
        types("std::int64_t a, uint64_t b, size_t c, int32_t d, std::uint8_t e, const int f, int const g"),
        (Strings{"long long|a", "unsigned long long|b", "unsigned long long|c", "int|d", "unsigned char|e",
                 "int|f", "int|g"}));
    EXPECT_EQ(types("long unsigned int a, signed b"), (Strings{"unsigned long long|a", "int|b"}));
    EXPECT_EQ(types("const cudaTextureObject_t a, cudaSurfaceObject_t b"),
              (Strings{"unsigned long long|a", "unsigned long long|b"}));
}

TEST(Signature, Pointers) {
    EXPECT_EQ(
        types(
            "const T* __restrict__ a, T const* b, T* c, float *d, const kiln::half* e, ::kiln::bfloat16* f"),
        (Strings{"const half*|a", "const half*|b", "half*|c", "float*|d", "const half*|e", "bfloat16*|f"}));
    EXPECT_EQ(types("T* const a, const T* const __restrict b, float** c, const float* const* d, void* e"),
              (Strings{"half*|a", "const half*|b", "float**|c", "const float* const*|d", "void*|e"}));
    EXPECT_EQ(types("float a[], const T b[16], unsigned char* c, const uint8_t* d"),
              (Strings{"float*|a", "const half*|b", "unsigned char*|c", "const unsigned char*|d"}));
    EXPECT_EQ(types("volatile int* a, const volatile T* b, int volatile* volatile c, volatile int d, const "
                    "float* volatile* e"),
              (Strings{"int*|a", "const half*|b", "int*|c", "int|d", "const float**|e"}));
    EXPECT_EQ(types("const T* a, T b", {{"T", "unsigned char"}}),
              (Strings{"const unsigned char*|a", "unsigned char|b"}));
}

TEST(Signature, OtherTypes) {
    EXPECT_EQ(
        types("T a, double b, const __grid_constant__ CUtensorMap map, my::Pair<int, 2> p, struct Box c"),
        (Strings{"half|a", "double|b", "CUtensorMap|map", "my::Pair<int, 2>|p", "Box|c"}));
    EXPECT_EQ(types("Array<float*, 3> b, float&& c"), (Strings{"Array<float*, 3>|b", "float&&|c"}));
    EXPECT_EQ(types("int, float*, const T*, unsigned"),
              (Strings{"int|", "float*|", "const half*|", "unsigned int|"}));
    EXPECT_EQ(types(""), Strings{});
    EXPECT_EQ(types("void"), Strings{});
}

TEST(Signature, AttributesAndDefaultValues) {
    EXPECT_EQ(types("[[maybe_unused]] const T* a, [[maybe_unused]] int b = 3, float* c = nullptr"),
              (Strings{"const half*|a", "int|b", "float*|c"}));
}

TEST(Signature, FormsOfTheDeclaration) {
    const auto found = [](const std::string& text) { return find_kernel(text, kName, "k.cu").has_value(); };
    EXPECT_TRUE(found("extern \"C\" __global__ void k(int n) {}"));
    EXPECT_TRUE(found("extern \"C\" __global__ void __launch_bounds__(256, 2) k(int n) {}"));
    EXPECT_TRUE(found(
        "extern \"C\"\n__global__ __launch_bounds__((A) * (B)) __cluster_dims__(2, 1, 1)\nvoid k(int) {}"));
    EXPECT_TRUE(found("extern \"C\" __launch_bounds__(32) __global__ void k(int) {}"));
    EXPECT_TRUE(found("extern \"C\" [[maybe_unused]] __global__ [[a(b)]] void k(int) {}"));
    EXPECT_TRUE(found("extern \"C\" {\n__device__ int f() { return 1; }\n__global__ void k(int) {} }"));
    EXPECT_TRUE(found("extern \"C\" __global__ void k(int);\nextern \"C\" __global__ void k(int n) {}"));
    EXPECT_TRUE(found("__global__ void other(int) {}\nextern \"C\" __global__ void k(int) {}"));
    EXPECT_TRUE(found("#error don't\nextern \"C\" __global__ void k(/* , */ int n // )\n) {}"));
    EXPECT_FALSE(found("// extern \"C\" __global__ void k(int) {}"));
    EXPECT_FALSE(found("/* extern \"C\" __global__ void k(int) {} */"));
    EXPECT_FALSE(found("const char* s = \"extern C __global__ void k(int) {}\";"));
    EXPECT_FALSE(found("auto s = R\"x(\" extern \"C\" __global__ void k(int) {} )x\";"));
    EXPECT_FALSE(found("#define K extern \"C\" \\\n __global__ void k(int) {}"));
    EXPECT_FALSE(found("extern \"C\" __global__ void kk(int) {}"));
    EXPECT_FALSE(found("extern \"C\" __global__ void k(int);"));
    EXPECT_FALSE(found("extern \"C\" __global__ void k(int"));
    EXPECT_FALSE(found("extern \"C\" void k(int) {}"));
}

TEST(Signature, Place) {
    const auto signature = find_kernel("\n  extern \"C\" __global__ void k(int n) {}", kName, "k.cu");
    ASSERT_TRUE(signature);
    EXPECT_EQ(signature->location.line, 2);
    EXPECT_EQ(signature->location.column, 30);
}

TEST(Signature, NeedsCLinkage) {
    try {
        find_kernel("int x;\n__global__ void k(int) {}", kName, "k.cu");
        FAIL();
    } catch (const TemplateError& error) {
        EXPECT_EQ(error.line(), 2);
        EXPECT_EQ(error.column(), 17);
        EXPECT_THAT(error.what(), testing::HasSubstr("must be declared extern \"C\""));
    }
    EXPECT_THROW(find_kernel("extern \"C\" { int x; }\n__global__ void k(int) {}", kName, "k.cu"),
                 TemplateError);
}

TEST(Signature, ArgumentsOfAVariantFollowItsTypes) {
    const Template parsed =
        test::make("//@ param T type in half, float, int8_t = half\n", "int n, const T* a, T* b");
    const auto text = [&](const char* type) {
        std::string result;
        const Variant variant = parsed.variant({{"T", type}});
        for (const KernelArgument& argument : variant.arguments())
            result += argument.type + " " + argument.name + ";";
        return result;
    };
    EXPECT_EQ(text("half"), "int n;const half* a;half* b;");
    EXPECT_EQ(text("float"), "int n;const float* a;float* b;");
    EXPECT_EQ(text("int8_t"), "int n;const signed char* a;signed char* b;");
}

}  // namespace
}  // namespace kiln
