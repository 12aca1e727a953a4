// SPDX-License-Identifier: Apache-2.0
//
// Parameters that are floats: their lines, values, texts and constants.
#include <kiln/manifest.h>

#include <cmath>
#include <limits>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;
using test::variant_error;
using testing::ElementsAre;
using testing::HasSubstr;

std::string constant(const Variant& variant) {
    const std::string text = variant.source(Backend::cuda).text;
    const std::size_t begin = text.find("constexpr float ");
    return text.substr(begin, text.find(';', begin) - begin);
}

TEST(FloatParameter, Lines) {
    const Template any = make("//@ param ALPHA float = -1.5e-3 \"a factor\"\n");
    const Parameter& alpha = any.parameters()[0];
    EXPECT_EQ(alpha.kind, ParameterKind::real);
    EXPECT_TRUE(alpha.allowed.empty());
    EXPECT_EQ(alpha.allowed_text(), "any finite float");
    EXPECT_EQ(alpha.default_value, Value(-1.5e-3f));
    EXPECT_EQ(alpha.default_value.text(), "-0.0015");
    EXPECT_EQ(alpha.text, "a factor");
    const Parameter listed = make("//@ param BETA float in 0,0.5,.25, 1=.5\n").parameters()[0];
    EXPECT_EQ(listed.allowed, (std::vector<Value>{0.0f, 0.5f, 0.25f, 1.0f}));
    EXPECT_EQ(listed.allowed_text(), "0, 0.5, 0.25, 1");
    EXPECT_EQ(listed.default_value, Value(0.5f));
}

TEST(FloatParameter, BadLines) {
    const auto expect_error = [](const std::string& rest, int column, const std::string& part) {
        expect_template_error(template_text("//@ param A float " + rest + "\n"), 2, column, part);
    };
    expect_error("", 19, "expected in and the allowed values");
    expect_error("= x", 21, "expected a value, a decimal number, found x");
    expect_error("= nan", 21, "expected a value, a decimal number, found nan");
    expect_error("= -inf", 21, "expected a value, a decimal number, found -");
    expect_error("= 0.5f", 21, "0.5f is not a decimal number");
    expect_error("= 0x10", 21, "0x10 is not a decimal number");
    expect_error("= 1.2.3", 21, "1.2.3 is not a decimal number");
    expect_error("= 1e", 21, "1e is not a decimal number");
    expect_error("= .", 21, "expected a value, a decimal number, found .");
    expect_error("= 1e39", 21, "1e39 is out of the range of float");
    expect_error("= 1e-50", 21, "1e-50 is out of the range of float");
    expect_error("= 1 2", 23, "unexpected 2 after the parameter");
    expect_error("in 0, 1, -0 = 0", 28, "the value 0 is listed twice");
    expect_error("in 0, 1 = 0.5", 29, "the default 0.5 of A is not one of its values, 0, 1");
    expect_error("in 0..1 = 0", 22, "0..1 is not a decimal number");
    expect_template_error(template_text("//@ param A real = 1\n"), 2, 13,
                          "expected the parameter's kind, int, bool, type, float or code, found real");
    expect_template_error(template_text("//@ param A float = 1\n//@ require A > 0\n"), 3, 13,
                          "A is a float, and expressions compute with integers");
}

TEST(FloatParameter, ValuesAndTexts) {
    const Template any = make("//@ param A float = 1\n");
    const auto text = [&](const Value& value) { return any.variant({{"A", value}}).value("A").text(); };
    EXPECT_EQ(text(0.1f), "0.1");
    EXPECT_EQ(text(0.1), "0.1") << "a double is rounded";
    EXPECT_EQ(text(3), "3");
    EXPECT_EQ(text(1e-3f), "0.001");
    EXPECT_EQ(text(16777216), "16777216");
    EXPECT_EQ(text(16777217), "16777216") << "an integer too, as in a text";
    EXPECT_EQ(text("16777217"), "16777216");
    EXPECT_EQ(text(std::numeric_limits<int>::max()), text("2147483647"));
    EXPECT_EQ(text(0.0), "0");
    EXPECT_EQ(text(1e-45), "1e-45");
    EXPECT_EQ(text(std::numeric_limits<float>::denorm_min()), "1e-45");
    EXPECT_EQ(text(-std::numeric_limits<float>::max()), "-3.4028235e+38");
    for (const float value : {0.1f, -1e-45f, 3.4028235e38f, 1 / 3.0f, -0.75f, 1e10f}) {
        const Value back = any.parameters()[0].parse(Value(value).text());
        EXPECT_TRUE(back.is_float());
        EXPECT_EQ(back.as_float(), value);
        EXPECT_EQ(any.variant({{"A", value}}).value("A").as_float(), value);
    }
    EXPECT_EQ(any.variant().text(), "k A=1");
    EXPECT_EQ(any.variant({{"A", 0.5f}}).text(), "k A=0.5");
    const Variant zero = any.variant({{"A", 0.0f}}), minus_zero = any.variant({{"A", -0.0f}});
    EXPECT_EQ(zero, minus_zero);
    EXPECT_EQ(zero.hash(), minus_zero.hash());
    EXPECT_EQ(zero.text(), minus_zero.text());
    EXPECT_FALSE(std::signbit(minus_zero.value("A").as_float()));
    EXPECT_EQ(constant(zero), constant(minus_zero));
    EXPECT_EQ(Value(-0.0f).text(), "0");
#if defined(__SSE2__)
    const unsigned usual = _mm_getcsr();
    _mm_setcsr(usual | 0x8040);  // as -ffast-math does in all of a program
    const std::string denormal = Value(1e-40f).text();
    _mm_setcsr(usual);
    EXPECT_EQ(denormal, "1e-40");
#endif
    EXPECT_NE(any.variant({{"A", 0.5f}}), any.variant({{"A", -0.5f}}));
    EXPECT_NE(any.variant({{"A", 0.5f}}).hash(), any.variant({{"A", -0.5f}}).hash());
}

TEST(FloatParameter, BadValues) {
    const Template any = make("//@ param A float = 1\n"),
                   listed = make("//@ param A float in 0, 0.5, 1 = 1\n");
    const auto error = [](const Template& of, const Value& value) {
        return variant_error([&] { of.variant({{"A", value}}); });
    };
    EXPECT_EQ(error(any, std::numeric_limits<float>::infinity()),
              "k: A = inf is not a finite float (1 by default)");
    EXPECT_THAT(error(any, std::numeric_limits<float>::quiet_NaN()), HasSubstr("is not a finite float"));
    for (const auto& [number, written] :
         {std::pair(1e300, "1e+300"), std::pair(-1e39, "-1e+39"), std::pair(1e-300, "1e-300")}) {
        EXPECT_EQ(error(any, number),
                  "k: A = " + std::string(written) + " is out of the range of float (1 by default)");
        EXPECT_EQ(error(any, written), error(any, number));
    }
    EXPECT_THAT(error(any, std::numeric_limits<double>::infinity()),
                HasSubstr("A = inf is not a finite float"));
    EXPECT_THAT(error(any, "half"), HasSubstr("A = half is not a finite float"));
    EXPECT_THAT(error(any, true), HasSubstr("A = true is not a finite float"));
    EXPECT_EQ(error(listed, 0.75f), "k: A = 0.75 is not one of 0, 0.5, 1; the nearest is 0.5 or 1");
    EXPECT_EQ(error(listed, -7), "k: A = -7 is not one of 0, 0.5, 1; the nearest is 0");
    EXPECT_EQ(error(listed, "x"),
              "k: A = x is not a finite float; it must be one of 0, 0.5, 1 (1 by default)");
    const auto parse_error = [&](const std::string& text) {
        return variant_error([&] { listed.parameters()[0].parse(text); });
    };
    for (const std::string text :
         {"", "x", "nan", "-inf", "inf", "1f", "0.5 ", " 1", "+1", "--1", "0x1p3", "1,0"})
        EXPECT_EQ(parse_error(text),
                  "A = " + text + " is not a finite float; it must be one of 0, 0.5, 1 (1 by default)");
    EXPECT_EQ(parse_error("1e40"),
              "A = 1e40 is out of the range of float; it must be one of 0, 0.5, 1 (1 by default)");
    EXPECT_EQ(listed.parameters()[0].parse("5e-1"), Value(0.5f));
    EXPECT_EQ(variant_error([&] {
                  make("//@ param N int in 1, 2 = 1\n").variant({{"N", 0.5f}});
              }),
              "k: N = 0.5 is not an integer; it must be one of 1, 2 (1 by default)");
}

TEST(FloatParameter, Enumerating) {
    const auto texts = [](const std::vector<Variant>& variants) {
        std::vector<std::string> result;
        for (const Variant& variant : variants) result.push_back(variant.text());
        return result;
    };
    const Template both = make("//@ param A float = 2\n//@ param B float in 1, 0, -0.5 = 1\n");
    EXPECT_THAT(texts(both.variants()), ElementsAre("k A=2 B=1", "k A=2 B=0", "k A=2 B=-0.5"));
    EXPECT_THAT(texts(both.variants({{"A", 7}, {"B", 0}})), ElementsAre("k A=7 B=0"));

    const Manifest manifest = Manifest::parse("k A=3,-1,1e-3,-1,-0 B=*\nk A=* B=-0.5\n", "m.txt");
    EXPECT_THAT(texts(manifest.lines[0].variants(both, "m.txt")),
                ElementsAre("k A=-1 B=1", "k A=-1 B=0", "k A=-1 B=-0.5", "k A=0 B=1", "k A=0 B=0",
                            "k A=0 B=-0.5", "k A=0.001 B=1", "k A=0.001 B=0", "k A=0.001 B=-0.5", "k A=3 B=1",
                            "k A=3 B=0", "k A=3 B=-0.5"));
    EXPECT_THAT(texts(manifest.lines[1].variants(both, "m.txt")), ElementsAre("k A=2 B=-0.5"));
}

TEST(FloatParameter, BesideRulesOfOthers) {
    const Template mixed = make(
        "//@ param A float = 2\n//@ param N int in 1, 2, 4 = 1\n//@ param M int in 1, 2 = 1\n"
        "//@ require N == 1 || N / M == 3\n");
    EXPECT_THAT(variant_error([&] { mixed.variant({{"A", 0.25f}, {"N", 2}}); }), HasSubstr("N = 1 would do"));
    EXPECT_EQ(mixed.variants().size(), 2u);
}

TEST(FloatParameter, ConstantsAreExact) {
    const Template any = make("//@ param ALPHA float = 1\n");
    const auto text = [&](float value) { return constant(any.variant({{"ALPHA", value}})); };
    EXPECT_EQ(text(0.75f), "constexpr float ALPHA = 0x1.8p-1f");
    EXPECT_EQ(text(-1), "constexpr float ALPHA = -0x1p+0f");
    EXPECT_EQ(text(0), "constexpr float ALPHA = 0x0p+0f");
    EXPECT_EQ(text(1), "constexpr float ALPHA = 0x1p+0f");
    EXPECT_EQ(text(0.1f), "constexpr float ALPHA = 0x1.99999ap-4f");
    EXPECT_EQ(text(std::numeric_limits<float>::max()), "constexpr float ALPHA = 0x1.fffffep+127f");
    EXPECT_EQ(text(std::numeric_limits<float>::min()), "constexpr float ALPHA = 0x1p-126f");
    // C libraries do not agree on these.
    EXPECT_EQ(text(std::numeric_limits<float>::denorm_min()), "constexpr float ALPHA = 0x0.000002p-126f");
    EXPECT_EQ(text(-1e-40f), "constexpr float ALPHA = -0x0.022d84p-126f");
    EXPECT_EQ(text(std::nextafter(std::numeric_limits<float>::min(), 0.0f)),
              "constexpr float ALPHA = 0x0.fffffep-126f");
    for (const float value : {0.1f, 1e-45f, 3.4028235e38f, 1 / 3.0f, 1.17549421e-38f}) {
        std::string literal = text(value);
        literal = literal.substr(literal.find("0x"));
        EXPECT_EQ(std::strtof(literal.c_str(), nullptr), value) << literal;
    }
}

}  // namespace
}  // namespace kiln
