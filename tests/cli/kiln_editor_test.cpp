// SPDX-License-Identifier: Apache-2.0
//
// kiln show --editor: with what it writes, a compiler accepts a template as it stands, its parameters and prelude included.
#include <kiln/kiln.h>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KilnEditor : public Kiln {
  protected:
    std::string directory() const { return path("editor").string(); }
    nlohmann::json commands() const {
        return nlohmann::json::parse(read_text_if_exists(path("editor/compile_commands.json")).value_or(""));
    }
    /// What the compiler that is named there says of the file; nullopt without it.
    Outcome compiled(const nlohmann::json& command) const {
        return run_program(command["arguments"].get<Arguments>(), usual_environment());
    }
    static bool has_clang() { return std::system("command -v clang++ >/dev/null") == 0; }
};

TEST_F(KilnEditor, WhatItWritesCompiles) {
    KILN_REQUIRE_OR_SKIP("clang", has_clang(), "no clang++");
    for (const char* name : {"tiny", "gemm_tiled", "softmax"}) {
        SCOPED_TRACE(name);
        const Outcome outcome =
            run({"show", name, "--template-dir", templates(), "--editor", directory(), "--json"});
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.json()["template"], name);
        const Outcome checked = compiled(commands().back());
        EXPECT_EQ(checked.status, 0) << checked.err;
    }
    EXPECT_EQ(commands().size(), 3u);
    EXPECT_EQ(commands()[0]["file"], templates() + "/tiny.cu") << "the file itself, not a copy";
    // A mistake is one, and it is at its own line.
    std::string broken = tiny_template();
    broken.replace(broken.find("MUL * x[i]"), 3, "MULL");
    (void)with_template("tiny", broken);
    ASSERT_EQ(run({"show", "tiny", "--template-dir", templates(), "--editor", directory()}).status, 0);
    EXPECT_EQ(commands().size(), 3u) << "an entry is replaced";
    const Outcome checked = compiled(commands().back());
    EXPECT_NE(checked.status, 0);
    EXPECT_THAT(checked.err, HasSubstr("tiny.cu:14:23: error"));
}

TEST_F(KilnEditor, BadInputIsReported) {
    expect_error(run({"show", "gemm_wgmma", "--arch", "sm_80", "--editor", "/proc/nowhere"}), 2,
                 {"/proc/nowhere"});
    (void)with_template("gpu",
                        "// gpu: for tests.\n//@ kernel gpu\n//@ backend cuda\n//@ block 32\n//@ grid 1\n"
                        "extern \"C\" __global__ void gpu(int n, float* x) {}\n");
    expect_error(run({"show", "gpu", "--template-dir", templates(), "--editor", directory()}), 2,
                 {"gpu can't be shown to an editor", "cuda only"});
    expect_error(run({"show", "tiny", "--template-dir", templates(), "--include-dir", templates()}), 2,
                 {"--include-dir", "--editor is not given"});
}

TEST_F(KilnEditor, CompileCommandsThatAreNoneStayAndNothingIsWritten) {
    const std::string deep(200'000, '[');
    for (const std::string& content :
         {std::string("{}"), std::string("no JSON"), std::string("[1]"), std::string("[{}]"),
          std::string(R"([{"file": 5}])"), deep, deep + std::string(deep.size(), ']'),
          R"([{"file": "a.cpp", "arguments": )" + deep + std::string(deep.size(), ']') + "}]"}) {
        SCOPED_TRACE(content.substr(0, 40));
        std::filesystem::create_directories(directory());
        (void)write("editor/compile_commands.json", content);
        expect_error(run({"show", "tiny", "--template-dir", templates(), "--editor", directory()}), 2,
                     {"compile_commands.json is no list of compile commands: ", "name another directory"});
        EXPECT_EQ(read_text_if_exists(path("editor/compile_commands.json")), content);
        EXPECT_FALSE(std::filesystem::exists(path("editor/tiny.h")));
        EXPECT_FALSE(std::filesystem::exists(path("editor/include")));
    }
    (void)write("editor/compile_commands.json", R"([{"file": "a.cpp", "command": "cc a.cpp"}])");
    const Outcome outcome = run({"show", "tiny", "--template-dir", templates(), "--editor", directory()});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(commands().size(), 2u);
    EXPECT_EQ(commands()[0]["command"], "cc a.cpp") << "an entry of another file stays";
}

TEST_F(KilnEditor, FilesOfOtherOriginStay) {
    const Arguments show = {"show", "softmax", "--editor", directory()};
    for (const char* name : {"editor/softmax.h", "editor/softmax.cu", "editor/include/kiln/device.h"}) {
        SCOPED_TRACE(name);
        std::filesystem::create_directories(path("editor/include/kiln"));
        (void)write(name, "int mine;\n");
        expect_error(run(show), 2, {path(name).string(), "of another origin", "name a directory"});
        EXPECT_EQ(read_text_if_exists(path(name)), "int mine;\n");
        EXPECT_FALSE(std::filesystem::exists(path("editor/compile_commands.json")));
        std::filesystem::remove_all(directory());
    }
    // Nor is anything written where that can't be found out.
    for (const char* name : {"editor/softmax.h", "editor/compile_commands.json"}) {
        SCOPED_TRACE(name);
        std::filesystem::create_directories(directory());
        std::filesystem::create_symlink(path(name), path(name));
        expect_error(run(show), 2,
                     {"can't find out whether " + path(name).string(), "Too many levels of symbolic links"});
        EXPECT_FALSE(std::filesystem::exists(path("editor/include")));
        std::filesystem::remove_all(directory());
    }
    const std::string long_name(300, 'x');
    expect_error(run({"show", "softmax", "--editor", path(long_name).string()}), 2,
                 {"can't find out whether", long_name, "File name too long"});
    // Its own it writes again, also those of an older version.
    ASSERT_EQ(run(show).status, 0);
    for (const char* name : {"editor/softmax.h", "editor/softmax.cu", "editor/include/kiln/device.h"}) {
        const std::string content = read_text_if_exists(path(name)).value_or("");
        EXPECT_THAT(content.substr(0, content.find('\n')), HasSubstr("made by kiln show --editor"));
        (void)write(name, content.substr(0, content.find('\n') + 1) + "old\n");
    }
    ASSERT_EQ(run(show).status, 0);
    EXPECT_THAT(read_text_if_exists(path("editor/softmax.h")).value_or(""), Not(HasSubstr("old\n")));
}

}  // namespace
}  // namespace kiln::test
