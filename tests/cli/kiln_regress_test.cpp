// SPDX-License-Identifier: Apache-2.0
//
// kiln regress: its options, its report, its exit statuses. What it finds is in tests/regress.
#include "kiln_program.h"
#include "run_templates.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class KilnRegress : public Kiln {
  protected:
    KilnRegress() {
        add_doubling_templates([this](const auto& name, const auto& text) { with_template(name, text); });
        write("variants.txt", "doubling @host\ndoubling_naive @host\n");
    }
    Outcome regress(Arguments more) const {
        more.insert(more.begin(),
                    {"regress", path("variants.txt").string(), "--baselines", path("baselines").string()});
        return on_host(std::move(more));
    }
};

TEST_F(KilnRegress, RecordsAndThenPasses) {
    const Outcome fresh = regress({});
    EXPECT_EQ(fresh.status, 1);
    EXPECT_THAT(fresh.out, AllOf(HasSubstr("2: 2 new"), HasSubstr("FAILED"), HasSubstr("--update")));
    EXPECT_FALSE(std::filesystem::exists(path("baselines")));

    const Outcome updated = regress({"--update"});
    EXPECT_EQ(updated.status, 0) << updated.out;
    EXPECT_THAT(updated.out, HasSubstr("review the difference"));
    const Outcome again = regress({});
    EXPECT_EQ(again.status, 0) << again.out;
    EXPECT_THAT(again.out, AllOf(HasSubstr("2: 2 same"), HasSubstr("PASSED")));
    const auto json = regress({"--json", "--only", "doubling"}).json();
    EXPECT_EQ(json["pass"], true);
    EXPECT_EQ(json["updated"], false);
    ASSERT_EQ(json["results"].size(), 1U);
    EXPECT_EQ(json["results"][0]["variant"], "doubling FACTOR=2 SCALE=1");
    EXPECT_EQ(json["results"][0]["status"], "same");
    EXPECT_EQ(json["results"][0]["run"], true);

    const Outcome table = run({"regress", "--table", "--baselines", path("baselines").string()});
    EXPECT_EQ(table.status, 0) << table.err;
    EXPECT_THAT(table.out, HasSubstr("| `gemm_tiled` |"));
    const std::string head = table.out.substr(0, table.out.find('\n') + 1);
    const std::string page = write("page.md", "before\n" + head + "| stale |\nafter\n");
    const Arguments write_page = {"regress", "--table",     "--page",
                                  page,      "--baselines", path("baselines").string()};
    EXPECT_EQ(run(write_page).status, 0);
    EXPECT_EQ(run_in_shell("cat " + page).out, "before\n" + table.out + "after\n");
    write("page.md", "no table\n");
    expect_error(run(write_page), 2, {"page.md has no table"});
}

TEST_F(KilnRegress, AWrongResultIsStatusOneAndChangesNoBaseline) {
    ASSERT_EQ(regress({"--update"}).status, 0);
    const Outcome files = run_in_shell("cat " + path("baselines").string() + "/*");
    write("variants.txt", "doubling FACTOR=3 @host\n");
    for (const Arguments& more : {Arguments{}, Arguments{"--update", "--only", "doubling"}}) {
        const Outcome wrong = regress(more);
        EXPECT_EQ(wrong.status, 1);
        EXPECT_THAT(wrong.out, HasSubstr("checked elements of y are wrong"));
    }
    EXPECT_EQ(run_in_shell("cat " + path("baselines").string() + "/*").out, files.out);
}

TEST_F(KilnRegress, UpdatingSaysWhatWasNotRecorded) {
    write("variants.txt", "doubling FACTOR=3 @host\n");
    EXPECT_THAT(regress({"--update"}).out, HasSubstr("nothing was recorded: every variant failed"));
    const auto none = regress({"--update", "--json"}).json();
    EXPECT_EQ(none["updated"], false);
    EXPECT_EQ(none["results"][0]["recorded"], false);
    EXPECT_FALSE(std::filesystem::exists(path("baselines")));
    write("variants.txt", "doubling FACTOR=2,3 @host\n");
    EXPECT_THAT(regress({"--update"}).out,
                HasSubstr("updated for 1 of 2 variants; the 1 that failed keep what was recorded"));
    const Outcome some = regress({"--update", "--json"});
    EXPECT_EQ(some.status, 1);
    EXPECT_EQ(some.json()["updated"], true);
    EXPECT_EQ(some.json()["results"][0]["recorded"], true);
    EXPECT_EQ(some.json()["results"][1]["recorded"], false);
}

TEST_F(KilnRegress, UpdatingAPartKeepsTheRest) {
    ASSERT_EQ(regress({"--update"}).status, 0);
    ASSERT_EQ(regress({"--update", "--only", "doubling_naive"}).status, 0);
    const Outcome all = regress({"--json"});
    EXPECT_EQ(all.status, 0) << all.out;
    EXPECT_EQ(all.json()["results"].size(), 2U);
}

TEST_F(KilnRegress, MistakesAreReported) {
    expect_error(regress({"--only", "dubling"}), 2, {"no manifest names", "did you mean doubling?"});
    expect_error(on_host({"regress", "no-such.txt"}), 2, {"no-such.txt", "no such manifest"});
    expect_error(run_in_shell("cd / && \"$0\" regress"), 2, {"cache/variants.txt", "source tree"});
    expect_error(run_in_shell("cd / && \"$0\" regress --table"), 2, {"cache/baselines", "--baselines"});
    expect_error(regress({"--arch", "x86-65"}), 2, {"x86-65"});
    expect_error(regress({"--page", "page.md"}), 2, {"--page", "add --table"});
    expect_error(run({"regress", "--table", path("variants.txt").string()}), 2,
                 {"the manifest", "variants.txt would not be used"});
    for (const Arguments& option : {Arguments{"--only", "doubling"}, Arguments{"--update"},
                                    Arguments{"--arch", "sm_90a"}, Arguments{"--time"}}) {
        Arguments table = {"regress", "--table"};
        table.insert(table.end(), option.begin(), option.end());
        expect_error(run(table), 2, {"--table tests nothing", option[0] + " would not be used"});
    }
    write("baselines", "a file\n");
    expect_error(regress({"--update"}), 2, {"not a directory"});
}

TEST_F(KilnRegress, WithoutACompilerNothingPasses) {
    const Environment no_compiler = {{"KILN_HOST_CXX", path("no-compiler").string()}};
    const Arguments arguments = {"regress", path("variants.txt").string(), "--baselines",
                                 path("baselines").string()};
    const Outcome result = on_host(arguments, no_compiler);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("skipped"), HasSubstr("no-compiler"), HasSubstr("NOTHING TESTED")));
    Arguments json = arguments;
    json.emplace_back("--json");
    EXPECT_EQ(on_host(json, no_compiler).json()["pass"], false);
}

TEST_F(KilnRegress, AnInterruptEndsItAndChangesNoBaseline) {
    std::string scales = "1";  // seconds of compiling
    for (int i = 2; i < 60; ++i) scales += "," + std::to_string(i);
    write("variants.txt", "doubling SCALE=" + scales + " @host\n");
    const std::string command = "env --default-signal=INT \"$0\" regress " + path("variants.txt").string() +
                                " --update --baselines " + path("baselines").string() + " --template-dir " +
                                templates() + " & job=$!; sleep 0.4; kill -INT $job; wait $job; exit $?";
    const Outcome result = run_in_shell(command);
    EXPECT_EQ(result.status, 130) << result.err;
    EXPECT_FALSE(std::filesystem::exists(path("baselines")));
}

// Whatever is being done then: here the compiler is asked who it is.
TEST_F(KilnRegress, AnInterruptBeforeAnythingIsCompiledIsOneToo) {
    const std::string compiler =
        write("slow_cxx", "#!/bin/sh\ntouch \"$ASKED\"\nsleep 20\nexec g++ \"$@\"\n");
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    const Outcome result = run_in_shell("env --default-signal=INT \"$0\" regress " +
                                            path("variants.txt").string() + " --update --baselines " +
                                            path("baselines").string() + " --template-dir " + templates() +
                                            " & job=$!; tries=0; while [ ! -e \"$ASKED\" ] && [ $((tries += "
                                            "1)) -lt 200 ]; do sleep 0.05; done\n"
                                            "kill -INT $job; wait $job; exit $?",
                                        {{"KILN_HOST_CXX", compiler}, {"ASKED", path("asked").string()}});
    EXPECT_EQ(result.status, 130) << result.out << result.err;
    EXPECT_FALSE(std::filesystem::exists(path("baselines")));
}

TEST_F(KilnRegress, ShardsAreAllOfItAndKeepTheOtherOnes) {
    write("variants.txt", "doubling SCALE=1,2,3 @host\ndoubling_naive @host\n");
    std::size_t results = 0;
    for (const char* shard : {"0/2", "1/2"}) {
        const Outcome part = regress({"--update", "--shard", shard, "--json"});
        ASSERT_EQ(part.status, 0) << part.out << part.err;
        results += part.json()["results"].size();
    }
    EXPECT_EQ(results, 4U);
    EXPECT_EQ(regress({}).status, 0);
    expect_error(regress({"--shard", "2/2"}), 2, {"--shard"});
}

TEST_F(KilnRegress, ASampleBuildsOneOfEachTemplateAndFindsTheOthersOutOfDate) {
    write("variants.txt", "doubling SCALE=1,2,3 @host\ndoubling_naive @host\n");
    ASSERT_EQ(regress({"--update"}).status, 0);
    const auto json = regress({"--sample", "--json"}).json();
    EXPECT_EQ(json["pass"], true);
    ASSERT_EQ(json["results"].size(), 4U);
    std::vector<bool> built;
    for (const auto& result : json["results"]) {
        EXPECT_EQ(result["status"], "same") << result;
        EXPECT_EQ(result["run"], result["built"]) << result;
        built.push_back(result["built"]);
    }
    EXPECT_EQ(built, (std::vector<bool>{true, false, false, true}));
    EXPECT_THAT(regress({"--sample"}).out, HasSubstr("2; of the others the ingredients"));

    const Outcome edited =
        run_in_shell("for file in " + path("baselines").string() +
                     "/*; do sed -i '/SCALE=3/,/ingredients/s/ingredients = ..../ingredients = 0000/' "
                     "\"$file\"; done");
    ASSERT_EQ(edited.status, 0) << edited.err;
    const Outcome stale = regress({"--sample"});
    EXPECT_EQ(stale.status, 1);
    EXPECT_THAT(stale.out, AllOf(HasSubstr("SCALE=3"), HasSubstr("ingredients"), HasSubstr("FAILS")));
    expect_error(regress({"--sample", "--update"}), 2, {"a sample can't update"});
}

}  // namespace
}  // namespace kiln::test
