// SPDX-License-Identifier: Apache-2.0
//
// kiln export: files for each template of a manifest, and what it says of manifests that can't be exported. What the
// files do is in tests/export.
#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

class KilnExport : public Kiln {
  protected:
    Outcome export_lines(const std::string& manifest, Arguments more = {}) const {
        Arguments arguments = {"export", write("manifest.txt", manifest), "--template-dir", templates()};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(std::move(arguments));
    }
};

TEST_F(KilnExport, WritesAHeaderAndASourceForEachTemplate) {
    const auto out = path("made/here");
    const Outcome outcome = export_lines("tiny ADD=1,2 @cuda:sm_80 @cuda:sm_90a\nsum_shuffle @cuda:sm_80\n",
                                         {"--output", out.string(), "--json"});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.json()["variants"], 5);
    ASSERT_EQ(outcome.json()["files"].size(), 4U);
    for (const char* name : {"kiln_tiny.h", "kiln_tiny.c", "kiln_sum_shuffle.h", "kiln_sum_shuffle.c"})
        EXPECT_TRUE(std::filesystem::exists(out / name)) << name;
    EXPECT_THAT(read_text_if_exists(out / "kiln_tiny.c").value(), HasSubstr("\"tiny ADD=2 MUL=1\""));
}

// A header without its source would be of another version than the one that is there.
TEST_F(KilnExport, WritesAllFilesOrNone) {
    const auto out = path("out");
    std::filesystem::create_directories(out / "kiln_tiny.c");
    const Outcome outcome = export_lines("tiny @cuda:sm_80\n", {"--output", out.string()});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
    expect_error(outcome, 2, {"kiln_tiny.c", "directory"});
    EXPECT_FALSE(std::filesystem::exists(out / "kiln_tiny.h"));
}

TEST_F(KilnExport, LeavesAloneWhatKilnDidNotWrite) {
    const auto out = path("out");
    std::filesystem::create_directories(out);
    const auto mine = write("out/kiln_tiny.c", "int precious;\n");
    const Arguments to_out = {"--output", out.string()};
    const Outcome outcome = export_lines("tiny @cuda:sm_80\n", to_out);
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
    expect_error(outcome, 2, {"kiln_tiny.c is no exported source that Kiln wrote"});
    EXPECT_EQ(read_text_if_exists(mine), "int precious;\n");
    EXPECT_FALSE(std::filesystem::exists(out / "kiln_tiny.h"));
    std::filesystem::remove(mine);
    for (const char* add : {"1", "2"})  // the second time both files are Kiln's
        EXPECT_EQ(export_lines(std::string("tiny ADD=") + add + " @cuda:sm_80\n", to_out).status, 0);
    EXPECT_THAT(read_text_if_exists(mine).value(), HasSubstr("\"tiny ADD=2 MUL=1\""));
}

TEST_F(KilnExport, SaysWhyTheUsersWisdomIsIgnored) {
    const Outcome outcome = run({"export", write("manifest.txt", "tiny @cuda:sm_80\n"), "--template-dir",
                                 templates(), "--output", path("out").string()},
                                {{"KILN_WISDOM", write("wisdom.txt", "cut\n")}});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
    EXPECT_THAT(outcome.err, HasSubstr("wisdom.txt is ignored"));
}

TEST_F(KilnExport, SaysWhatCantBeExported) {
    const std::string out = path("out").string();
    expect_error(export_lines("tiny @cuda:sm_80\n"), 2, {"--output DIR"});
    expect_error(export_lines("tiny @cuda:sm_80\n", {"--output", "-"}), 2,
                 {"--output - is standard output", "several files"});
    EXPECT_FALSE(std::filesystem::exists("-"));
    expect_error(export_lines("tiny @host\n", {"--output", out}), 2,
                 {"kernels of the host can't be exported"});
    expect_error(export_lines("# nothing\n", {"--output", out}), 2, {"the manifest names no variant"});
    expect_error(export_lines("tiny ADD=9 @cuda:sm_80\n", {"--output", out}), 2, {"manifest.txt:1"});
    EXPECT_FALSE(std::filesystem::exists(out));
}

// kiln_tiny_load loads the kernels of tiny, and would be the kernel of tiny_load as well.
TEST_F(KilnExport, FunctionsOfTwoTemplatesWithOneNameAreRejected) {
    std::string text = tiny_template();
    for (std::size_t at = 0; (at = text.find("tiny", at)) != std::string::npos; at += 9)
        text.insert(at + 4, "_load");
    static_cast<void>(with_template("tiny_load", text));
    const std::string out = path("out").string();
    const Outcome outcome = export_lines("tiny @cuda:sm_80\ntiny_load @cuda:sm_80\n", {"--output", out});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
    expect_error(outcome, 2,
                 {"tiny and tiny_load can't be exported into one program", "define kiln_tiny_load"});
    EXPECT_FALSE(std::filesystem::exists(out));
    EXPECT_EQ(export_lines("tiny_load @cuda:sm_80\n", {"--output", out}).status, 0);
}

// What is computed depends on a function of the caller: each has a function of its own.
TEST_F(KilnExport, KeepsTheCodeOfCallersApart) {
    const auto out = path("out");
    const Outcome outcome = export_lines(
        "gemm_mma EPILOGUE=\"return 2 * x;\" @cuda:sm_90a\ngemm_mma EPILOGUE=\"return x; /* what?\?/ */\" "
        "@cuda:sm_90a\n",
        {"--output", out.string()});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::string header = read_text_if_exists(out / "kiln_gemm_mma.h").value();
    EXPECT_THAT(header, HasSubstr("int kiln_gemm_mma_EPILOGUE_1("));
    EXPECT_THAT(header, HasSubstr("int kiln_gemm_mma_EPILOGUE_2("));
    EXPECT_THAT(header, HasSubstr("EPILOGUE=\"return 2 * x;\""));
    const Outcome compiled = run_program({"/bin/sh", "-c",
                                          "exec cc -std=c11 -Wall -Wextra -Werror -c -o /dev/null '" +
                                              (out / "kiln_gemm_mma.c").string() + "'"},
                                         usual_environment());
    EXPECT_EQ(compiled.status, 0) << compiled.err;
}

TEST_F(KilnExport, TextsOfTemplatesStayTexts) {
    const auto template_of = [](const std::string& name, const std::string& argument) {
        return "// " + name + ": columns */ int injected; /* of rows.\n//\n//@ kernel " + name +
               "\n//@ block 32\n//@ grid ceil_div(n, 32)\n//@ size n = 8\n#include \"kiln/device.h\"\n\n"
               "extern \"C\" __global__ void " +
               name + "(int n, float* " + argument + ") { if (n < 0) *" + argument + " = 0; }\n";
    };
    static_cast<void>(with_template("comment", template_of("comment", "x")));
    static_cast<void>(with_template("run", template_of("run", "x")));
    static_cast<void>(with_template("clash", template_of("clash", "kiln_stream")));
    const auto out = path("out");
    const Outcome outcome = export_lines("comment @cuda:sm_80\n", {"--output", out.string()});
    KILN_REQUIRE_OR_SKIP("nvrtc", outcome.err.find("NVRTC") == std::string::npos, outcome.err);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(read_text_if_exists(out / "kiln_comment.h").value(),
                HasSubstr("columns * / int injected; / * of"));
    expect_error(export_lines("run @cuda:sm_80\n", {"--output", out.string()}), 2,
                 {"run can't be exported", "has a kiln_run of its own"});
    expect_error(export_lines("clash @cuda:sm_80\n", {"--output", out.string()}), 2,
                 {"its argument kiln_stream begins with kiln_"});
}

}  // namespace
}  // namespace kiln::test
