// SPDX-License-Identifier: Apache-2.0
//
// From code addresses to template lines: our declarations of libdw against its header, and a shared object of
// the system's compiler, whose functions tell where they were called from.
#include "base/source_lines.h"

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "base/dwarf_api.h"
#include "base/dynamic_library.h"
#include "base/file.h"
#include "base/process.h"
#include "require.h"

#if __has_include(<elfutils/libdw.h>)
#include <dwarf.h>
#include <elfutils/libdw.h>

#include "api_check.h"

namespace kiln::dwarf {
namespace {

#define KILN_COMPARE(member, symbol, result, arguments)                              \
    static_assert(test::SameCall<decltype(&::symbol), decltype(Api::member)>::value, \
                  #symbol " is declared differently in libdw.h");
// What the header says also of its arguments, that they are not null, is no part of a type.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
KILN_DWARF_FUNCTIONS(KILN_COMPARE)
#pragma GCC diagnostic pop

#define KILN_SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
static_assert(sizeof(Entry) == sizeof(Dwarf_Die));
static_assert(sizeof(Attribute) == sizeof(Dwarf_Attribute));
KILN_SAME(kRead, DWARF_C_READ);
KILN_SAME(kElfVersion, EV_CURRENT);
KILN_SAME(kClass, DW_TAG_class_type);
KILN_SAME(kStructure, DW_TAG_structure_type);
KILN_SAME(kLexicalBlock, DW_TAG_lexical_block);
KILN_SAME(kInlinedSubroutine, DW_TAG_inlined_subroutine);
KILN_SAME(kSubprogram, DW_TAG_subprogram);
KILN_SAME(kVariable, DW_TAG_variable);
KILN_SAME(kNamespace, DW_TAG_namespace);
KILN_SAME(kCompilationDirectory, DW_AT_comp_dir);
KILN_SAME(kCallFile, DW_AT_call_file);
KILN_SAME(kCallLine, DW_AT_call_line);

}  // namespace
}  // namespace kiln::dwarf
#endif

namespace kiln {
namespace {

constexpr const char* kHeader = R"(// 1
void where(int);                                                  // 2
namespace kiln {                                                  // 3
template <class T> struct Box {                                   // 4
    __attribute__((always_inline)) inline void tell(int i) {      // 5
        where(i);                                                 // 6
    }                                                             // 7
};                                                                // 8
__attribute__((always_inline)) inline void twice(int i) {         // 9
    Box<int>().tell(i);                                           // 10
    where(i + 1);                                                 // 11
}                                                                 // 12
__attribute__((noinline)) inline void apart(int i) { where(i); }  // 13
}                                                                 // 14
)";
constexpr const char* kLanguage = R"(__attribute__((always_inline)) inline void word(int i) { where(i); }
)";
constexpr const char* kTemplate = R"(#include "kiln/reduce.h"
#include "kiln/host_words.h"
#line 1 "nest.cu"
static __attribute__((always_inline)) inline void step(int i) {   // 1
    kiln::twice(i);                                               // 2
}                                                                 // 3
extern "C" void* kernel() {                                       // 4
    static thread_local float tile[64];                           // 5
    where(0);                                                     // 6
    step(1);                                                      // 7
    word(3);                                                      // 8
    kiln::apart(4);                                               // 9
    { static thread_local int inner_tile; inner_tile = 1; (void)inner_tile; }
    return tile;
}
)";
// Writes down where its caller goes on, and where that one's caller does.
constexpr const char* kWhere = R"(
extern "C" { unsigned long code[8], caller[8]; extern const char __ehdr_start[] __attribute__((visibility("hidden"))); }
__attribute__((noinline)) void where(int i) {
    code[i] = (unsigned long)__builtin_return_address(0) - (unsigned long)__ehdr_start;
    void** frame = (void**)__builtin_frame_address(0);
    caller[i] = (unsigned long)((void**)*frame)[1] - (unsigned long)__ehdr_start;
}
)";

class SourceLinesOf : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(SourceLinesOf, NestedInlinedFunctions) {
    const auto& [compiler, version] = GetParam();
    KILN_REQUIRE_OR_SKIP("libdw", source_lines_problem().empty(), source_lines_problem());
    const TemporaryDirectory directory;
    std::filesystem::create_directories(directory.path() / "kiln");
    write_text(directory.path() / "kiln/reduce.h", kHeader);
    write_text(directory.path() / "kiln/host_words.h", kLanguage);
    write_text(directory.path() / "specialised.cpp",
               std::string(kTemplate) + "#line 1 \"where.cpp\"\n" + kWhere);
    ProcessRequest request;
    request.arguments = {compiler,
                         version,
                         "-O1",
                         "-fno-omit-frame-pointer",
                         "-fno-optimize-sibling-calls",
                         "-fPIC",
                         "-shared",
                         "-I.",
                         "-o",
                         "nest.so",
                         "specialised.cpp"};
    request.directory = directory.path();
    const ProcessResult built = run_process(request);
    KILN_REQUIRE_OR_SKIP((std::string_view(compiler).starts_with("clang") ? "clang" : "host"), built.started,
                         std::string(compiler) + " can't be run: " + built.start_error);
    ASSERT_TRUE(built.succeeded()) << built.error;

    const auto library = DynamicLibrary::open({(directory.path() / "nest.so").string()});
    ASSERT_TRUE(library);
    reinterpret_cast<void* (*)()>(library.symbol("kernel"))();
    unsigned long code[8], caller[8];
    std::memcpy(code, library.symbol("code"), sizeof(code));
    std::memcpy(caller, library.symbol("caller"), sizeof(caller));

    SourceLines lines(*read_bytes_if_exists(directory.path() / "nest.so"));
    const auto place = [&](int i, bool with_caller = false) {
        return lines.place(static_cast<std::uint32_t>(code[i]),
                           with_caller ? static_cast<std::uint32_t>(caller[i]) : 0);
    };
    EXPECT_EQ(place(0), (SourcePlace{"nest.cu", 6, ""}));
    // The innermost in the template is in step(), not where the kernel calls that.
    EXPECT_EQ(place(1), (SourcePlace{"nest.cu", 2, "kiln/reduce.h:6"}));
    EXPECT_EQ(place(2), (SourcePlace{"nest.cu", 2, "kiln/reduce.h:11"}));
    EXPECT_EQ(place(3), (SourcePlace{"nest.cu", 8, ""})) << "what stands for the language is no place";
    EXPECT_EQ(place(4), (SourcePlace{"kiln/reduce.h", 13, ""})) << "nobody says who called";
    EXPECT_EQ(place(4, true), (SourcePlace{"nest.cu", 9, "kiln/reduce.h:13"}));
    EXPECT_EQ(place(1).text(), "nest.cu:2 (kiln/reduce.h:6)");
    EXPECT_EQ(lines.line_of_variable("tile"), 5);
    EXPECT_EQ(lines.line_of_variable("inner_tile"), 10);
    EXPECT_EQ(lines.line_of_variable("other"), 0);
    EXPECT_EQ(lines.place(1, 0), SourcePlace{}) << "no code";
}

INSTANTIATE_TEST_SUITE_P(Compilers, SourceLinesOf,
                         ::testing::Combine(::testing::Values("g++", "clang++"),
                                            ::testing::Values("-gdwarf-4", "-gdwarf-5")),
                         [](const auto& parameters) {
                             return std::string(std::get<0>(parameters.param)[0] == 'g' ? "gcc" : "clang") +
                                    (std::get<1>(parameters.param)[8] == '4' ? "_4" : "_5");
                         });

TEST(SourceLines, WithoutDebugInformation) {
    for (const std::string& bytes : {std::string(), std::string("no ELF file"), std::string(4096, '\x7f')}) {
        std::vector<std::byte> data(bytes.size());
        std::memcpy(data.data(), bytes.data(), bytes.size());
        SourceLines lines{Bytes(std::move(data))};
        EXPECT_EQ(lines.place(100, 200), SourcePlace{});
        EXPECT_EQ(lines.line_of_variable("tile"), 0);
    }
}

}  // namespace
}  // namespace kiln
