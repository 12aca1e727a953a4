// SPDX-License-Identifier: Apache-2.0
//
// Defaults that are expressions over other parameters.
#include <kiln/manifest.h>

#include "template_support.h"

namespace kiln {
namespace {

using namespace test;
using testing::HasSubstr;

const char* const kVectors =
    "//@ param T    type in half, float, double = half\n"
    "//@ param VEC  int in 1, 2, 4, 8 = 16 / sizeof(T) \"elements per access\"\n"
    "//@ param PAD  int in 0, 1, 2, 4, 8 = SWIZZLE ? 0 : VEC\n"
    "//@ param SWIZZLE bool = T == half\n"
    "//@ param OUT  type in half, float, double = T\n";

std::string text_of(const Template& of, const Values& values = {}) { return of.variant(values).text(); }

TEST(Default, FollowsTheOtherParameters) {
    const Template of = make(kVectors);
    EXPECT_EQ(text_of(of), "k T=half VEC=8 PAD=0 SWIZZLE=true OUT=half");
    EXPECT_EQ(text_of(of, {{"T", "float"}}), "k T=float VEC=4 PAD=4 SWIZZLE=false OUT=float");
    EXPECT_EQ(text_of(of, {{"T", "double"}, {"SWIZZLE", true}}),
              "k T=double VEC=2 PAD=0 SWIZZLE=true OUT=double");
    EXPECT_EQ(text_of(of, {{"VEC", 2}, {"SWIZZLE", false}}), "k T=half VEC=2 PAD=2 SWIZZLE=false OUT=half");
    EXPECT_EQ(text_of(of, {{"OUT", "float"}, {"PAD", 1}}), "k T=half VEC=8 PAD=1 SWIZZLE=true OUT=float");
}

TEST(Default, IsShownAsWrittenAndAsAValue) {
    const Template of = make(kVectors);
    const Parameter& vec = *of.parameter("VEC");
    EXPECT_EQ(vec.default_value, Value(8));
    EXPECT_EQ(vec.default_expression, "16 / sizeof(T)");
    EXPECT_EQ(vec.default_text(), "16 / sizeof(T)");
    EXPECT_EQ(vec.default_uses, std::vector<std::string>{"T"});
    EXPECT_EQ(vec.text, "elements per access");
    EXPECT_EQ(of.parameter("PAD")->default_value, Value(0));
    EXPECT_EQ(of.parameter("PAD")->default_uses, (std::vector<std::string>{"SWIZZLE", "VEC"}));
    EXPECT_EQ(of.parameter("T")->default_text(), "half");
    EXPECT_TRUE(of.parameter("T")->default_expression.empty());
    EXPECT_THAT(variant_error([&] {
                    of.variant({{"VEC", true}});
                }),
                HasSubstr("(16 / sizeof(T) by default)"));
}

TEST(Default, OfOneParameterIsComputedFromWhatIsGivenForOthers) {
    const Template of = make(kVectors);
    EXPECT_EQ(of.default_of("VEC"), Value(8));
    EXPECT_EQ(of.default_of("VEC", {{"T", "float"}, {"VEC", 1}}), Value(4)) << "its own value does not count";
    EXPECT_EQ(of.default_of("PAD", {{"T", "float"}}), Value(4));
    EXPECT_EQ(of.default_of("PAD", {{"T", "float"}, {"VEC", 1}}), Value(1));
    EXPECT_THAT(variant_error([&] { static_cast<void>(of.default_of("VECC")); }),
                HasSubstr("did you mean VEC?"));
    EXPECT_THAT(variant_error([&] {
                    static_cast<void>(of.default_of("VEC", {{"T", "int"}}));
                }),
                HasSubstr("T = int"));
}

TEST(Default, MayBeAConstantExpression) {
    const Template of = make("//@ param A int in -7..7 = -(2 + 3)\n//@ param B int in 1, 2 = sizeof(half)\n");
    EXPECT_EQ(text_of(of), "k A=-5 B=2");
    EXPECT_TRUE(of.parameter("A")->default_uses.empty());
}

TEST(Default, ThatIsNoneOfTheValuesIsAnErrorOfTheVariant) {
    const Template of = make(
        "//@ param T type in float, half = float\n//@ param VEC int in 1, 4 = 16 / sizeof(T)\n"
        "//@ param A int in 0..9 = 1\n//@ param B int in 0..9 = 4 / A\n");
    EXPECT_EQ(variant_error([&] {
                  of.variant({{"T", "half"}});
              }),
              "k: the default 16 / sizeof(T) of VEC is 8 with T = half, not one of its values, 1, 4; give "
              "VEC a value");
    EXPECT_EQ(
        variant_error([&] {
            of.variant({{"A", 0}});
        }),
        "k: the default of B can't be computed with A = 0, since 4 / A divides by zero; give B a value");
    EXPECT_EQ(text_of(of, {{"T", "half"}, {"VEC", 1}}), "k T=half VEC=1 A=1 B=4");
    EXPECT_EQ(of.default_of("B", {{"T", "half"}}), Value(4)) << "what it does not use may be wrong";
    EXPECT_EQ(of.variants().size(), 2u * 2 * 10 * 10) << "a walk needs no defaults";
}

TEST(Default, Errors) {
    const auto expect_error = [](const std::string& lines, int line, int column, const std::string& part) {
        expect_template_error(template_text(lines), line, column, part);
    };
    expect_error("//@ param A int in 1, 2 = A\n", 2, 27, "the default of A depends on itself");
    expect_error("//@ param A int in 1, 2 = B\n//@ param B int in 1, 2 = A + 0\n", 2, 27,
                 "the default of A depends on itself, through B");
    expect_error("//@ param T type in double = double\n//@ param A int in 1, 4 = 16 / sizeof(T)\n", 3, 27,
                 "the default 16 / sizeof(T) of A is 2 with T = double, not one of its values, 1, 4");
    expect_error("//@ param A int in 0..2 = 2 / (1 - 1)\n", 2, 27, "divides by zero");
    expect_error("//@ param A int in 1, 2 = 1 < 2\n", 2, 27,
                 "the default of A must be a number; 1 < 2 is not");
    expect_error("//@ param A bool = 1 + 1\n", 2, 20, "must be true or false");
    expect_error("//@ param T type in half = half\n//@ param U type in half = sizeof(T)\n", 3, 28,
                 "the default of U must be a type");
    expect_error("//@ param A int in 1..64 = device.warp_size\n", 2, 28, "can't depend on the device");
    expect_error("//@ param A int in 1..64 = m + 1\n", 2, 28,
                 "m is an argument of the kernel, known only at launch");
    expect_error("//@ param A int in 1..64 = threads + 1\n", 2, 28, "threads is not known here");
    expect_error("//@ param A int in 1, 2 = 1 + 1 \"t\" 3\n", 2, 37, "unexpected 3");
}

std::vector<std::string> expanded(const std::string& line) {
    const Manifest manifest = Manifest::parse(line + "\n", "list.txt");
    std::vector<std::string> texts;
    for (const Variant& variant : manifest.lines.front().variants(make(kVectors), "list.txt"))
        texts.push_back(variant.text());
    return texts;
}

TEST(Default, OfAManifestGoesWithEachCombination) {
    EXPECT_EQ(expanded("k T=half,float OUT=half"),
              (std::vector<std::string>{"k T=half VEC=8 PAD=0 SWIZZLE=true OUT=half",
                                        "k T=float VEC=4 PAD=4 SWIZZLE=false OUT=half"}));
    EXPECT_EQ(expanded("k T=*"),
              (std::vector<std::string>{"k T=half VEC=8 PAD=0 SWIZZLE=true OUT=half",
                                        "k T=float VEC=4 PAD=4 SWIZZLE=false OUT=float",
                                        "k T=double VEC=2 PAD=2 SWIZZLE=false OUT=double"}));
    EXPECT_EQ(expanded("k SWIZZLE=* T=float PAD=0,2").size(), 4u);
    EXPECT_EQ(expanded("k VEC=* T=double SWIZZLE=false"),
              (std::vector<std::string>{"k T=double VEC=1 PAD=1 SWIZZLE=false OUT=double",
                                        "k T=double VEC=2 PAD=2 SWIZZLE=false OUT=double",
                                        "k T=double VEC=4 PAD=4 SWIZZLE=false OUT=double",
                                        "k T=double VEC=8 PAD=8 SWIZZLE=false OUT=double"}));
}

}  // namespace
}  // namespace kiln
