// SPDX-License-Identifier: Apache-2.0
//
// Products whose sums are partitioned among blocks, and those of few rows: right in every layout, at sizes that leave
// some of the blocks, warps or lanes without work, and whichever block ends last.
#include <array>

#include "library.h"

namespace kiln {
namespace {

void expect_right(test::HostLibrary& library, const Variant& variant, const Sizes& sizes,
                  Data data = Data::random) {
    const RunResult result = library.runner().run(variant, test::once(sizes, data));
    EXPECT_TRUE(result.pass()) << variant.text() << test::sizes_text(result.problem) << "\n"
                               << test::failures_text(result);
}

// Fewer steps of k than blocks; parts that do not come out even; rows that start at multiples of 16 bytes or not.
const Sizes kSplitSizes[] = {
    {{"m", 3}, {"n", 5}, {"k", 2}},
    {{"m", 65}, {"n", 68}, {"k", 40}},
    {{"m", 64}, {"n", 67}, {"k", 129}},
    {{"m", 130}, {"n", 64}, {"k", 131}},
};

TEST(GemmFp32, IsRightHoweverManyBlocksShareATile) {
    test::HostLibrary library(7);
    const Template of = library.service().find("gemm_fp32");
    for (const int split : {1, 2, 5, 8}) {
        const Variant variant = of.variant({{"SPLIT_K", split}});
        for (const Sizes& sizes : kSplitSizes) expect_right(library, variant, sizes);
        expect_right(library, variant, kSplitSizes[2], Data::integers);
    }
}

TEST(GemmFp32, IsRightWithEveryDepthOfTiles) {
    test::HostLibrary library(2);
    const Template of = library.service().find("gemm_fp32");
    for (const int depth : {8, 16, 32})
        for (const int stages : {2, 3, 6}) {
            const Variant variant = of.variant({{"BK", depth}, {"STAGES", stages}});
            expect_right(library, variant, {{"m", 70}, {"n", 61}, {"k", 7 * depth + 5}});
            expect_right(library, variant, {{"m", 70}, {"n", 68}, {"k", 7 * depth + 4}});
        }
}

// Copies of 16 bytes into tiles of every shape, and results that leave in vectors.
TEST(GemmFp32, IsRightWithEveryShapeOfTiles) {
    test::HostLibrary library(4);
    const Template of = library.service().find("gemm_fp32");
    for (const Values& values :
         {Values{{"BM", 128}, {"BN", 32}, {"TM", 8}, {"TN", 4}, {"BK", 32}, {"MIN_BLOCKS", 2}},
          Values{{"BM", 64}, {"BN", 256}, {"TM", 4}, {"TN", 16}, {"BK", 8}, {"MIN_BLOCKS", 1}},
          Values{{"BM", 128}, {"BN", 128}, {"TM", 16}, {"TN", 4}, {"MIN_BLOCKS", 1}}}) {
        const Variant variant = of.variant(values);
        expect_right(library, variant, {{"m", 130}, {"n", 264}, {"k", 68}});
        expect_right(library, variant, {{"m", 128}, {"n", 263}, {"k", 67}});
    }
}

// More rows of tiles than a group has, and a last group of fewer.
TEST(GemmGroups, AreWorkedThroughToTheLast) {
    test::HostLibrary library;
    const Sizes high = {{"m", 6 * 64 - 3}, {"n", 130}, {"k", 24}},
                wide = {{"m", 130}, {"n", 6 * 64 - 3}, {"k", 24}};
    expect_right(library, library.service().find("gemm_fp32").variant({{"RASTER_GROUP", 4}}), high);
    expect_right(library, library.service().find("gemm_fp32").variant({{"RASTER_GROUP", 4}, {"SPLIT_K", 2}}),
                 high);
    const Values tiles = {{"BM", 64}, {"BN", 64}, {"WM", 32}, {"WN", 32}, {"RASTER_GROUP", 4}};
    expect_right(library, library.service().find("gemm_mma").variant(tiles), high);
    Values across = tiles;
    across.insert_or_assign("RASTER_ALONG_M", true);
    expect_right(library, library.service().find("gemm_mma").variant(across), wide);
}

// A block of the host is a cluster of its own, so that SPLIT_CLUSTERS alone shares the steps of k there.
TEST(GemmWgmmaAny, IsRightHoweverManyClustersShareATile) {
    test::HostLibrary library(5);
    const Template of = library.service().find("gemm_wgmma_any");
    const Values tiles = {{"BM", 64}, {"BN", 64}, {"STAGES", 2}};
    const auto with = [](Values values, const Values& more) {
        for (const auto& [name, value] : more) values.insert_or_assign(name, value);
        return values;
    };
    for (const int split : {2, 3, 16}) {
        const Variant variant = of.variant(with(tiles, {{"SPLIT_CLUSTERS", split}, {"TRANS_B", split == 3}}));
        for (const Sizes& sizes : kSplitSizes) expect_right(library, variant, sizes);
        expect_right(library, variant, {{"m", 65}, {"n", 67}, {"k", 331}}, Data::integers);
    }
    expect_right(library,
                 of.variant(with(tiles, {{"SPLIT_CLUSTERS", 4},
                                         {"SPLIT_K", 2},
                                         {"OUT", "half"},
                                         {"BIAS", 1},
                                         {"RESIDUAL", true},
                                         {"BETA", 0.5f},
                                         {"ACTIVATION", 2}})),
                 {{"m", 67}, {"n", 131}, {"k", 259}});
}

// Sums that lanes and warps join in every number, parts of k that blocks find empty, rows at any alignment.
TEST(GemmFewColumns, IsRightInEveryShape) {
    test::HostLibrary library(3);
    const Template of = library.service().find("gemm_few_columns");
    for (const auto& [rows, columns, warps, split] :
         {std::array{1, 1, 8, 3}, {2, 1, 2, 1}, {1, 16, 2, 2}, {4, 8, 2, 1}, {4, 16, 2, 32}}) {
        const Variant variant =
            of.variant({{"ROWS", rows}, {"BN", columns}, {"WARPS", warps}, {"SPLIT_K", split}});
        for (const Sizes& sizes : kSplitSizes) expect_right(library, variant, sizes);
        expect_right(library, variant, {{"m", 9}, {"n", columns}, {"k", 260}}, Data::integers);
        expect_right(library, variant, {{"m", 5}, {"n", columns}, {"k", 777}});
    }
}

TEST(GemmFewRows, IsRightInEveryShape) {
    test::HostLibrary library(4);
    const Template of = library.service().find("gemm_few_rows");
    for (const auto& [rows, columns, warps, split] :
         {std::array{1, 1, 16, 3}, {2, 4, 2, 1}, {16, 2, 4, 2}, {16, 4, 8, 1}, {4, 1, 2, 32}}) {
        const Variant variant =
            of.variant({{"BM", rows}, {"COLS", columns}, {"WARPS", warps}, {"SPLIT_K", split}});
        for (const Sizes& sizes : kSplitSizes) expect_right(library, variant, sizes);
        expect_right(library, variant, {{"m", rows}, {"n", 132}, {"k", 260}}, Data::integers);
        expect_right(library, variant, {{"m", rows}, {"n", 77}, {"k", 777}});
    }
}

// The order in which blocks and threads run must not show in the sums.
TEST(GemmSplit, GivesTheSameBitsInEveryOrderOfThreads) {
    const std::pair<std::string, Values> variants[] = {
        {"gemm_fp32", {{"SPLIT_K", 4}}},
        {"gemm_few_columns", {{"SPLIT_K", 4}}},
        {"gemm_few_rows", {{"SPLIT_K", 4}}},
        {"gemm_skinny", {{"WARPS_K", 4}, {"SPLIT_K", 3}}},
        {"gemm_wgmma_any", {{"BM", 64}, {"BN", 64}, {"STAGES", 2}, {"SPLIT_CLUSTERS", 4}}},
    };
    for (const auto& [name, values] : variants) {
        std::optional<std::vector<std::pair<std::string, std::vector<std::byte>>>> first;
        for (const unsigned seed : {1u, 2u, 3u}) {
            test::HostLibrary library(seed);
            const RunResult result = library.runner().run(library.service().find(name).variant(values),
                                                          test::once({{"m", 9}, {"n", 72}, {"k", 520}}));
            EXPECT_TRUE(result.pass()) << name << "\n" << test::failures_text(result);
            if (!first) first = result.outputs;
            EXPECT_TRUE(result.outputs == *first) << name << " with seed " << seed;
        }
    }
}

// One row to more than a block takes; k and n of whole pieces, of parts of them, and of less than one.
const Sizes kSkinnySizes[] = {
    {{"m", 1}, {"n", 128}, {"k", 1024}}, {{"m", 16}, {"n", 64}, {"k", 1032}},
    {{"m", 4}, {"n", 72}, {"k", 296}},   {{"m", 7}, {"n", 65}, {"k", 331}},
    {{"m", 21}, {"n", 40}, {"k", 64}},   {{"m", 2}, {"n", 3}, {"k", 1}},
};

TEST(GemmSkinny, IsRightInEveryLayout) {
    test::HostLibrary library(3);
    const Template of = library.service().find("gemm_skinny");
    for (const bool transposed : {true, false}) {
        for (const char* type : {"half", "bfloat16"}) {
            for (const int split : {1, 3}) {
                const Variant variant = of.variant({{"T", type},
                                                    {"TRANS_B", transposed},
                                                    {"WN", transposed ? 32 : 64},
                                                    {"WARPS_N", 2},
                                                    {"WARPS_K", 2},
                                                    {"UNROLL", 1},
                                                    {"SPLIT_K", split}});
                for (const Sizes& sizes : kSkinnySizes) expect_right(library, variant, sizes);
            }
        }
    }
}

// Rows that start at multiples of 16 bytes and are long enough for each place of a run to be filled again.
TEST(GemmSkinny, IsRightWithManyRunsUnderWay) {
    test::HostLibrary library(6);
    const Template of = library.service().find("gemm_skinny");
    for (const Values& values :
         {Values{{"WARPS_K", 1}, {"UNROLL", 1}}, Values{{"WARPS_K", 16}, {"UNROLL", 1}},
          Values{{"WARPS_K", 2}, {"UNROLL", 8}, {"BM", 8}, {"SPLIT_K", 2}},
          Values{{"WARPS_K", 2}, {"UNROLL", 2}, {"WARPS_N", 4}},
          Values{{"WARPS_K", 1}, {"UNROLL", 2}, {"TRANS_B", false}, {"WN", 64}, {"SPLIT_K", 3}}}) {
        expect_right(library, of.variant(values), {{"m", 17}, {"n", 136}, {"k", 2312}});
        expect_right(library, of.variant(values), {{"m", 3}, {"n", 64}, {"k", 1024}});
    }
}

// Rows that begin at each of the eight places in 16 bytes; ends of the matrices inside and at the end of pieces.
TEST(GemmSkinny, IsRightAtEveryAlignment) {
    test::HostLibrary library(2);
    const Template of = library.service().find("gemm_skinny");
    for (const Values& values :
         {Values{{"WARPS_K", 1}, {"UNROLL", 4}},
          Values{{"WARPS_K", 4}, {"UNROLL", 2}, {"BM", 8}, {"SPLIT_K", 3}, {"T", "bfloat16"}, {"PDL", true}},
          Values{{"WARPS_K", 2}, {"UNROLL", 1}, {"TRANS_B", false}, {"WN", 64}, {"SPLIT_K", 2}}}) {
        Values any = values;
        any.insert_or_assign("ANY", true);
        const Variant variant = of.variant(any);
        for (int extra = 0; extra < 9; ++extra)
            expect_right(library, variant, {{"m", 1 + 2 * extra}, {"n", 61 + extra}, {"k", 249 + extra}});
        for (const Sizes& sizes : kSkinnySizes) expect_right(library, variant, sizes);
        expect_right(library, variant, kSkinnySizes[3], Data::integers);
    }
}

TEST(GemmSkinny, IsExactForSmallIntegers) {
    test::HostLibrary library;
    const Template of = library.service().find("gemm_skinny");
    for (const Values& values : {Values{}, Values{{"BM", 8}, {"PDL", true}, {"UNROLL", 4}}}) {
        const RunResult result = library.runner().run(
            of.variant(values), test::once({{"m", 16}, {"n", 48}, {"k", 1024}}, Data::integers));
        EXPECT_TRUE(result.pass()) << test::failures_text(result);
        ASSERT_EQ(result.outputs_checked.size(), 1u);
        EXPECT_EQ(result.outputs_checked[0].max_abs_error, 0);
    }
}

}  // namespace
}  // namespace kiln
