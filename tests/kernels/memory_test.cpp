// SPDX-License-Identifier: Apache-2.0
//
// Column sums, transpositions and histograms at sizes whose rows vectors divide and at sizes whose rows they do not, with all
// accesses that a variant has in flight, over several strips of tiles, and with a short side of any length.
#include <algorithm>

#include "library.h"

namespace kiln {
namespace {

void expect_memory_right(test::HostLibrary& library, const Variant& variant, const Sizes& sizes,
                         int skew = 0) {
    RunOptions options = test::once(sizes);
    options.skew = skew;
    const RunResult result = library.runner().run(variant, options);
    EXPECT_TRUE(result.pass()) << variant.text() << test::sizes_text(result.problem) << "\n"
                               << test::failures_text(result);
}

TEST(ColumnSum, IsRightWithVectorsAndWithout) {
    test::HostLibrary library(4);
    const Template of = library.service().find("column_sum");
    for (const Values& values :
         {Values{{"SPLIT_ROWS", 1}}, Values{{"SPLIT_ROWS", 1}, {"THREADS_Y", 1}, {"UNROLL", 8}},
          Values{{"SPLIT_ROWS", 4}, {"UNROLL", 2}, {"THREADS_Y", 4}},
          Values{{"T", "half"}, {"VEC", 8}, {"SPLIT_ROWS", 4}, {"UNROLL", 16}, {"THREADS_X", 16}},
          Values{{"T", "bfloat16"}, {"VEC", 2}, {"SPLIT_ROWS", 1}, {"L1_NO_ALLOCATE", false}}}) {
        const Variant variant = of.variant(values);
        for (const int cols : {128, 264, 263, 8})
            for (const int rows : {1, 6, 67, 600})
                expect_memory_right(library, variant, {{"rows", rows}, {"cols", cols}});
    }
}

// Fewer columns than an access has, as many as a block has and one more, more threads than columns but not twice as many, parts
// without rows, and a matrix that begins at no multiple of an access.
TEST(ColumnSum, IsRightWhereverRowsBegin) {
    test::HostLibrary library(4);
    const Template of = library.service().find("column_sum");
    for (const Values& values :
         {Values{{"T", "half"}, {"VEC", 8}, {"THREADS_X", 4}, {"SPLIT_ROWS", 4}, {"ANY_ROWS", true}},
          Values{{"T", "bfloat16"},
                 {"VEC", 2},
                 {"THREADS_X", 4},
                 {"THREADS_Y", 64},
                 {"SPLIT_ROWS", 8},
                 {"ANY_ROWS", true}},
          Values{{"VEC", 4},
                 {"THREADS_X", 8},
                 {"THREADS_Y", 4},
                 {"UNROLL", 2},
                 {"SPLIT_ROWS", 1},
                 {"ANY_ROWS", true}}}) {
        const Variant variant = of.variant(values);
        for (const int cols : {1, 3, 7, 8, 24, 25, 28, 29, 333})
            for (const int rows : {1, 2, 9, 67, 300})
                expect_memory_right(library, variant, {{"rows", rows}, {"cols", cols}});
        expect_memory_right(library, variant, {{"rows", 67}, {"cols", 29}}, 1);
    }
}

// Bytes before and behind the accesses that are whole, fewer bytes than an access has, some threads with one access more
// than others, and several rounds of all that a thread has under way.
TEST(Histogram, CountsEachByteFromAnyAddress) {
    test::HostLibrary library(4);
    const Template of = library.service().find("histogram");
    for (const Values& values :
         {Values{{"THREADS", 256}},
          Values{{"VEC", 4},
                 {"UNROLL", 2},
                 {"REPLICAS", 4},
                 {"COUNTERS_PER_BIN", 8},
                 {"THREADS", 256},
                 {"BLOCKS", 132}},
          Values{{"THREADS", 256}, {"BLOCKS", 132}, {"SET", true}},
          Values{{"VEC", 1}, {"UNROLL", 2}, {"COUNTERS_PER_BIN", 1}, {"THREADS", 256}, {"BLOCKS", 132}}}) {
        const Variant variant = of.variant(values);
        for (const int skew : {0, 1, 7, 15})
            for (const int n : {0, 1, 14, 15, 16, 17, 33, 4095, 4096, 4097, 300007})
                expect_memory_right(library, variant, {{"n", n}}, skew);
    }
}

TEST(TransposeTiled, IsRightWithVectorsOnEitherSide) {
    test::HostLibrary library(8);
    const Template of = library.service().find("transpose_tiled");
    for (const Values& values :
         {Values{{"T", "half"}, {"VEC", 8}}, Values{{"T", "half"}, {"VEC", 8}, {"PAIRS", false}},
          Values{{"T", "bfloat16"}, {"VEC", 2}, {"PAD", 2}, {"SWIZZLE", false}},
          Values{{"T", "half"}, {"VEC", 4}, {"TILE", 32}, {"THREADS", 64}},
          Values{{"T", "half"}, {"VEC", 8}, {"TILE", 128}, {"PAD", 1}, {"SWIZZLE", false}},
          Values{{"T", "float"}, {"VEC", 4}, {"PAD", 4}, {"SWIZZLE", false}},
          Values{{"VEC", 4},
                 {"PAD", 1},
                 {"SWIZZLE", false},
                 {"TILE", 128},
                 {"THREADS", 1024},
                 {"RASTER_GROUP", 128}},
          Values{{"T", "double"}, {"VEC", 2}}}) {
        const Variant variant = of.variant(values);
        for (const int rows : {72, 120, 71})
            for (const int cols : {72, 120, 121, 1})
                expect_memory_right(library, variant, {{"rows", rows}, {"cols", cols}});
    }
}

// Segments that begin anywhere in a sector, what is in front of the first one, rows that end within a vector, and vectors that
// begin before the matrix or end behind it.
TEST(TransposeTiled, IsRightWhereverRowsBegin) {
    test::HostLibrary library(6);
    const Template of = library.service().find("transpose_tiled");
    for (const Values& values : {Values{{"T", "half"}, {"VEC", 8}},
                                 Values{{"T", "bfloat16"}, {"VEC", 2}, {"TILE", 32}, {"THREADS", 64}},
                                 Values{{"T", "half"}, {"VEC", 2}, {"THREADS", 128}},
                                 Values{{"T", "half"}, {"VEC", 4}, {"TILE", 128}, {"RASTER_GROUP", 8}},
                                 Values{{"T", "float"}, {"VEC", 4}}, Values{{"T", "double"}, {"VEC", 2}}}) {
        Values with = values;
        with.insert_or_assign("ANY_ROWS", true);
        const Variant variant = of.variant(with);
        for (const int skew : {0, 1})
            for (const int rows : {1, 15, 64, 65, 71, 145})
                for (const int cols : {1, 63, 64, 65, 130})
                    expect_memory_right(library, variant, {{"rows", rows}, {"cols", cols}}, skew);
    }
}

TEST(TransposeTiled, IsRightInSeveralStrips) {
    test::HostLibrary library;
    const Template of = library.service().find("transpose_tiled");
    for (const Values& values : {Values{{"TILE", 32}, {"RASTER_GROUP", 8}},
                                 Values{{"TILE", 32}, {"RASTER_GROUP", 8}, {"T", "half"}}}) {
        for (const int rows : {11 * 32, 11 * 32 - 3, 8 * 32, 16 * 32})
            expect_memory_right(library, of.variant(values), {{"rows", rows}, {"cols", 100}});
    }
}

// More than 2048 tiles, and rows of the result of 384 bytes to 32 KiB: blocks walk down all rows of tiles.
TEST(TransposeTiled, IsRightWhereRowsOfTheResultAreFewKilobytes) {
    test::HostLibrary library;
    const Template of = library.service().find("transpose_tiled");
    expect_memory_right(library, of.variant({{"T", "double"}, {"VEC", 2}, {"TILE", 32}}),
                        {{"rows", 261}, {"cols", 7401}});
    expect_memory_right(
        library, of.variant({{"T", "half"}, {"VEC", 8}, {"TILE", 32}, {"THREADS", 64}, {"ANY_ROWS", true}}),
        {{"rows", 1031}, {"cols", 2003}});
}

// Either side short, down to one element, up to what fits a strip and beyond; a last block that is not full. Rows at
// multiples of 16 bytes, and at odd elements, where pairs leave single elements at either end.
TEST(TransposeNarrow, IsRightWithEitherSideShort) {
    test::HostLibrary library(8);
    const Template of = library.service().find("transpose_narrow");
    for (const Values& values :
         {Values{{"T", "half"}}, Values{{"T", "half"}, {"THREADS", 128}, {"BYTES", 32}},
          Values{{"T", "bfloat16"}, {"BYTES", 128}}, Values{{"T", "float"}, {"THREADS", 128}, {"BYTES", 32}},
          Values{{"T", "float"}}, Values{{"T", "double"}, {"THREADS", 128}}}) {
        const Variant variant = of.variant(values);
        const auto bytes = std::min<std::int64_t>(variant.value("BYTES").as_int(), 64);
        const auto strip = variant.value("THREADS").as_int() * bytes / 64 - 1;
        for (const std::int64_t side : {std::int64_t{1}, std::int64_t{2}, std::int64_t{8}, std::int64_t{11},
                                        std::int64_t{40}, strip, strip + 1})
            for (const std::int64_t other : {strip + 1, std::int64_t{1024}, std::int64_t{1031}}) {
                expect_memory_right(library, variant, {{"rows", side}, {"cols", other}});
                expect_memory_right(library, variant, {{"rows", other}, {"cols", side}});
            }
    }
}

TEST(TransposeNarrow, IsRightWithManyBlocks) {
    test::HostLibrary library;
    const Template of = library.service().find("transpose_narrow");
    for (const Values& values : {Values{{"THREADS", 128}, {"BYTES", 32}, {"T", "half"}},
                                 Values{{"THREADS", 128}, {"BYTES", 32}, {"T", "double"}}})
        for (const int side : {8, 13, 40})
            for (const int other : {20000, 20007}) {
                expect_memory_right(library, of.variant(values), {{"rows", side}, {"cols", other}});
                expect_memory_right(library, of.variant(values), {{"rows", other}, {"cols", side}});
            }
}

TEST(TransposeNarrow, IsRightFromAnyAddress) {
    test::HostLibrary library(2);
    const Template of = library.service().find("transpose_narrow");
    for (const char* const type : {"half", "float", "double"})
        for (const int skew : {1, 2, 3, 4, 8})
            for (const int other : {1024, 1031}) {
                expect_memory_right(library, of.variant({{"T", type}}), {{"rows", 11}, {"cols", other}},
                                    skew);
                expect_memory_right(library, of.variant({{"T", type}}), {{"rows", other}, {"cols", 24}},
                                    skew);
            }
}

}  // namespace
}  // namespace kiln
