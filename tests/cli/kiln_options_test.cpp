// SPDX-License-Identifier: Apache-2.0
//
// kiln's commands as such: help, version, options that all of them take, and what is wrong with a command
// line.
#include <kiln/service.h>

#include <regex>
#include <set>
#include <sstream>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class KilnOptions : public Kiln {};

const std::vector<Arguments> kCommands = {
    {"list"},           {"show"},          {"build"},           {"warm"},
    {"analyze"},        {"check"},         {"report"},          {"profile"},
    {"explain"},        {"doctor"},        {"completion"},      {"cache", "stats"},
    {"cache", "list"},  {"cache", "show"}, {"cache", "verify"}, {"cache", "prune"},
    {"cache", "clear"}, {"cache", "pack"}, {"cache", "unpack"}, {"cache", "push"},
    {"cache", "pull"}};

TEST_F(KilnOptions, Version) {
    EXPECT_EQ(run({"--version"}).out, "kiln " + std::string(version()) + "\n");
    EXPECT_EQ(run({"--version", "--json"}).json()["version"], std::string(version()));
}

// Each loaded host kernel holds a descriptor, and a search loads thousands.
TEST_F(KilnOptions, ProgramsMayOpenMoreFilesThanTheShellLetsThem) {
    const Outcome outcome = run_in_shell("ulimit -Sn 64; \"$0\" doctor");
    std::smatch files;
    ASSERT_TRUE(std::regex_search(outcome.out, files, std::regex("open files +([0-9]+|no limit)")))
        << outcome.out << outcome.err;
    EXPECT_NE(files[1], "64");
}

TEST_F(KilnOptions, HelpListsEveryCommand) {
    const Outcome help = run({"--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.err, IsEmpty());
    for (const Arguments& command : kCommands)
        EXPECT_THAT(help.out, HasSubstr("  " + command.front() +
                                        (command.size() > 1 ? " " + command.back() : "") + " "));
    EXPECT_THAT(help.out, Not(HasSubstr("complete ")));
    EXPECT_EQ(run({"-h"}).out, help.out);
    EXPECT_EQ(run({"help"}).out, help.out);
    EXPECT_EQ(run({"help", "--help"}).out, help.out);
    EXPECT_EQ(run({"help", "--json"}).json()["help"], help.out);
}

TEST_F(KilnOptions, EveryCommandHasHelpWithExamples) {
    for (Arguments command : kCommands) {
        Arguments helped = {"help"};
        helped.insert(helped.end(), command.begin(), command.end());
        command.emplace_back("--help");
        const Outcome help = run(command);
        EXPECT_EQ(help.status, 0) << help.err;
        EXPECT_THAT(help.out, StartsWith("Usage: kiln " + helped[1]));
        EXPECT_TRUE(std::regex_search(help.out, std::regex("Examples:\n  .*kiln"))) << help.out;
        for (const char* option : {"--json", "--help"})
            EXPECT_THAT(help.out, HasSubstr(std::string("  ") + option + " ")) << help.out;
        EXPECT_EQ(run(helped).out, help.out);
        command.back() = "-h";
        EXPECT_EQ(run(command).out, help.out);
    }
    EXPECT_THAT(run({"cache", "--help"}).out, HasSubstr("cache verify"));
    EXPECT_THAT(run({"help", "cache"}).out, Not(HasSubstr("doctor")));
}

TEST_F(KilnOptions, CommandsTakeTheSharedOptionsThatTheyUse) {
    for (const char* command : {"build", "doctor"})
        for (const char* option : {"--backend", "--device", "--arch", "--cache-dir", "--template-dir",
                                   "--remote", "--seed-pack", "--no-cache"})
            EXPECT_THAT(run({command, "--help"}).out, HasSubstr(std::string("  ") + option + " "));
    build("1");
    expect_error(run({"cache", "clear", "--yes", "--arch", "sm_80"}), 2, {"no option --arch"});
    expect_error(run({"cache", "list", "--backend", "cuda"}), 2, {"no option --backend"});
    expect_error(run({"completion", "bash", "--remote", "redis://a"}), 2, {"no option --remote"});
    EXPECT_EQ(run({"cache", "stats", "--json"}).json()["entries"], 1) << "nothing was cleared";
}

TEST_F(KilnOptions, CommandsThatDoNotExist) {
    expect_error(run({}), 2, {"say what to do", "list", "warm"});
    expect_error(run({"cache"}), 2, {"say what to do", "stats", "unpack"});
    expect_error(run({"biuld"}), 2, {"'kiln biuld'", "Did you mean build?"});
    expect_error(run({"cache", "prone"}), 2, {"'kiln cache prone'", "Did you mean prune?"});
    expect_error(run({"help", "explian"}), 2, {"Did you mean explain?"});
    expect_error(run({"--backend", "host", "list"}), 2, {"after the command", "--backend"});
}

TEST_F(KilnOptions, OptionsThatDoNotExist) {
    expect_error(run({"list", "--jsno"}), 2, {"kiln list has no option --jsno", "Did you mean --json?"});
    expect_error(run({"tune", "softmax", "--size", "rows=5"}), 2,
                 {"no option --size. Sizes are given by --shapes."});
    expect_error(run({"run", "softmax", "--shapes", "rows=5"}), 2,
                 {"no option --shapes. Sizes are given by --size."});
    expect_error(run({"cache", "prune", "--remove"}), 2, {"kiln cache prune has no option --remove"});
    expect_error(run({"list", "-j"}), 2, {"no option -j", "kiln list --help"});
    expect_error(run({"list", "--backend", "cud"}), 2, {"--backend", "Did you mean cuda?"});
    expect_error(run({"list", "--backend", "--arch"}), 2, {"--backend needs a value", "--arch"});
    expect_error(run({"build", "gemm_tiled", "--output", ""}), 2, {"--output has an empty value"});
}

TEST_F(KilnOptions, WordsThatAreMissingOrTooMany) {
    expect_error(run({"show"}), 2, {"kiln show TEMPLATE"});
    expect_error(run({"show", "a", "b"}), 2, {"'b' is too many", "kiln show TEMPLATE"});
    expect_error(run({"warm"}), 2, {"kiln warm MANIFEST..."});
    expect_error(run({"cache", "show"}), 2, {"kiln cache show KEY"});
    expect_error(run({"completion", "ksh"}), 2, {"ksh", "bash", "zsh", "fish"});
}

TEST_F(KilnOptions, ErrorsAsJson) {
    const Outcome result = run({"show", "gemm_tild", "--json"});
    EXPECT_EQ(result.status, 2);
    const auto json = result.json();
    EXPECT_EQ(json["error"]["kind"], "usage");
    EXPECT_EQ("kiln: " + json["error"]["message"].get<std::string>() + "\n", result.err);
    EXPECT_EQ(run({"frobnicate", "--json"}).json()["error"]["kind"], "usage");
}

TEST_F(KilnOptions, APasswordOnTheCommandLineIsWarnedOfAndNeverShown) {
    const auto explain = [&](const std::string& url) {
        return on_host({"explain", "tiny", "--remote", url});
    };
    const Outcome result = explain("redis://me:s3cr3t@127.0.0.1:1/0");
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("s3cr3t")));
    EXPECT_THAT(result.err, HasSubstr("KILN_REMOTE_PASSWORD_FILE"));
    EXPECT_THAT(result.err, Not(HasSubstr("s3cr3t")));
    EXPECT_THAT(explain("redis://127.0.0.1:1/0").err, Not(HasSubstr("KILN_REMOTE_PASSWORD_FILE")));
}

TEST_F(KilnOptions, TheCacheCommandsNeedACache) {
    expect_error(run({"cache", "stats", "--no-cache"}), 2, {"--no-cache"});
    expect_error(run({"cache", "stats", "--cache-dir", write("file", "precious")}), 2,
                 {path("file").string()});
    expect_error(run({"cache", "push"}), 2, {"KILN_REMOTE"});
    Environment wrong_remote = usual_environment();
    wrong_remote.emplace_back("KILN_REMOTE", "nonsense");
    EXPECT_EQ(run({"cache", "stats"}, wrong_remote).status, 0) << "the directory is there all the same";
    expect_error(run({"cache", "push"}, wrong_remote), 2, {"redis://"});
}

TEST_F(KilnOptions, Doctor) {
    const Outcome result = run({"doctor", "--json"});
    const auto json = result.json();
    int problems = 0;
    std::set<std::string> areas;
    for (const auto& finding : json["findings"]) {
        problems += finding["status"] == "problem";
        areas.insert(finding["area"].get<std::string>());
        EXPECT_TRUE(finding["status"] != "problem" || finding["remedy"] != "") << finding;
    }
    EXPECT_EQ(json["problems"], problems);
    EXPECT_EQ(result.status, problems == 0 ? 0 : 1);
    for (const char* area : {"compilers", "devices", "cache"}) EXPECT_EQ(areas.count(area), 1U) << area;
    const Outcome text = run({"doctor"});
    for (const char* word : {"compilers\n", "devices\n", "cache\n", "NVRTC"})
        EXPECT_THAT(text.out, HasSubstr(word));
}

// A long finding is broken at spaces and goes on under its beginning.
TEST_F(KilnOptions, DoctorFitsTheTerminal) {
    const bool has_script = run_in_shell("command -v script >/dev/null").status == 0;
    KILN_REQUIRE_OR_SKIP("script", has_script, "the program script, which makes a terminal, is not here");
    const Outcome result = run_in_shell("script -qec \"stty cols 50; '$0' doctor\" /dev/null");
    const std::string text = std::regex_replace(result.out, std::regex("\033\\[[0-9]*m|\r"), "");
    bool broken = false;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        broken = broken || line.starts_with(std::string(11, ' '));
        if (line.size() <= 50) continue;
        const std::size_t begin = line.find_first_not_of(' ');
        EXPECT_EQ(line.find(' ', begin), std::string::npos) << "'" << line << "' could be broken";
    }
    EXPECT_TRUE(broken) << text;
}

TEST_F(KilnOptions, DoctorReadsTheUsersWisdomAndCalibrations) {
    const auto found = [&](const std::string& subject) {
        const Outcome result = run({"doctor", "--json"}, {{"KILN_WISDOM", path("wisdom.txt").string()}});
        std::vector<std::string> texts;
        const auto json = result.json();
        for (const auto& finding : json["findings"])
            if (finding["subject"] == subject)
                texts.push_back(finding["status"].get<std::string>() + " " +
                                finding["text"].get<std::string>());
        if (texts.empty()) return std::string();
        EXPECT_EQ(texts.size(), 1U);
        EXPECT_TRUE(!texts[0].starts_with("problem") || result.status == 1);
        return texts[0];
    };
    EXPECT_EQ(found("wisdom"), "");
    EXPECT_EQ(found("calibration"), "");
    write("wisdom.txt", "garbage\n");
    write("calibration.txt", "# kiln calibration 1\ndevice A\nmodel 0\n");
    EXPECT_THAT(found("wisdom"), ::testing::AllOf(HasSubstr("problem"), HasSubstr("wisdom.txt:1")));
    EXPECT_THAT(found("calibration"), ::testing::AllOf(HasSubstr("problem"), HasSubstr("calibration.txt:3")));
    write("wisdom.txt", "# kiln wisdom 1\n");
    write("calibration.txt", "# kiln calibration 2\nend\n");
    EXPECT_EQ(found("wisdom"), "good " + path("wisdom.txt").string());
    EXPECT_EQ(found("calibration"), "good " + path("calibration.txt").string());
}

TEST_F(KilnOptions, DoctorFindsAProblemWithWhatWasAskedFor) {
    const Outcome result = run({"doctor", "--json"}, {{"KILN_CACHE_DIR", write("file", "precious")}});
    EXPECT_EQ(result.status, 1);
    bool found = false;
    const auto json = result.json();
    for (const auto& finding : json["findings"])
        found = found || (finding["area"] == "cache" && finding["status"] == "problem");
    EXPECT_TRUE(found) << result.out;
}

}  // namespace
}  // namespace kiln::test
