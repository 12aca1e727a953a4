// SPDX-License-Identifier: Apache-2.0
//
// The headers that reach the compilers: closure, order, and what stays out.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "template/embedded.h"
#include "template/includes.h"
#include "template_support.h"

namespace kiln {
namespace {

using Strings = std::vector<std::string>;
using test::template_text;

Strings names(const std::vector<Header>& headers) {
    Strings result;
    for (const Header& header : headers) result.push_back(header.name);
    return result;
}

/// Those that are not of the prelude.
Strings own_names(const Variant& variant, Backend backend = Backend::cuda) {
    Strings result;
    for (const Header& header : variant.source(backend).headers)
        if (!header.name.starts_with("kiln/")) result.push_back(header.name);
    return result;
}

TEST(Includes, Names) {
    EXPECT_EQ(
        included_names("#include \"a.h\"\n  #\tinclude\"b/c.h\" // x\n#include <d.h>\n// #include \"e.h\"\n"
                       "#include \"f.h\r\n#include \"\"\n#define X \"g.h\"\n#include \"h.h\""),
        (Strings{"a.h", "b/c.h", "h.h"}));
}

TEST(Includes, ClosureOfGivenHeaders) {
    const std::string text = "#include \"z.h\"\n#include \"missing.h\"\n" + template_text("");
    const Variant variant = Template::parse(text, "k.cu",
                                            {{"z.h", "#include \"a.h\"\n"},
                                             {"a.h", "#include \"z.h\"\n#include \"sub/b.h\"\n"},
                                             {"sub/b.h", "int b;\n"},
                                             {"unused.h", "int u;\n"}})
                                .variant();
    EXPECT_EQ(own_names(variant), (Strings{"a.h", "sub/b.h", "z.h"}));
    EXPECT_EQ(variant.source(Backend::cuda).headers[0].text, "#include \"z.h\"\n#include \"sub/b.h\"\n");
}

TEST(Includes, ThePreludeIsAlwaysThereAndOnlyThisBackends) {
    const Variant variant = test::make("").variant();
    const auto has = [&](Backend backend, const std::string& name) {
        return std::ranges::count(names(variant.source(backend).headers), name) == 1;
    };
    for (Backend backend : {Backend::cuda, Backend::hip, Backend::host}) {
        EXPECT_TRUE(has(backend, "kiln/device.h"));
        const auto headers = variant.source(backend).headers;
        EXPECT_TRUE(std::ranges::is_sorted(headers, {}, &Header::name));
    }
    const auto embedded = embedded_files();
    const auto device = std::ranges::find(embedded, "kiln/device.h", &EmbeddedFile::name);
    ASSERT_NE(device, embedded.end());
    EXPECT_EQ(variant.source(Backend::hip).headers.front().text, device->text);
}

TEST(Includes, HeadersOfAnotherBackendStayOut) {
    const HeaderFinder find = [](const std::string& name) -> std::optional<std::string> {
        if (name == "kiln/device.h")
            return "#include \"kiln/device_cuda.h\"\n#include \"kiln/device_hip.h\"\n#include "
                   "\"kiln/device_host.h\"\n";
        if (name == "kiln/device_host.h") return "#include \"kiln/host_abi.h\"\n#include \"math.h\"\n";
        const bool is_next_to_one = name.starts_with("kiln/kiln/") || name == "kiln/math.h";
        return is_next_to_one ? std::nullopt : std::optional<std::string>("");
    };
    const Includes includes("", "k.cu", find);
    EXPECT_EQ(names(includes.headers(Backend::cuda)), (Strings{"kiln/device.h", "kiln/device_cuda.h"}));
    EXPECT_EQ(names(includes.headers(Backend::hip)), (Strings{"kiln/device.h", "kiln/device_hip.h"}));
    EXPECT_EQ(names(includes.headers(Backend::host)),
              (Strings{"kiln/device.h", "kiln/device_host.h", "kiln/host_abi.h", "math.h"}));
}

TEST(Includes, DirectoryOfALoadedTemplate) {
    const TemporaryDirectory directory;
    const auto root = directory.path() / "root";
    std::filesystem::create_directories(root / "sub");
    write_text(root / "own.h", "#include \"sub/deep.h\"\n");
    write_text(root / "sub" / "deep.h", "#include \"own.h\"\n");
    write_text(root / "unused.h", "");
    write_text(root / "k.cu", "#include \"own.h\"\n" + template_text(""));
    EXPECT_EQ(own_names(Template::load(root / "k.cu").variant()), (Strings{"own.h", "sub/deep.h"}));
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(root);
    EXPECT_EQ(own_names(Template::load("k.cu").variant()), (Strings{"own.h", "sub/deep.h"}));
    std::filesystem::current_path(before);
}

// What parsing the lines, and the template behind them, says.
std::string error_of(const std::string& lines, std::vector<Header> headers = {}) {
    try {
        (void)Template::parse(lines + template_text(""), "dir/k.cu", std::move(headers));
    } catch (const TemplateError& error) {
        return error.what();
    }
    return {};
}

TEST(Includes, NamesThatLeaveTheDirectoryAreRejectedWithTheirLine) {
    for (const std::string name :
         {"\"/etc/x.h\"", "\"../x.h\"", "\"sub/../x.h\"", "</etc/x.h>", "<../x.h>", "\"kiln/../../x.h\""}) {
        SCOPED_TRACE(name);
        for (const std::string directive :
             {"#include ", "  #  include", "%:include ", "#inc\\\nlude ", "#include \\  \n ",
              "#/* x */include/**/", "/* x */ #include ", "#include_next ", "#import ", "#embed ",
              "#if 0\n#include ", "/* \\ */ \t#include ", "// \\ x\n#include "}) {
            const std::string message = error_of("int a;\n" + directive + name + "\n");
            EXPECT_THAT(message, testing::HasSubstr("not part of the build's key")) << directive;
            EXPECT_THAT(message, testing::StartsWith(directive.find("\n#include") != std::string::npos
                                                         ? "dir/k.cu:3:"
                                                         : "dir/k.cu:2:"))
                << directive;
        }
        for (const std::string question :
             {"#if __has_include(", "#if defined(X) && __has_inc\\\nlude ( ", "#elif __has_include_next(",
              "#if __has_embed(", "#define HAS __has_include("})
            EXPECT_THAT(error_of(question + name + ")\n"), testing::StartsWith("dir/k.cu:1:")) << question;
    }
    // Also where the header itself was given.
    EXPECT_THAT(error_of("#include \"../x.h\"\n", {{"../x.h", ""}}), testing::StartsWith("dir/k.cu:1:1: "));
}

TEST(Includes, ANameFromAMacroIsRejected) {
    for (const std::string line :
         {"#include FILE", "#include STR(x.h)", "%:include FILE", "#if __has_include(FILE)",
          "#define HAS(x) __has_include(x)", "#embed FILE"})
        EXPECT_THAT(error_of(line + "\n"),
                    testing::AllOf(testing::StartsWith("dir/k.cu:1:"), testing::HasSubstr("from a macro")))
            << line;
}

// What a macro asks for depends on where it is used.
TEST(Includes, AQuestionInAMacroIsRejected) {
    for (const std::string line :
         {"#define HAS __has_include", "#define HAS __has_include(<x.h>)",
          "#define HAS (defined(X) && __has_embed)", "#define APPLY(f, x) f(x)\\\n__has_include_next",
          "#if APPLY(__has_include, \"x.h\")", "#if __has_include(</x GT)"})
        EXPECT_THAT(error_of("int a;\n" + line + "\n"),
                    testing::AllOf(testing::StartsWith("dir/k.cu:"), testing::HasSubstr("the build's key")))
            << line;
    EXPECT_EQ(
        error_of(
            "#if !defined(__has_include) || !defined __has_include_next\n#define __has_include(x) 0\n#endif\n"
            "#error __has_include is missing\n"),
        "");
}

TEST(Includes, ACarriageReturnHidesNothing) {
    EXPECT_THAT(error_of("int a;\n//\r#include \"/x.h\"\n"),
                testing::StartsWith("dir/k.cu:2:3: there is a carriage return"));
    EXPECT_EQ(error_of("int a;\r\n"), "");
}

TEST(Includes, AByteOrderMarkHidesNothing) {
    EXPECT_THAT(error_of("#include \"a.h\"\n", {{"a.h", "\xef\xbb\xbf#include \"/x.h\"\n"}}),
                testing::StartsWith("dir/a.h:1:"));
}

// Names in a template's own headers are below the template's directory, so that the answer would be no.
TEST(Includes, AQuestionForAFileNextToAHeaderBelowIsRejected) {
    const std::vector<Header> headers = {{"sub/a.h", "\n#if __has_include(\"b.h\")\n#endif\n"},
                                         {"sub/b.h", ""}};
    EXPECT_THAT(
        error_of("#include \"sub/a.h\"\n", headers),
        testing::AllOf(testing::StartsWith("dir/sub/a.h:2:5: "), testing::HasSubstr("write \"sub/b.h\"")));
    EXPECT_EQ(error_of("#include \"sub/a.h\"\n", {headers[0], headers[1], {"b.h", ""}}), "");
    EXPECT_EQ(error_of("#include \"sub/a.h\"\n", {headers[0]}), "");
}

// C++ takes the one next to the header.
TEST(Includes, AnIncludeOfAFileNextToAHeaderBelowIsRejected) {
    std::vector<Header> headers = {{"sub/a.h", "\n#include \"b.h\"\n"}, {"sub/b.h", ""}};
    for (int i = 0; i < 2; ++i) {
        EXPECT_THAT(error_of("#include \"sub/a.h\"\n", headers),
                    testing::AllOf(testing::StartsWith("dir/sub/a.h:2:1: #include \"b.h\" takes"),
                                   testing::HasSubstr("write \"sub/b.h\"")));
        headers.push_back({"b.h", ""});
    }
    EXPECT_EQ(error_of("#include \"sub/a.h\"\n", {headers[0], headers[2]}), "");
    headers[0].text = "#include \"sub/b.h\"\n#include <b.h>\n";
    EXPECT_EQ(error_of("#include \"sub/a.h\"\n", headers), "");
}

TEST(Includes, FilesOfTheAssemblerAreRejected) {
    for (const char* word :
         {".inc\\142in", ".inc\\x62in", ".inc\\u0062in", "\\56incbin", ".INCBIN", "\\x{2e}include",
          "\\o{56}include", "\\u{2e}include", ".\\u{00069}nclude", "\\.\\incbin", "\\x12eincbin"})
        EXPECT_THAT(error_of("asm(\"" + std::string(word) + " f\");\n"), testing::HasSubstr("reads a file"))
            << word;
    EXPECT_THAT(error_of("asm(\".incbin \\\"/etc/passwd\\\"\");\n"), testing::StartsWith("dir/k.cu:1:5: "));
    EXPECT_THAT(error_of("\nasm(R\\\n\"(.include \\\"x.s\\\")\");\n"), testing::StartsWith("dir/k.cu:2:5: "));
    EXPECT_THAT(error_of("\nasm(R\"(.include \"x.s\")\");\n"), testing::StartsWith("dir/k.cu:2:5: "));
    // In pieces, which the compiler joins; a word between them keeps them apart.
    EXPECT_THAT(error_of("asm(\"nop;\"\n\".inc\" /* x */\n\"\" R\"(bin)\" \"\\\"x\\\"\");\n"),
                testing::StartsWith("dir/k.cu:2:1: the assembler's .incbin"));
    EXPECT_EQ(error_of("const char* a[] = {\".inc\", \"bin\"};\n"), "");
    // By a macro, or behind a label or another line.
    EXPECT_THAT(error_of("#define FILE \".incbin\"\n"), testing::StartsWith("dir/k.cu:1:14: "));
    for (const char* before : {"nop\\n", "x:", "nop;", "\\t", "\\\\", "\\\"", "\\xff", "\\e", "\\E"})
        EXPECT_THAT(error_of("RUN(\"" + std::string(before) + ".include f\")\n"),
                    testing::HasSubstr("reads a file"))
            << before;
    EXPECT_THAT(error_of("const char* a = \".include\";\n"), testing::StartsWith("dir/k.cu:1:17: "));
}

TEST(Includes, StringsWithoutADirectiveAreAccepted) {
    for (const char* inside :
         {"usage: System.Include the file", "C:\\\\x2einclude", "x.incbin", "_.include", "x\\56include",
          ".includes", ".include_all", ".incbin2", "\\n.inc", "\\", "\\x", "\\u{2e", "include"})
        EXPECT_EQ(error_of("const char* s = \"" + std::string(inside) + " \";\n"), "") << inside;
    // Of a raw string the escapes stand for themselves.
    EXPECT_EQ(error_of("const char* s = R\"(\\56include)\";\n"), "");
}

TEST(Includes, ManyAdjacentStringsTakeLinearTime) {
    std::string text = "const char* s =";
    for (int i = 0; i < 300'000; ++i) text += " \"ab\"";
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(error_of(text + ";\n"), "");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // was minutes
}

TEST(Includes, TheTimeOfACompileIsRejected) {
    for (const std::string name : {"__DATE__", "__TIME__", "__TIMESTAMP__", "__DA\\\nTE__"})
        EXPECT_THAT(error_of("int a;\nconst char* b = \"x\" " + name + ";\n"),
                    testing::AllOf(testing::StartsWith("dir/k.cu:2:"),
                                   testing::HasSubstr("changes from one compile")))
            << name;
    EXPECT_EQ(error_of("// __DATE__\nconst char* a = \"__TIME__\"; int my__DATE__;\n"), "");
    EXPECT_THAT(error_of("#pragma GCC dependency \"/etc/passwd\"\n"),
                testing::StartsWith("dir/k.cu:1:1: #pragma GCC"));
    EXPECT_EQ(error_of("#pragma GCC unroll 4\n#pragma unroll\n"), "");
}

TEST(Includes, AnIncludedFileIsHeldToTheSame) {
    EXPECT_THAT(error_of("#include \"a.h\"\n",
                         {{"a.h", "#include \"s/b.h\"\n"}, {"s/b.h", "\n#include \"../c.h\"\n"}}),
                testing::StartsWith("dir/s/b.h:2:1: #include \"../c.h\": the name leads out of"));
}

TEST(Includes, WhatOnlyLooksLikeSuchALineIsNone) {
    EXPECT_EQ(
        error_of("// #include \"/etc/x.h\"\n/*\n#include \"/etc/x.h\"\n*/\n// joined \\\n#include \"/x.h\"\n"
                 "constexpr const char* a = \"\\\"\\\n#include \\\"/x.h\\\"\";\n"
                 "constexpr const char* b = R\"x(\n#include \"/x.h\"\n)\" )x\";\n"
                 "constexpr int c = 1'000; constexpr char d = '\"';\n#define S(x) #x\n"
                 "#ifdef __has_include\n#if __has_include(<y.h>) && defined(__has_embed)\n#endif\n#endif\n"
                 "#if 0\ndon't\n#endif\n#error_include X\n"),
        "");
}

TEST(Includes, IncludesAreFoundHoweverTheyAreWritten) {
    const std::string text =
        "#inc\\\nlude \"a.h\"\n/* x */ %: include/* */\"b.h\"\n// #include \"c.h\"\n" + template_text("");
    const Variant variant = Template::parse(text, "k.cu", {{"a.h", ""}, {"b.h", ""}, {"c.h", ""}}).variant();
    EXPECT_EQ(own_names(variant), (Strings{"a.h", "b.h"}));
}

TEST(Includes, AUsersHeaderWinsOverThePrelude) {
    const Variant variant =
        Template::parse(template_text(""), "k.cu", {{"kiln/device.h", "int mine;\n"}}).variant();
    EXPECT_EQ(variant.source(Backend::cuda).headers.front().text, "int mine;\n");
}

}  // namespace
}  // namespace kiln
