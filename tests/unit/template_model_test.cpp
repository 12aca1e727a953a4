// SPDX-License-Identifier: Apache-2.0
//
// The `model` lines: what a template tells the tuner's model.
#include <kiln/model.h>

#include "template_support.h"

namespace kiln {
namespace {

using test::expect_template_error;
using test::make;
using test::template_text;
using test::variant_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kRowsAndDepth = "//@ param ROWS int in 1..256 = 64\n//@ param DEEP int in 0..8 = 4\n";

ModelFacts facts(const std::string& lines, const Values& values = {}) {
    return make(kRowsAndDepth + lines).variant(values).model({{"m", 100}, {"n", 7}});
}

TEST(TemplateModel, IsWhatTheLinesSay) {
    const ModelFacts of = facts(
        "//@ let WIDE = 2 * ROWS\n"
        "//@ model engine wgmma\n//@ model tile ROWS, WIDE, 32 of m, n, m * 2, 3\n//@ model warp 16, ROWS / "
        "4\n"
        "//@ model thread 2, 4, 8\n//@ model stages DEEP\n//@ model cluster 1, 2\n//@ model blocks 3\n"
        "//@ model pingpong DEEP > 3\n//@ model staged_store DEEP > 3\n//@ model padding 5\n//@ model access "
        "6, "
        "7\n//@ model copies "
        "registers\n//@ model row WIDE * 4 of 3 * m\n//@ model side ROWS of min(n, m)\n//@ model edge DEEP "
        "of n\n//@ model step ROWS of m\n//@ model parts DEEP / 2\n//@ model "
        "any_rows DEEP > "
        "3\n//@ model staged_rows DEEP > 3\n",
        {{"ROWS", 128}});
    EXPECT_EQ(of.engine, Engine::wgmma);
    EXPECT_EQ(of.copies, Copies::registers);
    ASSERT_TRUE(of.tiles.has_value());
    EXPECT_EQ(of.tiles->rows, 128);
    EXPECT_EQ(of.tiles->columns, 256);
    EXPECT_EQ(of.tiles->depth, 32);
    EXPECT_EQ(of.tiles->m, 100);
    EXPECT_EQ(of.tiles->n, 7);
    EXPECT_EQ(of.tiles->k, 200);
    EXPECT_EQ(of.tiles->batch, 3);
    EXPECT_EQ(of.warp_rows, 16);
    EXPECT_EQ(of.warp_columns, 32);
    EXPECT_EQ(of.thread_rows, 2);
    EXPECT_EQ(of.thread_columns, 4);
    EXPECT_EQ(of.thread_width, 8);
    EXPECT_EQ(of.stages, 4);
    EXPECT_EQ(of.cluster_rows, 1);
    EXPECT_EQ(of.cluster_columns, 2);
    EXPECT_EQ(of.blocks, 3);
    EXPECT_TRUE(of.pingpong);
    EXPECT_TRUE(of.staged_store);
    EXPECT_EQ(of.padding, 5);
    EXPECT_EQ(of.access_elements, 6);
    EXPECT_EQ(of.accesses, 7);
    EXPECT_EQ(of.row_capacity, 1024);
    EXPECT_EQ(of.row, 300);
    EXPECT_EQ(of.side_capacity, 128);
    EXPECT_EQ(of.side, 7);
    EXPECT_EQ(of.edge_tile, 4);
    EXPECT_EQ(of.edge, 7);
    EXPECT_FALSE(of.has_strips);
    EXPECT_EQ(of.step_tile, 128);
    EXPECT_EQ(of.step, 100);
    EXPECT_EQ(of.parts, 2);
    EXPECT_TRUE(of.any_rows);
    EXPECT_TRUE(of.staged_rows);
}

TEST(TemplateModel, AStripHasAnEdge) {
    const ModelFacts of = facts("//@ model strip ROWS of 5 * n\n", {{"ROWS", 128}});
    EXPECT_TRUE(of.has_strips);
    EXPECT_EQ(of.edge_tile, 128);
    EXPECT_EQ(of.edge, 35);
}

TEST(TemplateModel, HasUsualValuesForWhatNoLineSays) {
    const ModelFacts none = facts("");
    EXPECT_EQ(none.engine, Engine::fma);
    EXPECT_FALSE(none.tiles.has_value());
    EXPECT_EQ(none.copies, Copies::registers);
    EXPECT_EQ(none.accesses, 1);
    EXPECT_EQ(facts("//@ model engine wgmma\n").copies, Copies::tma) << "what feeds warpgroup instructions";
    EXPECT_EQ(facts("//@ model engine mma\n//@ model copies async\n").copies, Copies::async);
    EXPECT_EQ(facts("//@ model tile 8, 8 of m, n, n\n").tiles->depth, 0);
    EXPECT_THAT(make(kRowsAndDepth).model_search().groups, IsEmpty());
}

TEST(TemplateModel, SaysWhatToVary) {
    const Template of = make(kRowsAndDepth +
                             "//@ model search [ROWS, DEEP], [DEEP]\n//@ model search host [DEEP]\n"
                             "//@ model stages DEEP\n//@ model tile ROWS, 8 of m, n, n\n");
    const ModelSearch& search = of.model_search();
    EXPECT_THAT(search.groups, ElementsAre(ElementsAre("ROWS", "DEEP"), ElementsAre("DEEP")));
    EXPECT_THAT(search.host_groups, ElementsAre(ElementsAre("DEEP")));
    EXPECT_THAT(search.parameters, ElementsAre("ROWS", "DEEP"));
}

TEST(TemplateModel, FailsWithItsValues) {
    EXPECT_THAT(variant_error([] {
                    facts("//@ model stages 8 / DEEP\n", {{"DEEP", 0}});
                }),
                ::testing::AllOf(HasSubstr("8 / DEEP divides by zero"), HasSubstr("DEEP = 0")));
}

TEST(TemplateModel, Errors) {
    expect_template_error(template_text("//@ model\n"), 2, 10, "engine");
    expect_template_error(template_text("//@ model engin mma\n"), 2, 11, "did you mean engine?");
    expect_template_error(template_text("//@ model engine tensor\n"), 2, 18,
                          "an engine (fma, mma, wgmma), found tensor");
    expect_template_error(template_text("//@ model stages 1\n//@ model stages 2\n"), 3, 11,
                          "a second line //@ model stages; the first is on line 2");
    expect_template_error(template_text("//@ model strip 8 of n\n//@ model edge 8 of n\n"), 3, 11,
                          "a line //@ model edge or //@ model strip, not both");
    expect_template_error(template_text("//@ model tile 8, 8\n"), 2, 20, "of m, n, k");
    expect_template_error(template_text("//@ model tile 8 of m, n, n\n"), 2, 18, "at least 2 numbers");
    expect_template_error(template_text("//@ model side 8\n"), 2, 17, "of min(rows, cols)");
    expect_template_error(template_text("//@ model warp 8, 8, 8\n"), 2, 22, "at most 2 numbers");
    expect_template_error(template_text("//@ model stages n\n"), 2, 18, "known only at launch");
    expect_template_error(template_text("//@ param P int in 1, 2 = 1\n//@ model search [Q]\n"), 3, 19,
                          "Q is no parameter of this template");
    expect_template_error(template_text("//@ param P int in 1, 2 = 1\n//@ model search P\n"), 3, 18,
                          "parameters to vary together");
}

}  // namespace
}  // namespace kiln
