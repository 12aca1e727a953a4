// SPDX-License-Identifier: Apache-2.0
//
// Headers of include directories: which are found, under which names the compiler gets them, and when what was found
// out of them is still true.
#include "compile/include_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <thread>

#include "base/file.h"
#include "compile/compile_protocol.h"
#include "compile/compiler.h"
#include "compile/include_lines.h"
#include "compile/missing_header.h"
#include "compiler_fixtures.h"
#include "format/format.h"
#include "require.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Source source_with(std::vector<std::string> open) {
    Source source;
    source.file_name = "k.cu";
    source.open_includes = std::move(open);
    return source;
}

struct Tree : testing::Test {
    TemporaryDirectory root;

    void put(const std::string& name, const std::string& text) {
        fs::create_directories((root.path() / name).parent_path());
        write_text(root.path() / name, text);
    }
    std::vector<fs::path> directories(const std::vector<std::string>& names) const {
        std::vector<fs::path> paths;
        for (const auto& name : names) paths.push_back(root.path() / name);
        return paths;
    }
    std::map<std::string, std::string> found(const Source& source,
                                             const std::vector<std::string>& names) const {
        std::map<std::string, std::string> texts;
        for (const Header& header : find_includes(source, directories(names)).headers)
            texts[header.name] = header.text;
        return texts;
    }
    std::string digest(const std::vector<std::string>& open, const std::vector<std::string>& names) const {
        return includes_digest(find_includes(source_with(open), directories(names)).headers);
    }
};

TEST(IncludeLines, AreFoundWithoutAPreprocessor) {
    const std::string text =
        "#include <a.h> // one\n # include\t\"b.h\"\n#if 0\n#include_next <c.h>\n#endif\n"
        "#define D \"d.h\"\n#define E <e/F.h>\n#define F(x) x\n#define G 1\n#define H dir/part // of a path\n"
        "#include D\nint x; # include <no.h>\n#if defined(X) && __has_include(<q.h>)\n#endif\n#include "
        "<>\n#include";
    const IncludeScan scan = scan_includes(text);
    std::vector<std::string> lines, macros;
    for (const IncludeLine& line : scan.lines)
        lines.push_back(std::string(line.directive) + " " + std::string(line.operand));
    for (const auto& [name, value] : scan.macros)
        macros.push_back(std::string(name) + "=" + std::string(value));
    EXPECT_THAT(lines, ElementsAre("include <a.h>", "include \"b.h\"", "include_next <c.h>", "include D",
                                   "__has_include <q.h>"));
    EXPECT_THAT(macros, ElementsAre("D=\"d.h\"", "E=<e/F.h>", "H=dir/part"));
}

TEST(IncludeLines, EveryQuestionIsFound) {
    std::vector<std::string> lines;
    for (const IncludeLine& line :
         scan_includes(
             "___has_include__has_includes(<no.h>)\n#if _ && __has_include(<a.h>) || __has_include(\"b.h\")\n"
             "#elif __has_include_next(<c.h>)\n__has_inclu")
             .lines)
        lines.push_back(std::string(line.directive) + " " + std::string(line.operand));
    EXPECT_THAT(lines,
                ElementsAre("__has_include <a.h>", "__has_include \"b.h\"", "__has_include_next <c.h>"));
}

// NVRTC compares names as they are written: each file gets one, and lines that name it otherwise get that.
TEST_F(Tree, EachFileHasOneName) {
    put("one/lib/all.h", "#include \"detail/x.h\"\n#include <lib/y.h>\n");
    put("one/lib/detail/x.h", "#include \"../y.h\"\n#  include \"z.h\"   // next to this one\nint x;\n");
    put("one/lib/detail/z.h", "int detail_z;\n");
    put("one/lib/y.h", "int y;\n");
    put("two/lib/y.h", "int hidden;\n");
    put("two/z.h", "int other_z;\n");
    const auto headers = found(source_with({"<lib/all.h>"}), {"one", "two"});
    EXPECT_THAT(
        headers,
        testing::UnorderedElementsAre(
            testing::Pair("lib/all.h", "#include <lib/detail/x.h>\n#include <lib/y.h>\n"),
            testing::Pair("lib/detail/x.h",
                          "#include <lib/y.h>\n#  include <lib/detail/z.h>   // next to this one\nint x;\n"),
            testing::Pair("lib/detail/z.h", "int detail_z;\n"), testing::Pair("lib/y.h", "int y;\n")));
}

TEST_F(Tree, IncludeNextGoesOnBehindItsOwnDirectory) {
    put("one/a.h", "#include_next <a.h>\n");
    put("two/a.h", "#include_next <a.h>\nint two;\n");
    put("three/a.h", "int three;\n");
    const auto headers = found(source_with({"<a.h>"}), {"one", "two", "three"});
    EXPECT_EQ(headers.at("a.h"), "#include <directory-1/a.h>\n");
    EXPECT_EQ(headers.at("directory-1/a.h"), "#include <directory-2/a.h>\nint two;\n");
    EXPECT_EQ(headers.at("directory-2/a.h"), "int three;\n");
}

TEST_F(Tree, NamesThatTheTemplateHasTakenStayItsOwn) {
    put("one/lib.h", "#include \"own.h\"\n");
    put("one/own.h", "int theirs;\n");
    Source source = source_with({"<lib.h>"});
    source.headers = {{"own.h", "int mine;\n"}};
    const auto headers = found(source, {"one"});
    EXPECT_EQ(headers.at("lib.h"), "#include <directory-0/own.h>\n");
    EXPECT_EQ(headers.at("directory-0/own.h"), "int theirs;\n");
    EXPECT_FALSE(headers.contains("own.h"));
}

TEST_F(Tree, NamesOfMacrosAreFollowed) {
    put("one/a.h",
        "#define SYSTEM cuda\n#define ROOT impl/SYSTEM\n#define HEADER <ROOT/tag.h>\n#include HEADER\n"
        "#if X\n#define SYSTEM host\n#define LOOP LOOP\n#include LOOP\n#endif\n");
    put("one/impl/cuda/tag.h", "int c;\n");
    put("one/impl/host/tag.h", "#include <b.h>\n");
    put("one/b.h", "int b;\n");
    const auto headers = found(source_with({"<a.h>"}), {"one"});
    EXPECT_TRUE(headers.contains("impl/cuda/tag.h"));
    EXPECT_TRUE(headers.contains("impl/host/tag.h"));
    EXPECT_TRUE(headers.contains("b.h"));
}

// As CUTLASS names the headers of libcu++.
TEST_F(Tree, NamesOfMacrosWithAnArgumentAreFollowed) {
    const std::string text =
        "#define ROOT std\n#if NEW\n#define STD(header) <new/ROOT/header>\n#else\n#define STD( header ) "
        "<ROOT/header>  // old\n"
        "#endif\n#include STD( types/traits )\n";
    put("one/a.h", text);
    put("one/std/types/traits", "int old;\n");
    put("one/new/std/types/traits", "#include <b.h>\n");
    put("one/b.h", "int b;\n");
    auto headers = found(source_with({"<a.h>"}), {"one"});
    EXPECT_EQ(headers["a.h"], text) << "the compiler reads the macro by itself";
    EXPECT_TRUE(headers.contains("std/types/traits"));
    EXPECT_TRUE(headers.contains("new/std/types/traits"));
    EXPECT_TRUE(headers.contains("b.h"));
    // Another definition, which the template may make take effect, gives a name that is not known.
    Source source = source_with({"<a.h>"});
    source.text = "#define STD(x, y) <y>\n#include <a.h>\n";
    headers = found(source, {"one"});
    EXPECT_THAT(headers["a.h"], HasSubstr("#include <no-include-directory-has/STD>"));
    EXPECT_FALSE(headers.contains("std/types/traits"));
}

TEST_F(Tree, NothingOutsideTheDirectoriesIsRead) {
    put("secret.h", "int secret;\n");
    put("one/a.h", "#include \"../secret.h\"\n#include <../secret.h>\n#include \"" +
                       (root.path() / "secret.h").string() + "\"\n");
    // The compiler would look for these on the disk.
    EXPECT_EQ(
        found(source_with({"<a.h>"}), {"one"}).at("a.h"),
        "#include <no-include-directory-has/../secret.h>\n#include <no-include-directory-has/../secret.h>\n"
        "#include <no-include-directory-has/" +
            (root.path() / "secret.h").string() + ">\n");
    EXPECT_THAT(found(source_with({"<../secret.h>"}), {"one"}), IsEmpty());
    EXPECT_THAT(found(source_with({"<a.h>"}), {"nowhere"}), IsEmpty());
}

// Of a header's own macro, of one of the template, of one with arguments.
TEST_F(Tree, NoMacroLeadsElsewhereEither) {
    put("one/own.h", "#define WHERE \"/etc/hostname\"\n#include WHERE\n");
    EXPECT_THROW(found(source_with({"<own.h>"}), {"one"}), BuildError);
    put("one/open.h", "#include CONFIGURED\n");
    Source source = source_with({"<open.h>"});
    EXPECT_EQ(found(source, {"one"}).size(), 1u);
    source.text = "#define CONFIGURED </etc/hostname>\n#include <open.h>\n";
    EXPECT_THROW(found(source, {"one"}), BuildError);
    put("one/call.h", "#define QUOTED(x) #x\n#include QUOTED(/etc/hostname)  // text\n");
    EXPECT_EQ(found(source_with({"<call.h>"}), {"one"}).at("call.h"),
              "#define QUOTED(x) #x\n#include <no-include-directory-has/QUOTED>  // text\n");
    for (const char* definition :
         {"#define Q(x) #x\n#define H Q(/etc/hostname)", "#define Q(x) #x\n#define H Q(a/../../b)",
          "#define ROOT /etc\n#define Q(x) #x\n#define H Q(ROOT/hostname)",
          "#define FILE /etc/hostname\n#define Q(x) #x\n#define G Q(FILE) // text\n#define H G"}) {
        put("one/call.h", std::string(definition) + "\n#include H\n");
        EXPECT_THROW(found(source_with({"<call.h>"}), {"one"}), BuildError) << definition;
    }
    for (const char* definition :
         {"#define H(x) </x>", "#define H(x) <x/../..>", "#define H(x) <a/b>\n#define H(x) </x>",
          "#define ROOT ..\n#define H(x) <ROOT/x>", "#define G(y) /y\n#define H(x) <G(x)>",
          "#define CAT(a, b) a##b\n#define H(x) <CAT(/, x)>", "#define H(x) <a##x>"}) {
        put("one/call.h", std::string(definition) + "\n#include H(etc/hostname)\n");
        EXPECT_EQ(found(source_with({"<call.h>"}), {"one"}).at("call.h"),
                  std::string(definition) + "\n#include <no-include-directory-has/H>\n");
    }
}

TEST_F(Tree, TheDigestIsOfNamesAndContents) {
    put("one/a.h", "#include <b.h>\n");
    put("one/b.h", "int b;\n");
    const std::string before = digest({"<a.h>"}, {"one"});
    EXPECT_EQ(before.size(), 64u);
    EXPECT_EQ(digest({"<a.h>", "<missing.h>"}, {"one"}), before);
    EXPECT_EQ(digest({"<missing.h>"}, {"one"}), "");
    put("copy/a.h", "#include <b.h>\n");
    put("copy/b.h", "int b;\n");
    EXPECT_EQ(digest({"<a.h>"}, {"copy"}), before) << "a path is no part of it";
    put("one/b.h", "int B;\n");
    EXPECT_NE(digest({"<a.h>"}, {"one"}), before);
}

// The clock that files take their times from is coarse: only what is some seconds old is remembered.
void make_old(const fs::path& below) {
    const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
    for (const auto& entry : fs::recursive_directory_iterator(below)) fs::last_write_time(entry, old);
    fs::last_write_time(below, old);
}

/// The times of change, too, which nobody can set.
void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(3100)); }

TEST_F(Tree, WhatItFoundHoldsUntilAFileOrADirectoryChanges) {
    put("one/sub/keep.h", "");
    put("two/sub/a.h", "int a;\n");
    const IncludeTree tree(directories({"one", "two"}), {}, process_memory());
    const auto digest = [&] {
        Source source = source_with({"<sub/a.h>"});
        tree.identify(source);
        return source.include_digest;
    };
    const std::string first = digest();
    make_old(root.path());
    EXPECT_EQ(digest(), first) << "a file that is touched is the same";
    put("two/sub/a.h", "int A;\n");
    const std::string edited = digest();
    EXPECT_NE(edited, first);
    put("one/sub/a.h", "int hides;\n");
    EXPECT_NE(digest(), edited) << "one that hides another is a change";
    fs::remove(root.path() / "one/sub/a.h");
    EXPECT_EQ(digest(), edited);
}

// So another checkout's include/ is not this one's, and a program that changes its working directory sees the new one.
TEST_F(Tree, RelativeDirectoriesAreThoseOfTheWorkingDirectory) {
    put("a/inc/v.h", "int a;\n");
    put("b/inc/v.h", "int b;\n");
    settle();
    const IncludeTree tree({"inc"}, {}, process_memory());
    std::vector<std::string> digests;
    struct Back {
        const fs::path before = fs::current_path();
        ~Back() { fs::current_path(before); }
    } const back;
    for (const char* name : {"a", "b", "a"}) {
        fs::current_path(root.path() / name);
        Source source = source_with({"<v.h>"});
        tree.identify(source);
        digests.push_back(source.include_digest);
        EXPECT_EQ(tree.with_headers(source).found_headers->at(0).text, formatted("int {};\n", name[0]));
        EXPECT_EQ(tree.directories(source), std::vector{fs::current_path() / "inc"});
    }
    EXPECT_NE(digests[0], digests[1]);
    EXPECT_EQ(digests[0], digests[2]);
}

// A package that is installed later, or a file system that is mounted.
TEST_F(Tree, WhatALinkLeadsToMayComeLater) {
    put("two/v.h", "int v;\n");
    put("two/sub/w.h", "int w;\n");
    fs::create_directories(root.path() / "one");
    fs::create_symlink(root.path() / "there/v.h", root.path() / "one/v.h");
    fs::create_symlink("../hop", root.path() / "one/sub");
    fs::create_symlink("far/away", root.path() / "hop");
    fs::create_symlink("loop", root.path() / "one/loop");
    fs::create_directory_symlink("one", root.path() / "current");
    put("later/u.h", "int u;\n");
    settle();
    const IncludeTree tree(directories({"one", "two", "current"}), {}, process_memory());
    const auto digest = [&](const char* name) {
        Source source = source_with({name});
        tree.identify(source);
        return source.include_digest;
    };
    const std::string v = digest("<v.h>"), w = digest("<sub/w.h>");
    EXPECT_EQ(digest("<loop>"), digest("<loop/x.h>"));
    const std::string u = digest("<u.h>");
    fs::remove(root.path() / "current");
    fs::create_directory_symlink("later", root.path() / "current");
    EXPECT_NE(digest("<u.h>"), u);
    put("there/v.h", "int other;\n");
    put("far/away/w.h", "int other;\n");
    EXPECT_NE(digest("<v.h>"), v);
    EXPECT_NE(digest("<sub/w.h>"), w);
}

// A compiler follows ".." on the disk, where a link may have led elsewhere.
TEST_F(Tree, PointsBehindALinkAreThoseOfTheDisk) {
    put("inc/v.h", "int named;\n");
    put("real/inc/v.h", "int followed;\n");
    fs::create_directories(root.path() / "real/deep");
    fs::create_symlink("real/deep", root.path() / "link");
    EXPECT_EQ(found(source_with({"<v.h>"}), {"link/../inc"}).at("v.h"), "int followed;\n");
    // A directory counts once, by whatever names.
    put("inc/next.h", "#include_next <next.h>\n");
    EXPECT_EQ(found(source_with({"<next.h>"}), {"inc", "real/../inc"}).size(), 1U);
    EXPECT_TRUE(found(source_with({"<nothing/../next.h>"}), {"inc"}).empty());
    put("inc/c.h", "");
    put("else/a/b.h", "#include \"../c.h\"\n");
    put("else/c.h", "");
    fs::create_symlink("../else/a", root.path() / "inc/a");
    const auto read = [&] { return found(source_with({"<a/b.h>"}), {"inc"}); };
    EXPECT_THROW(read(), BuildError);
    fs::remove(root.path() / "inc/c.h");
    EXPECT_THROW(read(), BuildError) << "else/c.h is in no include directory";
    fs::remove(root.path() / "inc/a");
    put("inc/c.h", "");
    put("inc/a/b.h", "#include \"../c.h\"\n");
    EXPECT_EQ(read().at("a/b.h"), "#include <c.h>\n");
}

TEST_F(Tree, AHeaderThatChangesBetweenKeyAndCompileIsAsTheKeySaysOrNoBuild) {
    put("one/a.h", "int a;\n");
    const IncludeTree tree(directories({"one"}), {}, process_memory());
    Source source = source_with({"<a.h>"});
    tree.identify(source);
    ASSERT_EQ(tree.with_headers(source).found_headers->size(), 1u);
    put("one/a.h", "int A;\n");
    EXPECT_EQ(tree.with_headers(source).found_headers->at(0).text, "int a;\n") << "it is kept";
    const IncludeTree other(directories({"one"}), {}, process_memory());
    EXPECT_THROW(other.with_headers(source), BuildError);
    Source changed = source_with({"<a.h>"});
    tree.identify(changed);
    EXPECT_NE(changed.include_digest, source.include_digest);
    EXPECT_EQ(tree.with_headers(changed).found_headers->at(0).text, "int A;\n");
    EXPECT_THROW(tree.with_headers(source), BuildError);
}

// They are megabytes, which a copy for each variant would take from the time of its compile.
TEST_F(Tree, VariantsOfATemplateShareTheirHeaders) {
    put("one/a.h", "int a;\n");
    const IncludeTree tree(directories({"one"}), {}, process_memory());
    Source first = source_with({"<a.h>"}), second = first;
    first.text = "constexpr int N = 1;\n";
    second.text = "constexpr int N = 2;\n";
    tree.identify(first);
    tree.identify(second);
    const Source complete = tree.with_headers(first);
    ASSERT_NE(complete.found_headers, nullptr);
    EXPECT_THAT(complete.headers, IsEmpty());
    EXPECT_EQ(tree.with_headers(second).found_headers, complete.found_headers);
    std::vector<std::string> seen;
    first.headers = {{"own.h", ""}};
    for_each_header(tree.with_headers(first), [&](const Header& header) { seen.push_back(header.name); });
    EXPECT_THAT(seen, ElementsAre("own.h", "a.h"));
}

// The macro is shorter than what a string keeps in itself.
TEST_F(Tree, AMacroOfAFileThatStaysAsItIsIsFollowedInALaterOne) {
    put("one/a.h", "#define F(x)<x>");
    put("one/b.h", "int b;\n");
    put("one/c.h", "#include F(b.h)\n");
    const auto texts = found(source_with({"<a.h>", "<c.h>"}), {"one"});
    ASSERT_TRUE(texts.contains("b.h"));
    EXPECT_EQ(texts.at("a.h"), "#define F(x)<x>");
    EXPECT_EQ(texts.at("c.h"), "#include F(b.h)\n");
}

TEST(MissingHeader, IsNamedByEachCompiler) {
    EXPECT_EQ(missing_header("k.cu(3): catastrophic error: could not open source file \"cub/cub.cuh\" (no "
                             "directories in search list)\n"),
              "cub/cub.cuh");
    EXPECT_EQ(missing_header("k.cu(3): catastrophic error: cannot open source file \"a.h\"\n"), "a.h");
    EXPECT_EQ(missing_header("/tmp/x/k.cu:3:10: fatal error: 'rocprim/rocprim.hpp' file not found\n"),
              "rocprim/rocprim.hpp");
    EXPECT_EQ(missing_header("k.cu:3:10: fatal error: a/b.h: No such file or directory\n"), "a/b.h");
    EXPECT_EQ(missing_header("k.cu(3): error: expected a \";\"\n"), std::nullopt);
    const std::string advice = missing_header_advice("cub/cub.cuh", {"/opt/x"});
    EXPECT_THAT(advice, HasSubstr("the template's directory and /opt/x"));
    EXPECT_THAT(advice, HasSubstr("nvidia-cuda-cccl"));
    EXPECT_THAT(missing_header_advice("mine.h", {}), Not(HasSubstr("belongs")));
}

// The headers that kernels of today include most, as NVRTC gets them in memory.
TEST(VendorHeaders, CompileWithNvrtc) {
    KILN_REQUIRE_OR_SKIP("nvrtc", test::missing_nvrtc().empty(), test::missing_nvrtc());
    const auto compiler = make_nvrtc_compiler();
    const IncludeTree tree(
        {}, [&] { return compiler->include_directories(); }, process_memory());
    Source source = source_with({"<cuda_fp16.h>", "<cub/block/block_reduce.cuh>", "<cooperative_groups.h>"});
    source.entry = "k";
    source.text =
        "#include <cuda_fp16.h>\n#include <cub/block/block_reduce.cuh>\n#include <cooperative_groups.h>\n"
        "extern \"C\" __global__ void k(float* to, const __half* from) {\n"
        "    using Reduce = cub::BlockReduce<float, 128>;\n"
        "    __shared__ typename Reduce::TempStorage storage;\n"
        "    const float sum = Reduce(storage).Sum(__half2float(from[threadIdx.x]));\n"
        "    cooperative_groups::this_thread_block().sync();\n"
        "    if (threadIdx.x == 0) *to = sum;\n}\n";
    tree.identify(source);
    if (source.include_digest.empty())
        GTEST_SKIP() << "neither a CUDA toolkit nor its wheels have headers here";
    const Source complete = tree.with_headers(source);
    EXPECT_GT(complete.found_headers->size(), 300u);
    for (const char* arch : {"sm_80", "sm_90a"})
        EXPECT_FALSE(compiler->compile(complete, {Backend::cuda, arch, {}}).bytes.empty()) << arch;
}

// What a start from a warm disk cache pays for a template with many headers.
TEST(VendorHeaders, AreIdentifiedFromMemoryInLittleTime) {
    const auto compiler = make_nvrtc_compiler();
    const IncludeTree tree(
        {}, [&] { return compiler->include_directories(); }, process_memory());
    Source source = source_with({"<cub/cub.cuh>", "<thrust/device_ptr.h>", "<cuda/std/ranges>", "<mma.h>"});
    tree.identify(source);
    const Source complete = tree.with_headers(source);
    const std::size_t headers = complete.found_headers ? complete.found_headers->size() : 0;
    if (headers < 500) GTEST_SKIP() << "neither a CUDA toolkit nor its wheels have headers here";
    const auto milliseconds = [] {
        timespec time{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
    };
    const double limit = 3.0 * std::max(1.0, static_cast<double>(headers) / 1100);
    double best = 1e9;
    // A processor that others use, too, is slower for as long as they do: a second at most is waited for a quiet moment.
    for (int i = 0; i < 20 || (best >= limit && i < 200); ++i) {
        if (i >= 20) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const double before = milliseconds();
        tree.identify(source);
        best = std::min(best, milliseconds() - before);
    }
    RecordProperty("headers", std::to_string(headers));
    RecordProperty("milliseconds", std::to_string(best));
    std::cout << headers << " headers, " << best << " ms\n";
    EXPECT_LT(best, limit);
}

}  // namespace
}  // namespace kiln
