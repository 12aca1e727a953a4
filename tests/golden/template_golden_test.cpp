// SPDX-License-Identifier: Apache-2.0
//
// Specialised text byte for byte. The expected bytes are next to this file in *.golden; KILN_UPDATE_GOLDEN=1
// writes them again, for an intended change.
#include <gtest/gtest.h>
#include <kiln/template.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"

namespace kiln {
namespace {

constexpr const char* kTile = R"(// tile: every kind of constant
//@ kernel tile
//@ param BM     int in 16, 32, 64 = 64 "rows"
//@ param UNROLL bool = true
//@ param T      type in half, bfloat16, float, int8_t = half
//@ param OFFSET int in -5, 2147483647, 2147483648, -9223372036854775808 = -5
//@ block BM
//@ grid  n
#include "kiln/device.h"

extern "C" __global__ void tile(int n, T* x) {
	// a tab, a trailing blank, and no newline at the end 
})";

void expect_golden(const std::string& name, const std::string& text) {
    const char* source = std::getenv("KILN_TEST_SOURCE_DIR");
    ASSERT_NE(source, nullptr) << "KILN_TEST_SOURCE_DIR must name the source tree; ctest sets it";
    const std::filesystem::path path =
        std::filesystem::path(source) / "tests" / "golden" / (name + ".golden");
    if (std::getenv("KILN_UPDATE_GOLDEN")) {
        write_text(path, text);
        return;
    }
    const auto expected = read_text_if_exists(path);
    ASSERT_TRUE(expected) << path << " is missing; KILN_UPDATE_GOLDEN=1 writes it";
    EXPECT_EQ(text, *expected);
}

TEST(TemplateGolden, Defaults) {
    const Source source = Template::parse(kTile, "some/dir/tile.cu").variant().source(Backend::cuda);
    EXPECT_EQ(source.file_name, "tile.cu");
    EXPECT_EQ(source.entry, "tile");
    expect_golden("tile_defaults", source.text);
    EXPECT_TRUE(source.text.ends_with(kTile)) << "the body's bytes must stay untouched";
    for (Backend backend : {Backend::hip, Backend::host})
        EXPECT_EQ(Template::parse(kTile, "tile.cu").variant().source(backend).text, source.text);
}

TEST(TemplateGolden, OtherValues) {
    const Template tile = Template::parse(kTile, "tile.cu");
    const auto text = [&](const Values& values) { return tile.variant(values).source(Backend::cuda).text; };
    expect_golden("tile_float",
                  text({{"BM", 16}, {"UNROLL", false}, {"T", "float"}, {"OFFSET", 2147483647}}));
    expect_golden("tile_long", text({{"T", "bfloat16"}, {"OFFSET", 2147483648LL}}));
    expect_golden("tile_smallest", text({{"T", "int8_t"}, {"OFFSET", Value(-9223372036854775807LL - 1)}}));
}

TEST(TemplateGolden, Floats) {
    const Template scale = Template::parse(
        "//@ kernel scale\n"
        "//@ param ALPHA float = 0.1\n"
        "//@ param BETA float in 0, 1, -0.75 = 1\n"
        "//@ param TINY float = 1e-45\n"
        "//@ block 32\n"
        "//@ grid  n\n"
        "extern \"C\" __global__ void scale(int n, float* x) {}\n",
        "scale.cu");
    expect_golden("scale_floats", scale.variant({{"BETA", -0.75}}).source(Backend::cuda).text);
    EXPECT_EQ(scale.variant({{"BETA", -0.0}}).source(Backend::cuda).text,
              scale.variant({{"BETA", 0}}).source(Backend::cuda).text)
        << "one text, and so one key, for both zeros";
}

TEST(TemplateGolden, OddFileNames) {
    const auto text = [](const char* file) {
        return Template::parse(kTile, file).variant().source(Backend::cuda).text;
    };
    EXPECT_NE(text("a/b \"c\"\\d.cu").find("#line 1 \"b \\\"c\\\"\\\\d.cu\"\n"), std::string::npos);
    EXPECT_NE(text("x\ny.cu").find("#line 1 \"x?y.cu\"\n"), std::string::npos);
}

}  // namespace
}  // namespace kiln
