// SPDX-License-Identifier: Apache-2.0
//
// What a scan finds in a text, however it is written.
#include "base/preprocessor_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What a scan finds: "include <a.h>", "__has_include FILE" for tokens, "mention HAS".
std::vector<std::string> items_of(std::string_view text) {
    std::vector<std::string> items;
    for (const PreprocessorItem& item : scan_preprocessor(text).items) {
        const std::string name(item.file.name);
        const bool is_quoted = item.file.form == NamedFile::Form::quoted;
        const bool is_mention = item.kind == PreprocessorItem::Kind::mention;
        items.push_back((is_mention ? "mention " : "") + std::string(item.word) + " " +
                        (item.file.form == NamedFile::Form::tokens ? name
                         : is_quoted                               ? '"' + name + '"'
                                                                   : '<' + name + '>'));
    }
    return items;
}

TEST(PreprocessorScan, FindsIncludesAndMacrosWithoutAPreprocessor) {
    const std::string text =
        "#include <a.h> // one\n # include\t\"b.h\"\n#if 0\n#include_next <c.h>\n#endif\n"
        "#define D \"d.h\"\n#define E <e/F.h>\n#define F(x) x\n#define G 1\n#define H dir/part // of a path\n"
        "#include D\nint x; # include <no.h>\n#if defined(X) && __has_include(<q.h>)\n#endif\n#include "
        "<>\n#include";
    EXPECT_THAT(items_of(text), ElementsAre("include <a.h>", "include \"b.h\"", "include_next <c.h>",
                                            "include D", "__has_include <q.h>", "include <>", "include "));
    const PreprocessorScan scan = scan_preprocessor(text);
    std::vector<std::string> macros;
    for (const auto& [name, has_parameters, parameters, value] : scan.definitions)
        macros.push_back(std::string(name) + (has_parameters ? "(" + std::string(parameters) + ")" : "") +
                         "=" + std::string(value));
    EXPECT_THAT(macros, ElementsAre("D=\"d.h\"", "E=<e/F.h>", "F(x)=x", "G=1", "H=dir/part"));
}

TEST(PreprocessorScan, ReadsLinesAsAPreprocessorDoes) {
    for (const char* line : {"/* c */ #include \"f\"", "#include /* c */ \"f\"", "%:include \"f\"",
                             "#include \\\n\"f\"", "#inc\\\nlude \"f\"", "\xef\xbb\xbf#include \"f\"",
                             "/* a\n b */ #include \"f\"", "# /**/ include \"f\" x"})
        EXPECT_THAT(items_of(line), ElementsAre("include \"f\"")) << line;
    EXPECT_THAT(items_of("#include E \"f\" // c\n#include </f GT\n"),
                ElementsAre("include E \"f\"", "include </f GT"));
    for (const char* text :
         {"R\"(\n#include \"f\"\n)\"", "/*\n#include \"f\"\n*/", "// \\\n#include \"f\"\n"})
        EXPECT_THAT(items_of(text), IsEmpty()) << text;
    const PreprocessorScan scan = scan_preprocessor("#define X /* c */ \"x\"\n#define \\\n P \"/x\"\n");
    EXPECT_EQ(scan.definitions.at(0).value, "\"x\"");
    EXPECT_EQ(scan.definitions.at(1).name, "P");
    EXPECT_EQ(scan.definitions.at(1).value, "\"/x\"");
}

TEST(PreprocessorScan, FindsEveryQuestion) {
    EXPECT_THAT(items_of("#if ___has_include__has_includes(<no.h>)\n#if _ && __has_include(<a.h>) || "
                         "__has_include ( /**/\"b.h\")\n"
                         "#elif __has_include_next(<c.h>)\n#if __has_include(F(x) G)\n#__has_inclu"),
                ElementsAre("__has_include <a.h>", "__has_include \"b.h\"", "__has_include_next <c.h>",
                            "__has_include F(x) G"));
    EXPECT_THAT(items_of("#define HAS __has_include\n"), ElementsAre("mention __has_include "));
    EXPECT_THAT(items_of("#ifdef __has_include\n#if defined __has_include && defined ( __has_embed )\n"
                         "#define __has_include(x) 0\n#undef __has_include\n#error no __has_include\n"),
                IsEmpty());
}

}  // namespace
}  // namespace kiln
