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

TEST_F(KilnExport, SaysWhatCantBeExported) {
    const std::string out = path("out").string();
    expect_error(export_lines("tiny @cuda:sm_80\n"), 2, {"--output DIR"});
    expect_error(export_lines("tiny @host\n", {"--output", out}), 2,
                 {"kernels of the host can't be exported"});
    expect_error(export_lines("# nothing\n", {"--output", out}), 2, {"the manifest names no variant"});
    expect_error(export_lines("tiny ADD=9 @cuda:sm_80\n", {"--output", out}), 2, {"manifest.txt:1"});
    EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace kiln::test
