// SPDX-License-Identifier: Apache-2.0
//
// Parameters that are code, as the programs take, write and report them. On the host; tests/compile has GPUs.
#include "base/file.h"
#include "kiln_program.h"
#include "run_templates.h"

namespace kiln::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class KilnCode : public Kiln {
  protected:
    KilnCode() {
        with_template(
            "mapped",
            "// mapped: for tests.\n//\n//@ kernel mapped\n"
            "//@ param F code = \"return x;\" (float x, int i) -> float \"of each element\"\n"
            "//@ block 32\n//@ grid ceil_div(n, 32)\n//@ size n = 1000 test 97\n"
            "//@ input x [n]\n//@ output y [n] by mapped_reference\n//@ bytes 8 * n\n"
            "#include \"kiln/device.h\"\n\n"
            "extern \"C\" __global__ void mapped(int n, const float* x, float* y) {\n"
            "    const int i = blockIdx.x * 32 + threadIdx.x;\n    if (i < n) y[i] = F(x[i], i);\n}\n");
        std::string reference =
            reference_template("mapped_reference", "const float* x",
                               "expected[i] = F(kiln::wide(x[e]), e);\n    bound[i] = 1e-6;");
        reference.insert(reference.find("//@ backend"),
                         "//@ param F code = \"return x;\" (double x, long long i) -> double\n");
        with_template("mapped_reference", reference);
    }

    Outcome run_mapped(const std::string& value, Arguments more = {}) const {
        more.insert(more.begin(), {"run", "mapped", "F=" + value, "--no-time"});
        return on_host(std::move(more));
    }
};

TEST_F(KilnCode, TheReferenceHasTheSameFunction) {
    const Outcome result = run_mapped("return i % 2 == 0 ? 2 * x : 3 + x;", {"--json"});
    ASSERT_EQ(result.status, 0) << result.err << result.out;
    EXPECT_EQ(result.json()["values"]["F"], "return i % 2 == 0 ? 2 * x : 3 + x;");
    EXPECT_EQ(result.json()["pass"], true);
    EXPECT_EQ(result.json()["outputs"][0]["elements"], 97);
    const Outcome other = run_mapped("return sizeof(x) == 4 ? x + 1 : x;");
    EXPECT_EQ(other.status, 1) << "the kernel adds 1, and the reference does not";
    EXPECT_THAT(other.out,
                AllOf(HasSubstr("mapped F=\"return sizeof(x) == 4 ? x + 1 : x;\"\n"), HasSubstr("FAIL")));
}

TEST_F(KilnCode, MayComeFromAFile) {
    const std::string file = write("functor.h", "// twice\nreturn 2 * x;\n");
    const Outcome result = run_mapped("@" + file);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(R"(mapped F="// twice\nreturn 2 * x;\n")"));
    // As an editor may write it.
    EXPECT_EQ(
        run_mapped("@" + write("mark.h", "\xef\xbb\xbf" + read_text_if_exists(file).value_or(""))).status, 0);
    expect_error(run_mapped("@/nowhere/functor.h"), 2, {"/nowhere/functor.h"});
}

TEST_F(KilnCode, ErrorsPointIntoTheCode) {
    expect_error(run_mapped("return (x;"), 2,
                 {"F is not the body of float F(float x, int i)", "line 1, column 8: this ( has no )"});
    const Outcome broken = run_mapped("\nreturn y;");
    EXPECT_EQ(broken.status, 3);
    EXPECT_THAT(broken.err, AllOf(HasSubstr("mapped.F:2"), HasSubstr("'y' was not declared")));
}

TEST_F(KilnCode, IsShownAndExplained) {
    const Outcome shown = on_host({"show", "mapped"});
    EXPECT_THAT(shown.out, AllOf(HasSubstr("the body of float F(float x, int i) (\"return x;\")"),
                                 HasSubstr("of each element"), HasSubstr("  mapped\n")));
    const auto parameter = on_host({"show", "mapped", "--json"}).json()["parameters"][0];
    EXPECT_EQ(parameter["kind"], "code");
    EXPECT_EQ(parameter["signature"], "(float x, int i)");
    EXPECT_EQ(parameter["result"], "float");
    EXPECT_EQ(parameter["default"], "return x;");
    ASSERT_EQ(on_host({"build", "mapped"}).status, 0);
    EXPECT_THAT(
        on_host({"explain", "mapped", "F=return x + 1, x;"}).out,
        AllOf(HasSubstr("return x + 1, x;"), HasSubstr("\"return x;\""), Not(HasSubstr("source, line"))));
}

TEST_F(KilnCode, IsInManifestsAndBaselines) {
    const std::string manifest =
        write("variants.txt", "mapped F=\"const int k[1] = {1};\\nreturn x + k[0];\" @host\n");
    EXPECT_EQ(on_host({"warm", manifest}).status, 0);
    const Outcome built = on_host({"build", "mapped", "F=const int k[1] = {1};\nreturn x + k[0];", "--json"});
    EXPECT_EQ(built.json()["tier"], "disk") << built.err;
    const std::string baselines = path("baselines");
    const auto regress = [&](Arguments more) {
        more.insert(more.begin(), {"regress", manifest, "--baselines", baselines});
        return on_host(std::move(more));
    };
    ASSERT_EQ(regress({"--update"}).status, 0);
    EXPECT_EQ(regress({}).status, 0) << "a name with ] is found again";
}

}  // namespace
}  // namespace kiln::test
