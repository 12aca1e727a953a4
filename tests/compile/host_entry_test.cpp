// SPDX-License-Identifier: Apache-2.0
//
// A kernel's name on the host: where it is declared, and nowhere else.
#include "compile/host_entry.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(HostEntry, IsPutWhereTheKernelIsDeclared) {
    const HostEntry entry = with_host_entry(
        "extern \"C\" __global__ void exp(const float* x, float* y) {\n"
        "    y[0] = exp(x[0]);\n}\n",
        "exp");
    EXPECT_EQ(entry.name, "kiln_entry_exp");
    EXPECT_EQ(entry.text,
              "extern \"C\" __global__ void kiln_entry_exp(const float* x, float* y) {\n"
              "    y[0] = exp(x[0]);\n}\n");
}

TEST(HostEntry, AlsoBehindAttributesAndInDeclarations) {
    EXPECT_EQ(with_host_entry("extern \"C\" { __global__ void f(int); }\n"
                              "__global__ __launch_bounds__(f(3)) void f /* it */ (int) {}",
                              "f")
                  .text,
              "extern \"C\" { __global__ void kiln_entry_f(int); }\n"
              "__global__ __launch_bounds__(f(3)) void kiln_entry_f /* it */ (int) {}");
}

TEST(HostEntry, NotInCommentsLiteralsAndOtherWords) {
    const std::string text =
        "// __global__ void f(\n/* __global__ void f( */ const char* s = \"__global__ void f(\";\n"
        "auto r = R\"x(__global__ void f()\")x\"; int n = 1'000; char c = '\"';\n"
        "void f(int);\n__global__ void ff(int f);\n";
    const HostEntry entry = with_host_entry(text, "f");
    EXPECT_EQ(entry.text, text);
    EXPECT_EQ(entry.name, "f");
}

TEST(DynamicShared, BecomesAReferenceInFunctions) {
    EXPECT_EQ(with_dynamic_shared("extern \"C\" __global__ void k(int n) {\n"
                                  "    extern __shared__ float tile[];\n    tile[0] = n;\n}\n"),
              "extern \"C\" __global__ void k(int n) {\n    auto& tile = "
              "*static_cast<float(*)[]>(kiln_host::dynamic_shared_memory());\n    tile[0] = n;\n}\n");
    EXPECT_EQ(
        with_dynamic_shared("extern \"C\" {\nvoid f() { if (1) { extern __shared__ __align__(sizeof(int4))\n"
                            "  unsigned char raw[]; } }\n}\n"),
        "extern \"C\" {\nvoid f() { if (1) { auto& raw = "
        "*static_cast<unsigned char(*)[]>(kiln_host::dynamic_shared_memory());\n } }\n}\n");
    EXPECT_EQ(with_dynamic_shared("struct S { void f() { extern __shared__ Pair<int, 2>* p[][4]; } };"),
              "struct S { void f() { auto& p = "
              "*static_cast<Pair<int,2>*(*)[][4]>(kiln_host::dynamic_shared_memory()); } };");
    EXPECT_EQ(with_dynamic_shared("int f(P p = {}, const struct P* q) { extern __shared__ int s[]; }"),
              "int f(P p = {}, const struct P* q) { auto& s = "
              "*static_cast<int(*)[]>(kiln_host::dynamic_shared_memory()); }");
}

TEST(HostKeywords, AlignmentsBehindSharedComeBeforeIt) {
    EXPECT_EQ(with_host_keywords("__shared__ alignas(16) float a[4];"),
              "alignas(16) __shared__  float a[4];");
    EXPECT_EQ(with_host_keywords("__shared__ alignas /* x */ (16) float a[4];"),
              "alignas /* x */ (16) __shared__  float a[4];");
    EXPECT_EQ(
        with_host_keywords("__shared__ /* 1 */ alignas(alignof(float4))\n  alignas(T) static float a[4];"),
        "alignas(alignof(float4)) alignas(T) __shared__ /* 1 */ \n    float a[4];");
    EXPECT_EQ(with_host_keywords("#define TILE __shared__ __align__(8)\n"),
              "#define TILE __align__(8) __shared__ \n");
    for (const char* text :
         {"alignas(16) __shared__ float a;", "__shared__ struct alignas(16) Q { int q; } a;",
          "__shared__ float a; alignas(8) int b;", "__shared__", "// __shared__ alignas(4)"})
        EXPECT_EQ(with_host_keywords(text), text);
    for (const char* text : {"__shared__ alignas", "__shared__ alignas "})
        EXPECT_NO_THROW(with_host_keywords(text));
}

TEST(DynamicShared, MayBeExternBehindShared) {
    EXPECT_EQ(with_dynamic_shared("void f() { __shared__ alignas(16) extern float a[]; }"),
              "void f() { auto& a = *static_cast<float(*)[]>(kiln_host::dynamic_shared_memory()); }");
}

TEST(HostKeywords, StaticSharedIsSharedAndNoInlineAnAttribute) {
    EXPECT_EQ(
        with_host_keywords("void k() { static __shared__ float s[4]; static /* 1 */\n__shared__ int n;\n"
                           "__shared__ static int m; static int p; }"),
        "void k() {  __shared__ float s[4];  /* 1 */\n__shared__ int n;\n__shared__  int m; static int p; }");
    EXPECT_EQ(with_host_keywords("__device__ __noinline__ void f();"),
              "__device__ KILN_HOST_NOINLINE void f();");
    for (const char* text :
         {"__attribute__((__noinline__)) void f();", "__attribute__((cold, __noinline__)) void f();",
          "[[gnu::__noinline__]] void f();", "// static __shared__ __noinline__",
          "#ifndef __noinline__\n#define __noinline__\n#endif", "static int n; __shared__ int m;"})
        EXPECT_EQ(with_host_keywords(text), text);
}

TEST(DynamicShared, ElsewhereSaysWhatToWrite) {
    EXPECT_NE(
        with_dynamic_shared("namespace a {\nextern __shared__ float tile[];\n}")
            .find("static_assert(false, \"on the host the dynamic shared memory tile must be declared in"),
        std::string::npos);
    EXPECT_NE(with_dynamic_shared("#if A\nvoid f(\n#else\nvoid g(\n#endif\n    int);\n"
                                  "namespace a { extern __shared__ float tile[]; }")
                  .find("static_assert"),
              std::string::npos);
    for (const char* text :
         {"extern \"C\" void f();\n// extern __shared__ float tile[];\n",
          "void f() { __shared__ float tile[4]; extern int n; }", "extern __shared__ int n;"})
        EXPECT_EQ(with_dynamic_shared(text), text);
}

}  // namespace
}  // namespace kiln
