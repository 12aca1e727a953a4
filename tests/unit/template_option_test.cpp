// SPDX-License-Identifier: Apache-2.0
//
// The `option` lines: texts with values of parameters in them, under conditions.
#include <kiln/build.h>

#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;

std::vector<std::string> texts(const Variant& variant) {
    std::vector<std::string> texts;
    for (const CompileOption& option : variant.source(Backend::cuda).options) texts.push_back(option.text);
    return texts;
}

TEST(TemplateOption, HasValuesOfParametersAndConstants) {
    const auto of = make(
        "//@ param REGS int in 0..255 = 64\n//@ param FAST bool = true\n//@ param T type in half, float = "
        "half\n"
        "//@ let TWICE = REGS * 2\n"
        "//@ option \"cuda: --maxrregcount={REGS}\" if REGS > 0\n"
        "//@ option \"-DA={TWICE} -DB={FAST} -DC={T}\"\n");
    EXPECT_THAT(texts(of.variant()),
                testing::ElementsAre("cuda: --maxrregcount=64", "-DA=128 -DB=1 -DC=half"));
    EXPECT_THAT(texts(of.variant({{"REGS", 0}, {"FAST", false}, {"T", "float"}})),
                testing::ElementsAre("-DA=0 -DB=0 -DC=float"));
    EXPECT_EQ(of.variant().source(Backend::host).options.front().line, 6);
}

TEST(TemplateOption, IsLegalWhereItsConditionHasAValue) {
    const auto of = make("//@ param N int in 0..4 = 2\n//@ option \"-w\" if 8 / N > 1\n");
    EXPECT_EQ(texts(of.variant()).size(), 1U);
    EXPECT_THROW((void)of.variant({{"N", 0}}), VariantError);
}

TEST(TemplateOption, ErrorsPointAtTheWord) {
    expect_template_error(template_text("//@ option -w\n"), 2, 12, "options are written in quotes");
    expect_template_error(template_text("//@ option \"-D{X}\"\n"), 2, 12, "{X} is no parameter");
    expect_template_error(template_text("//@ option \"-D{X\"\n"), 2, 12, "a brace is not closed");
    expect_template_error(template_text("//@ option \"-w\" if 1\n"), 2, 20, "must be true or false");
    expect_template_error(template_text("//@ option \"-w\" if device.warp_size > 32\n"), 2, 20,
                          "can't depend on the device");
    expect_template_error(template_text("//@ option \"-w\" 3\n"), 2, 17, "after the option");
}

}  // namespace
}  // namespace kiln
