// SPDX-License-Identifier: Apache-2.0
//
// Commands write where they are pointed at and destroy nothing there; "-" is standard output for all of them. What
// they read has an end.
#include <gtest/gtest.h>
#include <kiln/wisdom.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "kiln_program.h"
#include "require.h"
#include "run_templates.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class KilnOutput : public Kiln {
  protected:
    KilnOutput() {
        static_cast<void>(with_template("doubling", doubling_template()));
        static_cast<void>(with_template("doubling_reference",
                                        reference_template("doubling_reference", "const float* x",
                                                           "expected[i] = 2 * double(x[e]); bound[i] = 0;")));
        EXPECT_EQ(build("1").status, 0);
        key_ = build("1").json()["key"];
        EXPECT_EQ(run({"wisdom", "export", "--output", path("in").string()}).status, 0);
    }

    /// The command in a shell, with the templates; $FILE is `name` in this test's folder.
    Outcome shell(const std::string& command, const std::string& name = "file") const {
        Environment environment = usual_environment();
        environment.emplace_back("PATH", "/usr/bin:/bin");
        environment.emplace_back("HOME", path("home").string());
        environment.emplace_back("FILE", path(name).string());
        environment.emplace_back("IN", path("in").string());
        environment.emplace_back("ON_HOST", "--backend host --template-dir " + templates());
        return run_in_shell(command, environment);
    }
    std::string text(const std::string& name) const {
        return read_text_if_exists(path(name)).value_or("(none)");
    }
    /// The file is a pack with the one entry.
    void expect_pack(const std::string& name) const {
        const Outcome listed = run({"cache", "list", "--pack", path(name).string(), "--json"});
        ASSERT_EQ(listed.status, 0) << listed.err;
        ASSERT_EQ(listed.json()["entries"].size(), 1u);
        EXPECT_EQ(listed.json()["entries"][0]["key"], key_);
    }

    std::string key_;
};

/// Every command that writes a file, with $FILE in the place of its name, and what the output begins with.
struct Writer {
    const char* name;
    const char* command;
    std::string_view begin;
};
void PrintTo(const Writer& writer, std::ostream* out) { *out << writer.name; }
constexpr Writer kWriters[] = {
    {"build", "\"$0\" build tiny $ON_HOST --output \"$FILE\"", "\177ELF"},
    {"pack", "\"$0\" cache pack \"$FILE\"", "KILNPCK"},
    {"lab", "\"$0\" lab banks --map 3 5 --svg \"$FILE\"", "<svg"},
    {"report", "\"$0\" report doubling --no-record $ON_HOST --output \"$FILE\"", "<!"},
    {"tune", "\"$0\" tune doubling $ON_HOST --budget 5 --output \"$FILE\"", "# kiln wisdom"},
    {"merge", "\"$0\" wisdom merge \"$IN\" --output \"$FILE\"", "# kiln wisdom"},
    {"export", "\"$0\" wisdom export --output \"$FILE\"", "# kiln wisdom"},
};

class KilnWriter : public KilnOutput, public ::testing::WithParamInterface<Writer> {
  protected:
    /// What is written is a page or a binary: too much for a message.
    void expect_output(const std::string& text, const std::string& before = {}) const {
        EXPECT_TRUE(text.starts_with(before + std::string(GetParam().begin)) &&
                    text.size() > before.size() + GetParam().begin.size())
            << text.substr(0, 200);
    }
};

INSTANTIATE_TEST_SUITE_P(All, KilnWriter, ::testing::ValuesIn(kWriters),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(KilnWriter, FollowsLinksAndKeepsTheMode) {
    write("target", "");
    ASSERT_EQ(::chmod(path("target").c_str(), 0640), 0);
    fs::create_symlink("target", path("link"));
    fs::create_symlink(path("new"), path("dangling"));
    for (const char* name : {"link", "dangling"}) {
        const Outcome outcome = shell(GetParam().command, name);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_TRUE(fs::is_symlink(path(name)));
    }
    expect_output(text("target"));
    expect_output(text("new"));
    EXPECT_EQ(shell(GetParam().command, "target").status, 0) << "what Kiln wrote is replaced";
    struct stat status {};
    ASSERT_EQ(::stat(path("target").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777u, 0640u);
    for (const auto& item : fs::directory_iterator(path("")))
        EXPECT_THAT(item.path().filename().string(), ::testing::Not(HasSubstr("tmp"))) << "left behind";
}

TEST_P(KilnWriter, LeavesAloneWhatKilnDidNotWrite) {
    const std::string foreign = "// a template: y = 2 x\n//@ kernel mine\n";
    write("mine.cu", foreign);
    const Outcome outcome = shell(GetParam().command, "mine.cu");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("mine.cu"));
    EXPECT_EQ(text("mine.cu"), foreign);
}

TEST_P(KilnWriter, WritesToStandardOutputAndNothingElse) {
    for (const char* file : {"FILE=-", "FILE=/dev/stdout", "FILE=/dev/fd/1", "FILE=/proc/self/fd/1"}) {
        const std::string command = std::string(file) + "; " + GetParam().command;
        // As a pipe and as a file, which is added to and not replaced.
        const Outcome piped = shell(command + " | cat");
        expect_output(piped.out);
        write("log", "before\n");
        const Outcome added = shell(command + " >> '" + path("log").string() + "'");
        EXPECT_EQ(added.status, 0) << added.err;
        expect_output(text("log"), "before\n");
        if (std::string(file) != "FILE=-") continue;
        const Outcome json = shell(command + " --json | cat");
        EXPECT_THAT(json.err, HasSubstr("--json writes to standard output")) << json.err;
        EXPECT_THAT(shell(command + " >&-").err, HasSubstr("Bad file descriptor")) << "it is closed";
    }
    EXPECT_FALSE(fs::exists("-"));
}

TEST_P(KilnWriter, AFileNamedLikeStandardOutputIsPossible) {
    const Outcome outcome = shell("cd '" + path("").string() + "' && FILE=./- && " + GetParam().command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expect_output(text("-"));
}

TEST_P(KilnWriter, WritesToAFifo) {
    ASSERT_EQ(::mkfifo(path("file").c_str(), 0600), 0);
    const Outcome outcome = shell("timeout 60 cat \"$FILE\" > '" + path("got").string() + "' & " +
                                  GetParam().command + "; status=$?; wait; exit $status");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expect_output(text("got"));
    EXPECT_TRUE(fs::is_fifo(fs::symlink_status(path("file"))));
    EXPECT_FALSE(fs::exists(path("file.lock")) || fs::exists(path("file.journal")));
}

TEST_P(KilnWriter, WritesToADeviceAndLeavesItThere) {
    const bool made = ::mknod(path("file").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0 &&
                      ::mknod(path("full").c_str(), S_IFCHR | 0666, makedev(1, 7)) == 0;
    KILN_REQUIRE_OR_SKIP("root", made, "no devices can be made here");
    const Outcome outcome = shell(GetParam().command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(shell(GetParam().command, "full").err, HasSubstr("No space left on device"));
    for (const char* name : {"file", "full"}) {
        struct stat status {};
        ASSERT_EQ(::lstat(path(name).c_str(), &status), 0);
        EXPECT_TRUE(S_ISCHR(status.st_mode)) << name;
    }
}

TEST_P(KilnWriter, SaysWhatCantBeWritten) {
    const Outcome outcome = shell(std::string("FILE=/proc; ") + GetParam().command);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("can't write /proc: it is a directory"));
    EXPECT_THAT(outcome.out, IsEmpty());
}

// Without a session's terminal the open fails as that of a FIFO without a reader does.
TEST_F(KilnOutput, ATerminalThatIsNotThereIsNotWaitedFor) {
    const Outcome outcome = shell("exec setsid -w \"$0\" wisdom export --output /dev/tty");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("/dev/tty"));
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("for reading")));
}

TEST_F(KilnOutput, APackThroughAPipeIsThePack) {
    EXPECT_EQ(shell("\"$0\" cache pack - | cat > \"$FILE\"").status, 0);
    expect_pack("file");
    EXPECT_EQ(shell("\"$0\" cache pack /dev/stdout > \"$FILE\"", "redirected").status, 0);
    expect_pack("redirected");
}

TEST_F(KilnOutput, WisdomOfTheEnvironmentMayBeADevice) {
    const bool made = ::mknod(path("file").c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
    KILN_REQUIRE_OR_SKIP("root", made, "no devices can be made here");
    const Outcome tuned = shell("KILN_WISDOM=\"$FILE\" \"$0\" tune doubling $ON_HOST --budget 5");
    EXPECT_EQ(tuned.status, 0) << tuned.err;
    EXPECT_EQ(shell("KILN_WISDOM=\"$FILE\" \"$0\" wisdom show").status, 0) << "empty, as /dev/null is";
    EXPECT_TRUE(fs::is_character_file(fs::symlink_status(path("file"))));
    EXPECT_FALSE(fs::exists(path("file.lock")));
}

TEST_F(KilnOutput, AJournalNeedsAFile) {
    const Outcome outcome = shell("\"$0\" tune doubling $ON_HOST --resume --output /dev/null");
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr("--resume reads the journal"));
}

TEST_F(KilnOutput, ABinaryIsNotForATerminal) {
    for (const char* command : {"cache pack -", "build tiny $ON_HOST --output /dev/stdout"}) {
        const Outcome outcome = shell("script -qec \"'$0' " + std::string(command) + "\" /dev/null");
        EXPECT_THAT(outcome.out, HasSubstr("a binary is not written to a terminal")) << command;
    }
}

TEST_F(KilnOutput, WhatNeverEndsIsNotRead) {
    ASSERT_EQ(::mkfifo(path("file").c_str(), 0600), 0);
    for (const char* command :
         {"\"$0\" warm \"$FILE\" --backend host", "\"$0\" wisdom show \"$FILE\"",
          "\"$0\" wisdom merge \"$FILE\"", "KILN_WISDOM=\"$FILE\" \"$0\" wisdom show",
          "\"$0\" cache unpack \"$FILE\"", "\"$0\" cache list --pack \"$FILE\"", "\"$0\" regress \"$FILE\"",
          "\"$0\" report --manifest \"$FILE\" --output -",
          "\"$0\" profile doubling --read \"$FILE\" --arch sm_75 --template-dir ",
          "KILN_REMOTE=redis://localhost:1 KILN_REMOTE_PASSWORD_FILE=\"$FILE\" \"$0\" cache push",
          "KILN_REMOTE=redis://localhost:1 KILN_REMOTE_KEY_FILE=\"$FILE\" \"$0\" cache push"}) {
        std::string line = command;
        if (line.ends_with("--template-dir ")) line += templates();
        const Outcome fifo = shell("timeout 20 sh -c '" + line + "' \"$0\"");
        EXPECT_EQ(fifo.status, 2) << line;
        EXPECT_THAT(fifo.err, HasSubstr("FIFO")) << line;
        const Outcome zero = shell("FILE=/dev/zero; export FILE; timeout 20 sh -c '" + line + "' \"$0\"");
        EXPECT_EQ(zero.status, 2) << line;
        EXPECT_THAT(zero.err, HasSubstr("a device")) << line;
        EXPECT_TRUE(fs::is_fifo(fs::symlink_status(path("file"))));
    }
    const Outcome endless = shell("timeout 60 \"$0\" warm - --backend host < /dev/zero");
    EXPECT_EQ(endless.status, 2);
    EXPECT_THAT(endless.err, HasSubstr("standard input: it is larger"));
}

class JitGemmOutput : public JitGemm {};

TEST_F(JitGemmOutput, EmitsToWhatItIsPointedAt) {
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    const std::string emit = "\"$0\" --backend host --kernel gemm_naive --emit source --output ";
    const std::string direct = run_in_shell(emit + "-").out;
    EXPECT_THAT(direct, HasSubstr("gemm_naive"));
    EXPECT_EQ(run_in_shell(emit + "/dev/fd/3 3>&1 >/dev/null").out, direct);
    EXPECT_EQ(
        run_in_shell("cat '" + path("fifo").string() + "' & " + emit + path("fifo").string() + "; wait").out,
        direct);
    EXPECT_TRUE(fs::is_fifo(fs::symlink_status(path("fifo"))));
}

TEST_F(JitGemmOutput, WisdomThatIsTunedIntoIsAFile) {
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    for (const std::string& file : {path("fifo").string(), std::string("/dev/null")}) {
        const Outcome outcome = multiply({"--tune", "--wisdom", file});
        EXPECT_EQ(outcome.status, 2);
        EXPECT_THAT(outcome.err, HasSubstr("is not a file that can be read back"));
    }
    const Outcome config = multiply({"--config", path("fifo").string()});
    EXPECT_EQ(config.status, 2);
    EXPECT_THAT(config.err, HasSubstr("it is a FIFO"));
}

}  // namespace
}  // namespace kiln::test
