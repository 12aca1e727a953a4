// SPDX-License-Identifier: Apache-2.0
//
// The completion script in a real bash: what it offers for a line that ends at the cursor.
#include <algorithm>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class KilnCompletion : public Kiln {
  protected:
    void SetUp() override {
        const bool has_bash = run_in_shell("command -v bash >/dev/null").status == 0;
        KILN_REQUIRE_OR_SKIP("bash", has_bash, "bash is not here");
    }

    /// What bash is given for this line, as it would replace what stands behind the last word break.
    std::vector<std::string> offered(const std::string& line) const {
        const std::string script =
            "source <(\"$0\" completion bash) || exit 9\n"
            "complete -p kiln >/dev/null || exit 8\n"
            "COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n"
            "COMP_LINE=$1 COMP_POINT=${#1}\n"
            "_kiln \"$0\"\n"
            "for one in \"${COMPREPLY[@]}\"; do echo \"$one\"; done\n";
        Outcome result = run_program({"bash", "--norc", "-c", script, program(), line}, usual_environment());
        EXPECT_EQ(result.status, 0) << result.err;
        EXPECT_EQ(result.err, "");
        std::vector<std::string> words;
        for (std::size_t at = 0; at < result.out.size();) {
            const std::size_t end = result.out.find('\n', at);
            words.push_back(result.out.substr(at, end - at));
            at = end + 1;
        }
        return words;
    }
};

TEST_F(KilnCompletion, Commands) {
    EXPECT_THAT(offered("kiln "), IsSupersetOf({"list", "show", "build", "warm", "explain", "cache", "doctor",
                                                "completion", "help"}));
    EXPECT_THAT(offered("kiln "), Not(Contains("complete")));
    EXPECT_THAT(offered("kiln bu"), ElementsAre("build"));
    EXPECT_THAT(offered("kiln help ex"), ElementsAre("explain", "export"));
    EXPECT_THAT(offered("kiln --v"), ElementsAre("--version"));
    EXPECT_THAT(offered("kiln cache p"), ElementsAre("pack", "prune", "pull", "push"));
    EXPECT_THAT(offered("kiln completion "), ElementsAre("bash"));
}

TEST_F(KilnCompletion, OptionsAndTheirValues) {
    EXPECT_THAT(offered("kiln warm --wo"), ElementsAre("--workers"));
    EXPECT_THAT(offered("kiln cache stats --pro"), ElementsAre("--prometheus"));
    EXPECT_THAT(offered("kiln list --"), IsSupersetOf({"--backend", "--json", "--help"}));
    EXPECT_THAT(offered("kiln build gemm_tiled --backend "), ElementsAre("auto", "cuda", "hip", "host"));
    EXPECT_THAT(offered("kiln cache list --sort s"), ElementsAre("size"));
    EXPECT_THAT(offered("kiln build gemm_tiled --arch "), Not(IsEmpty()));
    EXPECT_THAT(offered("kiln cache list --pack "), IsEmpty()) << "bash offers files";
    EXPECT_THAT(offered("kiln warm "), IsEmpty()) << "bash offers files";
}

TEST_F(KilnCompletion, TemplatesParametersAndValues) {
    EXPECT_THAT(offered("kiln build gemm_"), IsSupersetOf({"gemm_naive", "gemm_tiled"}));
    EXPECT_THAT(offered("kiln show --template-dir " + templates() + " ti"), ElementsAre("tiny"));
    EXPECT_THAT(offered("kiln build gemm_tiled B"), ElementsAre("BM=", "BN=", "BK="));
    EXPECT_THAT(offered("kiln explain gemm_tiled BM=64 --json B"), ElementsAre("BN=", "BK="));
    EXPECT_THAT(offered("kiln build gemm_tiled BM="), ElementsAre("16", "32", "64", "128"))
        << "behind the '=', which breaks words";
    EXPECT_THAT(offered("kiln build gemm_tiled T=b"), ElementsAre("bfloat16"));
    EXPECT_THAT(offered("kiln build no_such_template X"), IsEmpty());
}

TEST_F(KilnCompletion, Keys) {
    const std::string key = build("1").json()["key"];
    EXPECT_THAT(offered("kiln cache show "), ElementsAre(key));
    EXPECT_THAT(offered("kiln cache show " + key.substr(0, 5)), ElementsAre(key));
    EXPECT_THAT(offered("kiln cache pack file.kiln "), ElementsAre(key));
    EXPECT_THAT(offered("kiln cache show --cache-dir " + path("empty").string() + " "), IsEmpty());
}

TEST_F(KilnCompletion, TheScriptIsTheInstalledOne) {
    const char* const source = std::getenv("KILN_TEST_SOURCE_DIR");
    if (source == nullptr) GTEST_SKIP() << "KILN_TEST_SOURCE_DIR is not set";
    EXPECT_EQ(run({"completion", "bash"}).out,
              *read_text_if_exists(std::filesystem::path(source) / "src/cli/kiln/completion.bash"));
    EXPECT_EQ(run({"completion", "bash", "--json"}).json()["completion"], run({"completion", "bash"}).out);
}

}  // namespace
}  // namespace kiln::test
