// SPDX-License-Identifier: Apache-2.0
//
// Parameters that are code: their lines, values, texts, and the functions they become.
#include <kiln/manifest.h>

#include "base/quoted_text.h"
#include "template/code_text.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;
using test::variant_error;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kLine =
    "//@ param F code = \"return \\\"a\\\"[0] + x;\" (float x, const int (&at)[2]) -> float \"of x\"\n";

Template functor() { return make("//@ param F code = \"return x;\" (float x) -> float\n"); }

TEST(CodeParameter, Lines) {
    const Template of = make(kLine);
    const Parameter& parameter = of.parameters()[0];
    EXPECT_EQ(parameter.kind, ParameterKind::code);
    EXPECT_EQ(parameter.default_value, Value(Code("return \"a\"[0] + x;")));
    EXPECT_EQ(parameter.signature, "(float x, const int (&at)[2])");
    EXPECT_EQ(parameter.result, "float");
    EXPECT_EQ(parameter.text, "of x");
    EXPECT_EQ(parameter.allowed_text(), "the body of float F(float x, const int (&at)[2])");
    EXPECT_EQ(parameter.default_text(), R"("return \"a\"[0] + x;")");
    const Parameter open = make("//@ param F code = \"\" () \"nothing\"\n").parameters()[0];
    EXPECT_EQ(open.result, "auto");
    EXPECT_EQ(open.signature, "()");
    EXPECT_EQ(open.text, "nothing");
    const Parameter wide =
        make("//@ param F code = \"return x;\" (kiln::half x) -> kiln::Vec<half, 2>\n").parameters()[0];
    EXPECT_EQ(wide.result, "kiln::Vec<half, 2>");
}

TEST(CodeParameter, BadLines) {
    const auto expect_error = [](const std::string& rest, int column, const std::string& part) {
        expect_template_error(template_text("//@ param F code " + rest + "\n"), 2, column, part);
    };
    expect_error("", 18, "expected = and the default value");
    expect_error("in 1, 2 = 1", 18, "expected = and the default value");
    expect_error("= x", 20,
                 "expected the default of F, the body of a function such as \"return x;\", found x");
    expect_error("= \"return (x;\" (float x)", 20,
                 "the default of F is no body of a function: line 1, column 8");
    expect_error("= \"return x;\"", 31, "expected the arguments of F");
    expect_error("= \"return x;\" (float x", 32, "this ( has no )");
    expect_error("= \"return x;\" (float x) ->", 44, "expected the type that F returns");
    expect_error("= \"return x;\" (float x) - float", 44, "expected > of ->");
    expect_error("= \"return x;\" (float x) 3", 42, "unexpected 3");
    expect_template_error(template_text("//@ param F code = \"return x;\" (float x)\n//@ require F > 0\n"), 3,
                          13, "F is code, and expressions compute with integers");
}

TEST(CodeParameter, BecomesAFunctionBehindTheConstants) {
    const Template of = make(
        "//@ param F code = \"return x;\" (float x) -> float\n//@ param B int in 1, 2 = 2\n"
        "//@ let C = B + 1\n");
    const auto text = [&](const Values& values) { return of.variant(values).source(Backend::cuda).text; };
    EXPECT_THAT(text({}), HasSubstr("constexpr int B = 2;\nconstexpr int C = 3;\n"
                                    "static __device__ __forceinline__ auto F(float x) -> float {\n"
                                    "#line 1 \"k.F\"\nreturn x;\n}\n#line 1 \"k.cu\"\n//@ kernel k\n"));
    const std::string given = text({{"F", "// B\nreturn B * x;  // end"}});
    EXPECT_THAT(given, HasSubstr("{\n#line 1 \"k.F\"\n// B\nreturn B * x;  // end\n}\n#line 1 \"k.cu\"\n"));
    for (const std::string& one : {text({}), given})
        EXPECT_THAT(one.substr(own_text_begin(one)), testing::StartsWith("#line 1 \"k.cu\"\n//@ kernel k\n"));
    EXPECT_EQ(own_text_begin("no line"), std::string::npos);
}

TEST(CodeParameter, ValuesAndTexts) {
    const Template of = functor();
    const Variant usual = of.variant(), same = of.variant({{"F", "return x;"}}),
                  other = of.variant({{"F", Code("return \"\\\\]\"[0];\n\treturn x;")}});
    EXPECT_EQ(usual, same);
    EXPECT_EQ(usual.hash(), same.hash());
    EXPECT_EQ(usual.text(), "k") << "the default is left out";
    EXPECT_EQ(other.text(), R"(k F="return \"\\\\]\"[0];\n\x09return x;")");
    EXPECT_FALSE(usual == other);
    EXPECT_NE(usual.hash(), other.hash());
    EXPECT_EQ(of.variant({{"F", other.value("F").text()}}), other) << "what is written can be read";
    EXPECT_EQ(of.variants({{"F", "return -x;"}}).at(0).value("F"), Value(Code("return -x;")));
    EXPECT_EQ(of.variants().size(), 1u);
    EXPECT_THAT(variant_error([&] { of.variant({{"F", 3}}); }), HasSubstr("F = 3 is not code"));
    EXPECT_THAT(variant_error([&] {
                    of.variant({{"F", "return (x;"}});
                }),
                HasSubstr("k: F is not the body of float F(float x): line 1, column 8: this ( has no )"));
    EXPECT_THAT(variant_error([&] { of.variant({{"F", Code("}")}}); }), HasSubstr("this } closes nothing"));
    EXPECT_THAT(variant_error([&] { of.variant({{"F", "\"return x;"}}); }), HasSubstr("begins with a quote"));
}

TEST(CodeParameter, WhatCannotBeABody) {
    const auto wrong = [](const std::string& body) { return wrong_in_code(body); };
    for (const char* body :
         {"", "return x;", "{ [](int) {}(1); }", "return '}' + \"{\"[0];", "// }\nreturn 1'000;",
          "/* ( */ return x;", "auto s = R\"a({)b\")a\";", "auto s = u8R\"({)\";", "return a %b;",
          "x = '\\'';", "x = \"\\\"\";", "a # b", "return a<::b>();", "x = \"<%\"; // %>", "return x;\r\n",
          "_Pragma(\"unroll\") for (;;) {}"})
        EXPECT_THAT(wrong(body), IsEmpty()) << body;
    EXPECT_EQ(wrong("if (x) {\n  return f(x];\n}"),
              "line 2, column 13: this ] closes a ( (line 2, column 11: it stands there)");
    EXPECT_EQ(wrong("return x; }"), "line 1, column 11: this } closes nothing");
    EXPECT_EQ(wrong("a;\n {"), "line 2, column 2: this { has no }");
    EXPECT_EQ(wrong("x = \"a;\n\";"), "line 1, column 5: this \" has no second one in its line");
    EXPECT_EQ(wrong("x = 'a"), "line 1, column 5: this ' has no second one in its line");
    EXPECT_EQ(wrong("x /* }"), "line 1, column 3: this comment has no end");
    EXPECT_EQ(wrong("x = R\"a()\""), "line 1, column 6: this raw string has no end");
    EXPECT_THAT(wrong("x;\n  #define x"), HasSubstr("line 2, column 3: there is a preprocessor line"));
    EXPECT_THAT(wrong("/* */ #define x"), HasSubstr("preprocessor line"));
    EXPECT_THAT(wrong("%:define x"), HasSubstr("preprocessor line"));
    EXPECT_EQ(wrong("return x; %>"), "line 1, column 11: %> is a digraph; write }");
    EXPECT_THAT(wrong("<% return x; }"), HasSubstr("<% is a digraph; write {"));
    EXPECT_THAT(wrong("x<:1]"), HasSubstr("<: is a digraph; write ["));
    EXPECT_THAT(wrong("x<:::y]"), HasSubstr("<: is a digraph; write ["));
    EXPECT_THAT(wrong("x[1:>"), HasSubstr(":> is a digraph; write ]"));
    EXPECT_THAT(wrong("x; // \r }"),
                HasSubstr("line 1, column 7: there is a carriage return without a line feed"));
    EXPECT_THAT(wrong("/* {\n#line 1 \"k.cu\" */"), HasSubstr("line 2, column 1: #line 1 \"...\" begins"));
    EXPECT_THAT(wrong("x = R\"(#line 1 \")\";"), HasSubstr("#line 1 \"...\" begins the template's own text"));
    EXPECT_THAT(wrong("x; // \\"), HasSubstr("line 1, column 7: a backslash continues the line"));
    EXPECT_THAT(wrong("/\\ \n/ }"), HasSubstr("a backslash continues the line"));
    EXPECT_THAT(wrong("//@ kernel"), HasSubstr("front matter"));
    // What is not part of the build's key.
    EXPECT_EQ(
        wrong("return 1;\n  x = __TIME__[7];"),
        "line 2, column 7: __TIME__: it changes from one compile to the next and is not part of the build's "
        "key; use a parameter");
    for (const char* body : {"x = __DATE__;", "x = __TIMESTAMP__;", "asm(\".incbin \\\"f\\\"\");",
                             "asm(\".inc\" \"bin f\");", "asm(R\"(.include f)\");"})
        EXPECT_THAT(wrong(body), HasSubstr("not part of the build's key")) << body;
    EXPECT_THAT(wrong("x = \"__TIME__\"; // __TIME__, .incbin"), IsEmpty());
    EXPECT_THAT(wrong(std::string("a\0b", 3)), HasSubstr("column 2: there is a NUL"));
    EXPECT_THAT(wrong(std::string(70'000, ' ')), HasSubstr("70000 bytes, and the most is 65536"));
}

TEST(CodeParameter, AResultThatIsExactIsSoWithTheDefault) {
    const Template of = make(
        "//@ param F code = \"return x;\" (float x)\n//@ size m = 8\n//@ size n = 8\n"
        "//@ output c [m, n] by r exact\n");
    EXPECT_TRUE(of.variant().problem().tensors[0].exact);
    EXPECT_FALSE(of.variant({{"F", "return 0.1f * x;"}}).problem().tensors[0].exact);
}

TEST(CodeParameter, ArgumentsCanBePassedOn) {
    EXPECT_EQ(argument_names("(float x, const int (&at)[2], kiln::Vec<float, 2> v, unsigned long long n)"),
              "x, at, v, n");
    EXPECT_EQ(argument_names("()"), "");
    EXPECT_EQ(argument_names("(float)"), std::nullopt);
    EXPECT_EQ(argument_names("(float x, int)"), std::nullopt);
}

TEST(CodeParameter, QuotedText) {
    std::string all;
    for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
    for (const std::string& text :
         {std::string(), std::string("return x;"), std::string("\\n\\x5d\\"), all}) {
        const std::string quoted = quoted_text(text);
        EXPECT_EQ(unquoted_text(quoted), text);
        for (const char c : quoted) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
    }
    for (const char* wrong :
         {"", "\"", "a", "\"a", "a\"", "\"a\"b\"", "\"\\\"", "\"\\q\"", "\"\\x1\"", "\"\\xgg\""})
        EXPECT_EQ(unquoted_text(wrong), std::nullopt) << wrong;
}

TEST(CodeParameter, Manifests) {
    const auto variants = [](const std::string& line) {
        std::vector<std::string> texts;
        for (const Variant& variant : Manifest::parse(line, "m").lines.at(0).variants(functor(), "m"))
            texts.push_back(variant.text());
        return texts;
    };
    EXPECT_THAT(variants(R"(k F="return x * 2 /* # @ = * , */;" @cuda # a comment)"),
                ElementsAre(R"(k F="return x * 2 /* # @ = * , */;")"));
    EXPECT_EQ(variants(R"(k F="return \"a b\"[0];","return -x;")").size(), 2u);
    EXPECT_THAT(variants("k F=*"), ElementsAre("k"));
    const auto message = [](const std::string& line) {
        try {
            Manifest::parse(line, "m");
        } catch (const TemplateError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_THAT(message(R"(k F="return x;)"), HasSubstr("m:1:5: the value of \"F\" has no closing quote"));
    EXPECT_THAT(message(R"(k F="return x;"y)"), HasSubstr("has no closing quote at its end"));
    EXPECT_THAT(message("k F=\"a\tb\""), HasSubstr("0x09"));
}

}  // namespace
}  // namespace kiln
