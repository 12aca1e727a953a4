// SPDX-License-Identifier: Apache-2.0
//
// The `opt_level` line: a number of parameters, which reaches CUDA's source only.
#include <kiln/build.h>

#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;

TEST(TemplateOptLevel, ReachesTheSourceForCuda) {
    const auto chosen = make("//@ param FAST bool = true\n//@ opt_level FAST ? 3 : 1\n");
    EXPECT_EQ(chosen.variant().source(Backend::cuda).opt_level, 3);
    const Variant kept = chosen.variant({{"FAST", false}});
    EXPECT_EQ(kept.source(Backend::cuda).opt_level, 1);
    EXPECT_EQ(kept.source(Backend::hip).opt_level, kUsualOptLevel);
    EXPECT_EQ(kept.source(Backend::host).opt_level, kUsualOptLevel);
    EXPECT_EQ(make("").variant().source(Backend::cuda).opt_level, kUsualOptLevel);
}

TEST(TemplateOptLevel, IsOneThatThereIs) {
    const auto levels = make("//@ param LEVEL int in 0..9 = 2\n//@ opt_level LEVEL\n");
    EXPECT_EQ(levels.variant({{"LEVEL", 0}}).source(Backend::cuda).opt_level, 0);
    try {
        levels.variant({{"LEVEL", 4}});
        FAIL() << "level 4 was taken";
    } catch (const VariantError& error) {
        EXPECT_THAT(error.what(),
                    testing::AllOf(testing::HasSubstr("ptxas has optimization levels from 0 to 3"),
                                   testing::HasSubstr("LEVEL = 0, 1, 2, 3 would do")));
    }
}

TEST(TemplateOptLevel, IsANumberAndThereIsOne) {
    expect_template_error(template_text("//@ opt_level 1 > 0\n"), 2, 15,
                          "must be a number; 1 > 0 is true or false");
    expect_template_error(template_text("//@ opt_level 1, 2\n"), 2, 16, "the level");
    expect_template_error(template_text("//@ opt_level 1\n//@ opt_level 1\n"), 3, 5,
                          "a second opt_level line");
    expect_template_error(template_text("//@ opt_level n\n"), 2, 15, "n");
}

}  // namespace
}  // namespace kiln
