// SPDX-License-Identifier: Apache-2.0
//
// scripts/restamp in a repository of its own: its commit has templates that differ from today's by a comment, by code, or
// by the names of parameters. And scripts/rename-parameters.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "../support/require.h"
#include "kiln_program.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Restamp : public Kiln {
  protected:
    void SetUp() override {
        KILN_REQUIRE_OR_SKIP("git", tool("git --version") && tool("python3 --version"),
                             "git and python3 are needed");
        KILN_REQUIRE_OR_SKIP(
            "nvrtc",
            run({"build", "gemm_naive", "--backend", "cuda", "--arch", "sm_90a", "--no-cache"}).status == 0,
            "there is no NVRTC");
        for (const char* const folder :
             {"repository/scripts", "repository/build/bin", "repository/cache/wisdom", "repository/src/base"})
            std::filesystem::create_directories(path(folder));
        const std::filesystem::path source = std::getenv("KILN_TEST_SOURCE_DIR");
        std::filesystem::copy(source / "kernels_src", path("repository/kernels_src"),
                              std::filesystem::copy_options::recursive);
        for (const char* const file :
             {"scripts/restamp", "scripts/rename-parameters", "src/base/renamed_parameters.cpp"})
            std::filesystem::copy_file(source / file, path("repository") / file);
        std::filesystem::create_symlink(program(), path("repository/build/bin/kiln"));
    }
    bool tool(const std::string& command) const {
        return run_program({"/bin/sh", "-c", command}, {}).status == 0;
    }
    static std::string content(const std::filesystem::path& file) {
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        return text.str();
    }
    /// Of a template, of today or in the repository.
    std::string digest(const std::string& name, bool of_commit) const {
        Arguments words = {"show", name, "--backend", "cuda", "--arch", "sm_90a", "--json"};
        if (of_commit) words.insert(words.end(), {"--template-dir", path("repository/kernels_src").string()});
        return run(words).json()["digest"];
    }
    std::string entry(const std::string& name, const std::string& values, const std::string& digest) const {
        return name + " T=half | k=64 m=64 n=64 | " + values +
               " | NVIDIA H200 | sm_90a | 0.100000 ms | 1 | " + digest +
               " | NVRTC 13.0 | 2026-11-22T04:04:06Z\n";
    }
    void edit(const std::string& name, const std::string& from, const std::string& to) const {
        const auto file = path("repository/kernels_src/" + name);
        std::string text = content(file);
        ASSERT_NE(text.find(from), std::string::npos);
        write_text(file, text.replace(text.find(from), from.size(), to));
    }
    Outcome restamp(const std::string& words) const {
        return run_program(
            {"/bin/sh", "-c",
             "cd " + path("repository").string() +
                 " && git init -q && git add kernels_src cache && git -c user.name=a -c user.email=b "
                 "commit -qm old && scripts/restamp " +
                 words},
            usual_environment());
    }
};

TEST_F(Restamp, StampsWhatHasTheSameMachineCode) {
    edit("gemm_naive.cu", "#include", "// older words\n#include");
    edit("gemm_square.cu", "__syncthreads();", "__syncthreads(); __syncthreads();");
    const auto file = path("repository/cache/wisdom/some.txt");
    const std::string same = digest("gemm_naive", true), other = digest("gemm_square", true);
    const std::string today = digest("gemm_naive", false);
    ASSERT_NE(same, today);
    const std::string older = entry("gemm_naive", "BX=32 BY=8", "0123456789abcdef");
    write_text(file, "# kiln wisdom 1\n" + entry("gemm_naive", "BX=16 BY=16", same) +
                         entry("gemm_square", "TILE=16", other) + older);
    const Outcome outcome = restamp("HEAD");
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("different: gemm_square T=half TILE=16: .text.gemm_square"),
                                   HasSubstr("stamped 1, different 1, older than HEAD already 1")));
    EXPECT_EQ(content(file), "# kiln wisdom 1\n" + entry("gemm_naive", "BX=16 BY=16", today) +
                                 entry("gemm_square", "TILE=16", other) + older);
}

TEST_F(Restamp, StampsSpeedsThatWereOfTheCommitsSource) {
    edit("gemm_naive.cu", "#include", "// older words\n#include");
    std::filesystem::create_directories(path("repository/cache/baselines"));
    const auto file = path("repository/cache/baselines/cuda-sm_90a.ini");
    const auto baselines = [](const std::string& today, const std::string& first, const std::string& second) {
        return "[gemm_naive T=half BX=16 BY=16]\ningredients = " + today +
               "\nspeed NVIDIA H200 = 1 1 0.5 fma " + first + "\nspeed other = 1 1 0.5 fma " + second + "\n";
    };
    write_text(file, baselines("aaaa", "aaaa", "0000"));
    const auto commit =
        run_program({"/bin/sh", "-c",
                     "cd " + path("repository").string() +
                         " && git init -q && git add kernels_src cache && git -c user.name=a -c "
                         "user.email=b commit -qm old"},
                    usual_environment());
    ASSERT_EQ(commit.status, 0) << commit.err;
    write_text(file, baselines("bbbb", "aaaa", "0000"));
    const Outcome outcome =
        run_program({path("repository/scripts/restamp").string(), "HEAD"}, usual_environment());
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(content(file), baselines("bbbb", "bbbb", "0000"));
}

TEST_F(Restamp, KnowsParametersThatWereRenamed) {
    const auto source = path("repository/kernels_src/sum_shuffle.cu");
    const std::regex name("L1_NO_ALLOCATE");
    write_text(source, std::regex_replace(content(source), name, "STREAM"));
    const auto entry_of = [](const std::string& values, const std::string& digest) {
        return "# kiln wisdom 1\nsum_shuffle T=half | n=64 | " + values +
               " | NVIDIA H200 | sm_90a | 0.100000 ms | 1 | " + digest +
               " | NVRTC 13.0 | 2026-11-22T04:04:06Z\n";
    };
    const auto file = path("repository/cache/wisdom/some.txt");
    write_text(file, entry_of("STREAM=false VEC=8", digest("sum_shuffle", true)));
    const Outcome renamed = run_program(
        {path("repository/scripts/rename-parameters").string(), file.string()}, usual_environment());
    EXPECT_EQ(renamed.status, 0) << renamed.err;
    EXPECT_EQ(content(file), entry_of("L1_NO_ALLOCATE=false VEC=8", digest("sum_shuffle", true)));
    const Outcome outcome = restamp("HEAD");
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_EQ(content(file), entry_of("L1_NO_ALLOCATE=false VEC=8", digest("sum_shuffle", false)));
}

TEST_F(Restamp, RenamesParametersInTemplatesAndBehindTheirNames) {
    const auto template_file = path("repository/decode_persistent.cu"), list = path("repository/list.md");
    write_text(template_file,
               "//@ param   T    type in half = half\n//@ param   SPAN int in 1..4 = 2\nint SPANS = SPAN;\n");
    write_text(list,
               "Run `gemm_mma GROUP=8 ACROSS=true`; gemm_naive GROUP=8; decode_mma | GROUP=4 | PAGE=1,2.\n"
               "decode_mma_2 GROUP=4, my/decode_mma GROUP=4, GROUP=4\n");
    const Outcome outcome = run_program(
        {path("repository/scripts/rename-parameters").string(), template_file.string(), list.string()},
        usual_environment());
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(content(template_file),
              "//@ param   T              type in half = half\n//@ param   PARTITION_SIZE int in 1..4 = 2\n"
              "int SPANS = PARTITION_SIZE;\n");
    EXPECT_EQ(
        content(list),
        "Run `gemm_mma RASTER_GROUP=8 RASTER_ALONG_M=true`; gemm_naive GROUP=8; decode_mma | GQA_GROUP=4 | "
        "PAGE_SIZE=1,2.\ndecode_mma_2 GROUP=4, my/decode_mma GROUP=4, GROUP=4\n");
    EXPECT_EQ(
        run_program({path("repository/scripts/rename-parameters").string()}, usual_environment()).status, 2);
}

TEST_F(Restamp, NeedsACommit) {
    EXPECT_EQ(run_program({path("repository/scripts/restamp").string()}, usual_environment()).status, 2);
    const Outcome outcome = restamp("nothing");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("git has no tree nothing"));
}

}  // namespace
}  // namespace kiln::test
