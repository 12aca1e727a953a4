// SPDX-License-Identifier: Apache-2.0
//
// The completion scripts in real shells: what they offer for a line that ends at the cursor, of kiln and of jit-gemm.
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
            "complete -p kiln jit-gemm >/dev/null || exit 8\n"
            "COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n"
            "COMP_LINE=$1 COMP_POINT=${#1}\n"
            "_kiln \"$(dirname \"$0\")/${1%% *}\"\n"
            "for one in \"${COMPREPLY[@]}\"; do echo \"$one\"; done\n";
        return printed({"bash", "--norc", "-c", script, program(), line});
    }

    /// What fish offers; empty without fish.
    std::vector<std::string> offered_by_fish(const std::string& line) const {
        return printed(
            {"fish", "--no-config", "-c",
             "set PATH (dirname $argv[1]) $PATH; $argv[1] completion fish | source; complete -C $argv[2] | "
             "string split -f 1 \\t; true",  // it fails where there is nothing to split
             program(), line});
    }

    /// What zsh is given, by a compadd that prints it.
    std::vector<std::string> offered_by_zsh(const std::string& line) const {
        return printed(
            {"zsh", "-f", "-c",
             "PATH=${1:h}:$PATH; compdef() { }; compadd() { while [[ $1 != -- ]]; do shift; done; shift; "
             "print -l -- $@; }; _files() { }; source <($1 completion zsh); LBUFFER=$2; words=(${=2}); _kiln",
             "zsh", program(), line});
    }

    std::vector<std::string> printed(std::vector<std::string> command) const {
        Outcome result = run_program(std::move(command), usual_environment());
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
    EXPECT_THAT(offered("kiln completion "), ElementsAre("bash", "zsh", "fish"));
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

TEST_F(KilnCompletion, JitGemm) {
    EXPECT_THAT(offered("jit-gemm --b"),
                ElementsAre("--bias", "--beta", "--budget", "--backend", "--bm", "--bn", "--bk"));
    EXPECT_THAT(offered("jit-gemm --kernel column_sum --sp"), ElementsAre("--split-rows"));
    EXPECT_THAT(offered("jit-gemm --bm "), ElementsAre("16", "32", "64", "128"));
    EXPECT_THAT(offered("jit-gemm --dtype b"), ElementsAre("bf16"));
    EXPECT_THAT(offered("jit-gemm --kernel gemm_wg"), Contains("gemm_wgmma"));
    EXPECT_THAT(offered("jit-gemm --backend "), ElementsAre("auto", "cuda", "hip", "host"));
    EXPECT_THAT(offered("jit-gemm --m "), IsEmpty()) << "bash offers files";
    EXPECT_THAT(offered("jit-gemm --kernel no_such_template --"), IsEmpty());
}

TEST_F(KilnCompletion, OfFish) {
    const bool has_fish = run_in_shell("command -v fish >/dev/null").status == 0;
    KILN_REQUIRE_OR_SKIP("fish", has_fish, "fish is not here");
    EXPECT_THAT(offered_by_fish("kiln bu"), ElementsAre("build"));
    EXPECT_THAT(offered_by_fish("kiln build gemm_tiled BM="), Contains("BM=128"));
    EXPECT_THAT(offered_by_fish("jit-gemm --dtype b"), ElementsAre("bf16"));
}

TEST_F(KilnCompletion, OfZsh) {
    const bool has_zsh = run_in_shell("command -v zsh >/dev/null").status == 0;
    KILN_REQUIRE_OR_SKIP("zsh", has_zsh, "zsh is not here");
    EXPECT_THAT(offered_by_zsh("kiln bu"), ElementsAre("build"));
    EXPECT_THAT(offered_by_zsh("kiln build gemm_tiled BM="),
                ElementsAre("BM=16", "BM=32", "BM=64", "BM=128"));
    EXPECT_THAT(offered_by_zsh("jit-gemm --dtype b"), ElementsAre("bf16"));
}

TEST_F(KilnCompletion, TheScriptIsTheInstalledOne) {
    const char* const source = std::getenv("KILN_TEST_SOURCE_DIR");
    if (source == nullptr) GTEST_SKIP() << "KILN_TEST_SOURCE_DIR is not set";
    for (const std::string shell : {"bash", "zsh", "fish"})
        EXPECT_EQ(run({"completion", shell}).out,
                  *read_text_if_exists(std::filesystem::path(source) / ("src/cli/kiln/completion." + shell)));
    EXPECT_EQ(run({"completion", "bash", "--json"}).json()["completion"], run({"completion", "bash"}).out);
}

}  // namespace
}  // namespace kiln::test
