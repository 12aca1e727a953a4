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

}  // namespace
}  // namespace kiln
