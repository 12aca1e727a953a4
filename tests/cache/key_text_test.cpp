// SPDX-License-Identifier: Apache-2.0
//
// Reading keys back, and telling two of them apart the way a person would.
#include "cache/key_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/template.h>

#include "cache/build_key.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Ingredients {
    Target target{Backend::cuda, "sm_90a", {}};
    std::string compiler = "nvrtc 13.0 65be0db3";
    std::vector<std::string> options = {"--std=c++17", "-lineinfo"};
    std::string file = "scale.cu";
    std::string entry = "scale";
    std::vector<Header> headers = {{"kiln/device.h", "// prelude\n"}, {"my own.h", "int x;\n"}};
    std::string head =
        "#include \"kiln/device.h\"\nconstexpr int BM = 64;\nconstexpr bool VEC = true;\n"
        "using T = kiln::half;\n#line 1 \"scale.cu\"\n";
    std::string body = "// one\n// two\nint three;\n// four\n";

    std::string text() const {
        return make_build_key(target, compiler, options, {file, entry, head + body, headers}).text;
    }
};

std::string described(const IngredientDifference& difference) {
    return difference.ingredient + ": " + difference.wanted + " | " + difference.found;
}

/// From a key to one that was changed.
template <class Change>
std::vector<std::string> differences(Change change) {
    Ingredients changed;
    change(changed);
    std::vector<std::string> lines;
    for (const auto& difference : compare_keys(Ingredients().text(), changed.text()))
        lines.push_back(described(difference));
    return lines;
}

TEST(KeyText, ReportsFunctionsOfTheCaller) {
    const auto with = [](const std::string& body) {
        Ingredients one;
        one.head.insert(one.head.find("#line"),
                        "constexpr float A = 0x1p-1f;\nstatic __device__ __forceinline__ auto F(float x) {\n"
                        "#line 1 \"scale.F\"\n" +
                            body + "\n}\n");
        return one.text();
    };
    std::vector<std::string> lines;
    for (const auto& difference : compare_keys(with("if (x) {\n}\nreturn x;"), with("return 1;")))
        lines.push_back(described(difference));
    EXPECT_THAT(lines, ElementsAre(R"(F: "if (x) {\n}\nreturn x;" | "return 1;")"));
}

TEST(KeyText, GivesTheIngredientsBack) {
    const std::string text = Ingredients().text();
    const auto ingredients = parse_key_text(text);
    ASSERT_TRUE(ingredients);
    std::vector<std::string> tags;
    for (const Ingredient& one : *ingredients) tags.emplace_back(one.tag);
    EXPECT_THAT(tags, ElementsAre("backend", "arch", "compiler", "option", "option", "file", "entry",
                                  "header", "header", "source"));
    EXPECT_EQ((*ingredients)[1].value, "sm_90a");
    EXPECT_EQ((*ingredients)[4].value, "-lineinfo");
    EXPECT_THAT(std::string((*ingredients)[8].value), testing::StartsWith("my own.h "));
    EXPECT_EQ(ingredients->back().value, Ingredients().head + Ingredients().body);
}

TEST(KeyText, ValuesThatLookLikeFieldsStayValues) {
    Ingredients ingredients;
    ingredients.options = {"-x\noption 2\n-y", "", "\n"};
    const std::string text = ingredients.text();
    const auto parsed = parse_key_text(text);
    ASSERT_TRUE(parsed);
    EXPECT_EQ((*parsed)[3].value, "-x\noption 2\n-y");
    EXPECT_EQ((*parsed)[4].value, "");
    EXPECT_EQ((*parsed)[5].value, "\n");
}

TEST(KeyText, EveryTruncationAndAddedByteIsNoKey) {
    const std::string text = Ingredients().text();
    for (std::size_t length = 0; length < text.size(); ++length) {
        EXPECT_FALSE(parse_key_text(std::string_view(text).substr(0, length))) << length;
        EXPECT_FALSE(summarise_key(std::string_view(text).substr(0, length))) << length;
    }
    EXPECT_FALSE(parse_key_text(text + "\n"));
    EXPECT_FALSE(parse_key_text(text + "source 0\n\n"));
}

TEST(KeyText, WhatIsNotCanonicalIsNoKey) {
    const auto with = [](std::string from, std::string to) {
        std::string text = Ingredients().text();
        text.replace(text.find(from), from.size(), to);
        return text;
    };
    EXPECT_TRUE(parse_key_text(with("arch 6\n", "arch 6\n")));
    for (const char* length : {"06", "+6", " 6", "5", "7", "-1", "0x6", "6 ", "", "18446744073709551615",
                               "18446744073709551614", "99999999999999999999999"})
        EXPECT_FALSE(parse_key_text(with("arch 6\n", "arch " + std::string(length) + "\n"))) << length;
    EXPECT_FALSE(parse_key_text(with("kiln-key 1", "kiln-key 2")));
    EXPECT_FALSE(parse_key_text(with("arch 6\nsm_90a\n", "")));
    EXPECT_FALSE(parse_key_text(with("arch 6\n", "Arch 6\n")));
    EXPECT_FALSE(parse_key_text(with("arch 6\nsm_90a\n", "arch 6\nsm_90a\narch 6\nsm_90a\n")));
}

TEST(KeyText, SummarisesAsAPersonNamesAVariant) {
    const auto summary = summarise_key(Ingredients().text());
    ASSERT_TRUE(summary);
    EXPECT_EQ(summary->backend, Backend::cuda);
    EXPECT_EQ(summary->arch, "sm_90a");
    EXPECT_EQ(summary->kernel, "scale");
    EXPECT_EQ(summary->variant, "scale BM=64 VEC=true T=half");
}

TEST(KeyText, TheFirstKernelNamesIt) {
    Source source{"scale.cu", "scale", "text", {}};
    source.more_entries = {"second", "third"};
    const std::string text = make_build_key({Backend::cuda, "sm_90a", {}}, {"c"}, {}, source).text;
    const auto ingredients = parse_key_text(text);
    ASSERT_TRUE(ingredients);
    EXPECT_EQ(std::ranges::count(*ingredients, "entry", &Ingredient::tag), 3);
    EXPECT_EQ(summarise_key(text)->kernel, "scale");
    const std::string open = make_open_key({Backend::cuda, "sm_90a", {}}, {}, source).text;
    EXPECT_TRUE(is_made_by_any(text, open, Includes::same));
    source.more_entries.pop_back();
    EXPECT_FALSE(is_made_by_any(make_build_key({Backend::cuda, "sm_90a", {}}, {"c"}, {}, source).text, open,
                                Includes::same));
}

TEST(KeyText, OtherHeadersOfIncludeDirectoriesServeOnlyWhereTheyMay) {
    const Target target{Backend::cuda, "sm_90a", {}};
    Source source{"scale.cu", "scale", "text", {}};
    const auto key = [&](const std::string& includes) {
        source.include_digest = includes;
        return make_build_key(target, {"c"}, {}, source).text;
    };
    for (const char* here : {"", "one"}) {
        source.include_digest = here;
        const std::string open = make_open_key(target, {}, source).text;
        for (const char* there : {"", "one", "two"}) {
            EXPECT_EQ(is_made_by_any(key(there), open, Includes::same), std::string(here) == there)
                << here << " " << there;
            EXPECT_TRUE(is_made_by_any(key(there), open, Includes::any)) << here << " " << there;
        }
        source.text = "another";
        EXPECT_FALSE(is_made_by_any(key(here), open, Includes::any));
        source.text = "text";
    }
}

TEST(KeyText, SummaryOfARealVariantIsItsOwnText) {
    const Template of = Template::parse(
        "//@ kernel k\n//@ param A int in -5, 9223372036854775807, -9223372036854775808 = -5\n"
        "//@ param B bool = false\n"
        "//@ param T type in half, bfloat16, float, double, int8_t, unsigned, int64_t = half\n"
        "//@ block 32\n//@ grid n\nextern \"C\" __global__ void k(int n) {}\n",
        "k.cu");
    const std::vector<Variant> variants = of.variants();
    ASSERT_EQ(variants.size(), 3u * 2u * 7u);
    for (const Variant& variant : variants) {
        const auto key = make_build_key({Backend::hip, "gfx90a", {}}, "c", {}, variant.source(Backend::hip));
        const auto summary = summarise_key(key.text);
        ASSERT_TRUE(summary);
        EXPECT_EQ(summary->variant, variant.text());
        EXPECT_EQ(summary->backend, Backend::hip);
    }
}

TEST(KeyText, ASourceWithoutOurHeadHasNoConstants) {
    Ingredients ingredients;
    ingredients.head = "constexpr int BM = 64;\n";
    EXPECT_EQ(summarise_key(ingredients.text())->variant, "scale");
    // Begun, but never the #line.
    ingredients.head = "#include \"kiln/device.h\"\nconstexpr int BM = 64;\n";
    EXPECT_EQ(summarise_key(ingredients.text())->variant, "scale");
}

TEST(CompareKeys, EqualKeysDoNotDiffer) {
    EXPECT_THAT(differences([](Ingredients&) {}), IsEmpty());
}

TEST(CompareKeys, NamesEachIngredient) {
    EXPECT_THAT(differences([](Ingredients& key) { key.target.backend = Backend::hip; }),
                ElementsAre("backend: cuda | hip"));
    EXPECT_THAT(differences([](Ingredients& key) { key.target.arch = "sm_90"; }),
                ElementsAre("arch: sm_90a | sm_90"));
    EXPECT_THAT(differences([](Ingredients& key) { key.compiler = "nvrtc 13.0 aaaaaaaa"; }),
                ElementsAre("compiler: nvrtc 13.0 65be0db3 | nvrtc 13.0 aaaaaaaa"));
    EXPECT_THAT(differences([](Ingredients& key) { key.file = "other.cu"; }),
                ElementsAre("file: scale.cu | other.cu"));
    EXPECT_THAT(differences([](Ingredients& key) { key.entry = "other"; }),
                ElementsAre("entry: scale | other"));
}

TEST(CompareKeys, OptionsAreASet) {
    EXPECT_THAT(differences([](Ingredients& key) { key.options[0] = "--std=c++20"; }),
                ElementsAre("option: --std=c++17 | --std=c++20"));
    EXPECT_THAT(differences([](Ingredients& key) { key.options.pop_back(); }),
                ElementsAre("option: -lineinfo | "));
    EXPECT_THAT(differences([](Ingredients& key) { key.options.insert(key.options.begin(), "-G"); }),
                ElementsAre("option:  | -G"));
    EXPECT_THAT(differences([](Ingredients& key) {
                    key.options = {"-G", "--std=c++17"};
                }),
                ElementsAre("option: -lineinfo | ", "option:  | -G"));
    EXPECT_THAT(differences([](Ingredients& key) { std::swap(key.options[0], key.options[1]); }),
                ElementsAre("order of options: --std=c++17 | -lineinfo"));
    EXPECT_THAT(differences([](Ingredients& key) { key.options.push_back("-lineinfo"); }),
                ElementsAre("option:  | -lineinfo"));
}

TEST(CompareKeys, HeadersByName) {
    const auto changed = differences([](Ingredients& key) { key.headers[0].text += "\n"; });
    ASSERT_EQ(changed.size(), 1u);
    EXPECT_THAT(changed[0],
                testing::MatchesRegex("header kiln/device.h: digest [0-9a-f]+ . digest [0-9a-f]+"));
    EXPECT_THAT(differences([](Ingredients& key) { key.headers.pop_back(); }),
                ElementsAre(testing::MatchesRegex("header my own.h: digest [0-9a-f]+ . ")));
    EXPECT_THAT(differences([](Ingredients& key) {
                    key.headers.push_back({"new.h", ""});
                }),
                ElementsAre(testing::MatchesRegex("header new.h:  . digest [0-9a-f]+")));
    EXPECT_THAT(differences([](Ingredients& key) { std::swap(key.headers[0], key.headers[1]); }),
                ElementsAre("order of headers: kiln/device.h | my own.h"));
}

TEST(CompareKeys, ConstantsByNameNotAsLines) {
    EXPECT_THAT(differences([](Ingredients& key) {
                    key.head =
                        "#include \"kiln/device.h\"\nconstexpr int BM = 128;\nusing T = float;\n"
                        "constexpr int NEW = 1;\n#line 1 \"scale.cu\"\n";
                }),
                ElementsAre("BM: 64 | 128", "VEC: true | ", "T: half | float", "NEW:  | 1"));
}

TEST(CompareKeys, LinesByTheirNumberInTheTemplate) {
    EXPECT_THAT(differences([](Ingredients& key) { key.body = "// one\n// two\nint 3;\n// four\n"; }),
                ElementsAre("source line 3: int three; | int 3;"));
    EXPECT_THAT(
        differences([](Ingredients& key) { key.body = "// one\n// new\n// two\nint three;\n// four\n"; }),
        ElementsAre("source line 2:  | // new"));
    EXPECT_THAT(differences([](Ingredients& key) { key.body = "// two\nint three;\n\n// four\n"; }),
                ElementsAre("source line 1: // one | ", "source line 3:  | (blank)"));
    EXPECT_THAT(differences([](Ingredients& key) { key.body = "// one\n// 2\nint three;\n// 4\n"; }),
                ElementsAre("source line 2: // two | // 2", "source line 4: // four | // 4"));
}

TEST(CompareKeys, ShowsBlanksAtTheEndsWhereOnlyTheyDiffer) {
    EXPECT_THAT(differences([](Ingredients& key) { key.body = "// one\n\t// two \nint three;\n// four\n"; }),
                ElementsAre("source line 2: \"// two\" | \"\\t// two \""));
    EXPECT_THAT(differences([](Ingredients& key) { key.body.pop_back(); }),
                ElementsAre("source line 5: (blank) | "));
}

TEST(CompareKeys, LongValuesAreCutAroundTheirDifference) {
    const std::string start(500, 'a'), end(500, 'z');
    Ingredients a, b;
    a.compiler = start + "1" + end;
    b.compiler = start + "2" + end;
    const auto differences = compare_keys(a.text(), b.text());
    ASSERT_EQ(differences.size(), 1u);
    EXPECT_LT(differences[0].wanted.size(), 100u);
    EXPECT_THAT(differences[0].wanted, HasSubstr("a1z"));
    EXPECT_THAT(differences[0].found, HasSubstr("a2z"));
}

TEST(CompareKeys, SaysSomethingOfAnyTwoTexts) {
    const std::string key = Ingredients().text();
    EXPECT_THAT(compare_keys("garbage", key), Not(IsEmpty()));
    EXPECT_THAT(compare_keys(key, ""), Not(IsEmpty()));
    EXPECT_THAT(compare_keys("", ""), IsEmpty());
    // The same constants in another order are another key.
    Ingredients other;
    other.head =
        "#include \"kiln/device.h\"\nconstexpr bool VEC = true;\nconstexpr int BM = 64;\n"
        "using T = kiln::half;\n#line 1 \"scale.cu\"\n";
    EXPECT_THAT(compare_keys(key, other.text()), Not(IsEmpty()));
}

TEST(CompareKeys, LargeSourcesCostLittle) {
    Ingredients a, b;
    for (int i = 0; i < 100000; ++i) {
        a.body += "line " + std::to_string(i) + "\n";
        b.body += "row " + std::to_string(i) + "\n";
    }
    const auto all = compare_keys(a.text(), b.text());
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].ingredient, "source");
    // Of large sources with one change in the middle, that.
    b.body = a.body;
    b.body.replace(b.body.find("line 50000\n"), 4, "LINE");
    const auto one = compare_keys(a.text(), b.text());
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(described(one[0]), "source line 50005: line 50000 | LINE 50000");
}

TEST(CompareKeys, ManyLinesAreNotAllReported) {
    Ingredients a, b;
    a.body.clear(), b.body.clear();
    for (int i = 0; i < 200; ++i) {
        a.body += "a" + std::to_string(i) + "\n";
        b.body += "b" + std::to_string(i) + "\n";
    }
    const auto all = compare_keys(a.text(), b.text());
    ASSERT_EQ(all.size(), 51u);
    EXPECT_EQ(all.back().ingredient, "source, 150 more lines");
}

}  // namespace
}  // namespace kiln
