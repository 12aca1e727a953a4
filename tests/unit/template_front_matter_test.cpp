// SPDX-License-Identifier: Apache-2.0
//
// Every directive, and every error of front matter with its line and column.
#include <chrono>

#include "template/parameter.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;

/// `line` is put in as line 2.
void expect_line_error(const std::string& line, int column, const std::string& part) {
    expect_template_error(template_text(line + "\n"), 2, column, part);
}

constexpr const char* kFull = R"(// SPDX-License-Identifier: Apache-2.0
//
// scale: y = a * x, elementwise
//
//@ kernel  scale
  //@ param   BM   int in 16, 32, 64, 128  = 64  "rows of \"C\" per block"
//@ param   W    int in -2..8 = 1
//@ param   FAST bool = true "skip the edges"
//@ param   T    type in half, bfloat16, float = bfloat16 "element type"
//@
//@ require BM % 16 == 0   "BM must be a multiple of 16"
//@require threads <= 1024
//@ block   BM, 2
//@ grid    ceil_div(n, BM), m
//@ shared  BM * sizeof(T)
//@ shared  static BM
//@ cluster 2
//@ backend cuda, hip
//@ arch    sm_90a, gfx90a
#include "kiln/device.h"

extern "C" __global__ __launch_bounds__(BM * 2) void scale(int m, unsigned n, const T* __restrict__ x, T* y) {}
)";

TEST(FrontMatter, EveryDirective) {
    const Template parsed = Template::parse(kFull, "some/where/scale.cu");
    EXPECT_EQ(parsed.name(), "scale");
    EXPECT_EQ(parsed.summary(), "y = a * x, elementwise");
    EXPECT_EQ(parsed.file(), "some/where/scale.cu");
    ASSERT_EQ(parsed.parameters().size(), 4u);

    const Parameter& bm = *parsed.parameter("BM");
    EXPECT_EQ(bm.kind, ParameterKind::integer);
    EXPECT_EQ(bm.allowed, (std::vector<Value>{16, 32, 64, 128}));
    EXPECT_EQ(bm.default_value, Value(64));
    EXPECT_EQ(bm.text, "rows of \"C\" per block");
    EXPECT_EQ(bm.line, 6);
    EXPECT_EQ(bm.allowed_text(), "16, 32, 64, 128");
    const Parameter& w = *parsed.parameter("W");
    EXPECT_TRUE(w.allowed.empty());
    EXPECT_EQ(w.min, -2);
    EXPECT_EQ(w.max, 8);
    EXPECT_EQ(w.allowed_text(), "-2..8");
    EXPECT_TRUE(w.text.empty());
    const Parameter& fast = *parsed.parameter("FAST");
    EXPECT_EQ(fast.kind, ParameterKind::boolean);
    EXPECT_EQ(fast.default_value, Value(true));
    const Parameter& type = *parsed.parameter("T");
    EXPECT_EQ(type.kind, ParameterKind::type);
    EXPECT_EQ(type.default_value, Value("bfloat16"));
    EXPECT_EQ(parsed.parameter("X"), nullptr);

    ASSERT_EQ(parsed.constraints().size(), 2u);
    EXPECT_EQ(parsed.constraints()[0].expression, "BM % 16 == 0");
    EXPECT_EQ(parsed.constraints()[0].text, "BM must be a multiple of 16");
    EXPECT_EQ(parsed.constraints()[0].line, 11);
    EXPECT_EQ(parsed.constraints()[0].column, 13);
    EXPECT_EQ(parsed.constraints()[1].expression, "threads <= 1024");
    EXPECT_EQ(parsed.constraints()[1].text, "");

    EXPECT_EQ(parsed.backends(), (std::vector<Backend>{Backend::cuda, Backend::hip}));
    EXPECT_EQ(parsed.archs(), (std::vector<std::string>{"sm_90a", "gfx90a"}));
    EXPECT_FALSE(parsed.target());

    const Variant variant = parsed.variant({{"T", "float"}});
    EXPECT_EQ(variant.block(), (Dim3{64, 2, 1}));
    EXPECT_EQ(variant.cluster(), (Dim3{2, 1, 1}));
    EXPECT_EQ(variant.dynamic_shared_bytes(), 256u);
    EXPECT_EQ(variant.static_shared_bytes(), 64u);
    EXPECT_EQ(variant.text(), "scale BM=64 W=1 FAST=true T=float");
}

TEST(FrontMatter, DefaultsOfOptionalDirectives) {
    const Template parsed = make("");
    EXPECT_EQ(parsed.backends(), (std::vector<Backend>{Backend::cuda, Backend::hip, Backend::host}));
    EXPECT_TRUE(parsed.archs().empty());
    EXPECT_EQ(parsed.summary(), "");
    EXPECT_EQ(parsed.variant().dynamic_shared_bytes(), 0u);
    EXPECT_EQ(parsed.variant().cluster(), Dim3{});
}

TEST(FrontMatter, WindowsLineEndsAndByteOrderMark) {
    std::string text = "\xEF\xBB\xBF// k: two\n" + template_text("//@ param A int in 1, 2 = 2 \"t\"\n");
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.insert(at, "\r");
    const Template parsed = Template::parse(text, "k.cu");
    EXPECT_EQ(parsed.summary(), "two");
    EXPECT_EQ(parsed.parameter("A")->default_value, Value(2));
}

TEST(FrontMatter, DirectiveErrors) {
    expect_line_error("//@ paran A int in 1 = 1", 5, "unknown directive paran; did you mean param?");
    expect_line_error("  //@ gridd n", 7, "did you mean grid?");
    expect_line_error("//@ 12", 5, "expected a directive");
    expect_line_error("//@ param A int in 1 = 1 \\", 26, "can't be continued");
    expect_line_error("//@ kernel again", 12, "no definition extern \"C\" __global__ void again");
    expect_template_error(template_text("//@ block 1\n//@ block 2\n"), 3, 5,
                          "a second block line; the first is on line 2");
    expect_line_error("//@ require 1 == 1 \xC3\xA9", 20, "\xC3\xA9");
    expect_line_error("//@ require 1 == 1 \"open", 20, "no closing quote");
    expect_line_error("//@ require 1 == 1 \"a\" b", 24, "unexpected b after the rule");
    expect_template_error("// nothing\n", 1, 1, "//@ kernel NAME");
    expect_template_error("//@ kernel\n", 1, 11, "expected the kernel's name, found the end of the line");
    expect_template_error("//@ kernel a b\n", 1, 14, "unexpected b");
    expect_template_error("//@ kernel k\n//@ block 1\n//@ grid 1\n", 1, 12,
                          "no definition extern \"C\" __global__ void k");
    expect_template_error(template_text("", "int n", "//@ block 1\n"), 1, 12, "//@ grid");
    expect_template_error(template_text("", "int n", "//@ grid n\n"), 1, 12, "//@ block");
    expect_template_error(template_text("") + "//@ param A int in 1 = 1\n", 5, 5,
                          "must stand before the kernel");
}

TEST(FrontMatter, ParameterErrors) {
    expect_line_error("//@ param", 10, "the parameter's name");
    expect_line_error("//@ param bm int in 1 = 1", 11, "UPPER_CASE, starting with a letter, such as BM");
    expect_line_error("//@ param _A int in 1 = 1", 11, "UPPER_CASE");
    expect_line_error("//@ param int int in 1 = 1", 11, "UPPER_CASE");
    expect_line_error("//@ param NULL int in 1 = 1", 11, "keyword or a macro");
    expect_line_error("//@ param A double in 1 = 1", 13, "int, bool, type, float or code, found double");
    expect_line_error("//@ param A int 1, 2 = 1", 17, "expected in");
    expect_line_error("//@ param A int in = 1", 20, "expected a value");
    expect_line_error("//@ param A int in 1, 2", 24, "expected = and the default value");
    expect_line_error("//@ param A int in 1, 2 = 3", 27, "default 3 of A is not one of its values, 1, 2");
    expect_line_error("//@ param A int in 1, 2, 1 = 1", 26, "listed twice");
    expect_line_error("//@ param A int in 8..1 = 1", 23, "8..1 is empty");
    expect_line_error("//@ param A int in 1..8 = 9", 27, "default 9");
    expect_line_error("//@ param A int in -9223372036854775808..5 = 1", 42, "too many values");
    expect_line_error("//@ param A int in 99999999999999999999 = 1", 20,
                      "99999999999999999999 does not fit 64 bits");
    expect_line_error("//@ param A int in 0x10 = 1", 20, "0x10 is not a decimal integer");
    expect_line_error("//@ param A bool in true = true", 18, "expected =");
    expect_line_error("//@ param A bool = yes", 20, "expected true or false, found yes");
    expect_line_error("//@ param T type in half, flot = half", 27, "unknown type flot; did you mean float?");
    expect_line_error("//@ param T type in f16 = half", 21, "write half");
    expect_line_error("//@ param T type in half = float", 28, "default float");
    expect_line_error("//@ param A int in 1 = 1 2", 26, "unexpected 2");
    expect_template_error(template_text("//@ param A int in 1 = 1\n//@ param A bool = true\n"), 3, 11,
                          "a second parameter A; the first is on line 2");
    expect_template_error(template_text("//@ param N int in 1 = 1\n", "int N", "//@ block 1\n//@ grid 1\n"),
                          2, 11, "has the name of an argument of the kernel");
}

TEST(FrontMatter, LaunchErrors) {
    const auto shaped = [](const std::string& shape) {
        return template_text("", "int m, int n, float* c", shape);
    };
    expect_template_error(shaped("//@ block 1, 2, 3, 4\n//@ grid n\n"), 2, 20, "at most three extents");
    expect_template_error(shaped("//@ block\n//@ grid n\n"), 2, 10, "expected a number");
    expect_template_error(shaped("//@ block n\n//@ grid n\n"), 2, 11, "n is an argument of the kernel");
    expect_template_error(shaped("//@ block 1 2\n//@ grid n\n"), 2, 13, "unexpected 2");
    expect_template_error(shaped("//@ block half\n//@ grid n\n"), 2, 11, "found the type half");
    expect_template_error(shaped("//@ block shared_bytes\n//@ grid n\n"), 2, 11,
                          "shared_bytes is not known here");
    expect_template_error(shaped("//@ block 1\n//@ grid c\n"), 3, 10, "the argument c is float*");
    expect_template_error(shaped("//@ block 1\n//@ grid mm\n"), 3, 10, "mm is not known here");
    expect_line_error("//@ shared n", 12, "n is an argument");
    expect_line_error("//@ cluster 1,", 15, "expected a number");
    expect_template_error(template_text("//@ shared 1\n//@ shared static 1\n//@ shared 2\n"), 4, 5,
                          "a second shared line; the first is on line 2");
    expect_line_error("//@ backend cuda, vulkan", 19, "unknown backend vulkan; there are cuda, hip, host");
    expect_line_error("//@ backend cuda, cuda", 19, "named twice");
    expect_line_error("//@ backend cuda hip", 18, "unexpected hip");
    expect_line_error("//@ arch hopper", 10, "like sm_90a or gfx90a, found hopper");
    expect_line_error("//@ arch sm_90a, sm_90a", 18, "named twice");
    expect_line_error("//@ arch", 9, "found the end of the line");
    expect_line_error("//@ require 3", 13, "must be true or false");
}

TEST(FrontMatter, Summary) {
    const auto summary = [](const std::string& head) {
        return Template::parse(head + template_text(""), "k.cu").summary();
    };
    EXPECT_EQ(summary("// k: does it\n// more\n"), "does it");
    EXPECT_EQ(summary("// a plain line\n"), "a plain line");
    EXPECT_EQ(summary("\n// SPDX-License-Identifier: MIT\n//\n// k: x\n"), "x");
    EXPECT_EQ(summary("int x;\n// k: too late\n"), "");
}

TEST(FrontMatter, LinesInLongerCommentsAndStringsAreNone) {
    const Template of = make(
        "/* as before:\n//@ param OLD int in 1..8 = 4\n   */ int a = '\"';\n"
        "const char* text = R\"x(\n//@ nonsense\n)\" // )y\";\n//@ nonsense\n)x\";\n"
        "// it's a comment /* of one line\n//@ param NEW int in 1..8 = 4\n/* */\n"
        "const char* also = \"/*\";\n  //@ param LAST int in 1..8 = 4\n");
    EXPECT_THAT(parameter_names(of.parameters()), testing::ElementsAre("NEW", "LAST"));
}

TEST(FrontMatter, OnlyText) {
    expect_template_error(std::string("//@ kernel k\0", 13), 1, 1, "byte 12 is NUL");
    expect_template_error("//@ kernel \xFF", 1, 1, "byte 11");
    expect_template_error("\xC0\x80", 1, 1, "UTF-8");
    expect_template_error("\xED\xA0\x80", 1, 1, "UTF-8");
    expect_template_error("\xE2\x82", 1, 1, "UTF-8");
    EXPECT_EQ(make("// \xE2\x82\xAC and \xF0\x9F\x99\x82\n").name(), "k");
}

// In quadratic time it took seven seconds.
TEST(FrontMatter, ALongListOfValuesIsReadQuickly) {
    std::string values = "0";
    for (int i = 1; i < 20'000; ++i) values += ", " + std::to_string(i);
    const auto begin = std::chrono::steady_clock::now();
    const Template of = make("//@ param A int in " + values + " = 3\n");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    EXPECT_EQ(of.parameters()[0].allowed.size(), 20'000U);
    expect_template_error(template_text("//@ param A int in 1, 2, 1 = 1\n"), 2, 26,
                          "the value 1 is listed twice");
}

}  // namespace
}  // namespace kiln
