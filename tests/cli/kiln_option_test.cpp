// SPDX-License-Identifier: Apache-2.0
//
// Options of the compiler on the command line and in a template: they take effect, they are part of the key, and
// --debug puts real paths into binaries that otherwise have none.
#include <kiln/kiln.h>

#include <fstream>
#include <iterator>

#include "kiln_program.h"
#include "require.h"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KilnOption : public Kiln {
  protected:
    void with_scaled(const std::string& directive = "") const {
        (void)with_template("scaled",
                            "// scaled: y = FACTOR * x\n//@ kernel scaled\n" + directive +
                                "//@ block 64\n//@ grid ceil_div(n, 64)\n//@ size n = 77 \"elements\"\n"
                                "//@ input x [n]\n//@ output y [n]\n"
                                "extern \"C\" __global__ void scaled(int n, const float* x, float* y) {\n"
                                "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                "    if (i < n) y[i] = FACTOR * x[i];\n}\n");
    }
    Outcome build(Arguments more = {}) const {
        Arguments arguments = {"build", "scaled", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return on_host(std::move(arguments));
    }
};

std::string tier(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? outcome.json()["tier"].get<std::string>() : "";
}

TEST_F(KilnOption, IsPartOfTheKey) {
    with_scaled();
    EXPECT_EQ(build().status, 3) << "FACTOR is not defined";
    EXPECT_EQ(tier(build({"--define=FACTOR=2"})), "compiled");
    EXPECT_EQ(tier(build({"--option=-DFACTOR=2"})), "disk") << "the same option, written otherwise";
    EXPECT_EQ(tier(build({"--define=FACTOR=3"})), "compiled");
    EXPECT_EQ(tier(build({"--define=FACTOR=2", "--option=--use_fast_math"})), "compiled");
    EXPECT_EQ(tier(build({"--define=FACTOR=2", "--option=cuda: --ftz=true"})), "disk")
        << "not of this backend";
    const Outcome explained = on_host({"explain", "scaled", "--define=FACTOR=4"});
    EXPECT_THAT(explained.out, HasSubstr("-DFACTOR=4"));
}

TEST_F(KilnOption, OfATemplateComesFirst) {
    with_scaled("//@ param N int in 1..9 = 5\n//@ option \"-DFACTOR={N}\"\n");
    EXPECT_EQ(tier(build()), "compiled");
    EXPECT_EQ(tier(build({"N=6"})), "compiled");
    const Outcome wrong = build({"--define=N=3"});
    EXPECT_EQ(wrong.status, 2);
    EXPECT_THAT(wrong.err, HasSubstr("N is a parameter"));
    with_scaled("//@ option \"-DFACTOR=2 --ftz=true\"\n");
    const Outcome line = build();
    EXPECT_EQ(line.status, 2);
    EXPECT_THAT(line.err, HasSubstr("scaled.cu:3:12: "));
    EXPECT_THAT(line.err, HasSubstr("host has no option --ftz"));
}

TEST_F(KilnOption, DebugNamesRealPaths) {
    with_scaled("//@ option \"-DFACTOR=2\"\n");
    const auto has_path = [&](Arguments more) {
        more.insert(more.end(), {"--no-cache", "--output", path("binary").string()});
        const Outcome built = build(std::move(more));
        EXPECT_EQ(built.status, 0) << built.err;
        std::ifstream file(path("binary"), std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}};
        return bytes.find(path("templates").string()) != bytes.npos;
    };
    EXPECT_TRUE(has_path({"--debug"}));
    EXPECT_FALSE(has_path({}));
}

}  // namespace
}  // namespace kiln::test
