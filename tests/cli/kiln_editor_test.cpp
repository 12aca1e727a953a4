// SPDX-License-Identifier: Apache-2.0
//
// kiln show --editor: with what it writes, a compiler accepts a template as it stands, its parameters and prelude included.
#include <kiln/kiln.h>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class KilnEditor : public Kiln {
  protected:
    std::string directory() const { return path("editor").string(); }
    Json commands() const {
        return Json::parse(read_text_if_exists(path("editor/compile_commands.json")).value_or(""));
    }
    /// What the compiler that is named there says of the file; nullopt without it.
    Outcome compiled(const Json& command) const {
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
    std::filesystem::create_directories(directory());
    (void)write("editor/compile_commands.json", "{}");
    expect_error(run({"show", "tiny", "--template-dir", templates(), "--editor", directory()}), 2,
                 {"is no list of compile commands"});
}

}  // namespace
}  // namespace kiln::test
