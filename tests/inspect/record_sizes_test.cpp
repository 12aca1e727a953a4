// SPDX-License-Identifier: Apache-2.0
//
// Which sizes are recorded, and counts at those scaled to the shape.
#include "inspect/record_sizes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "analyzer_support.h"
#include "inspect/layout_search.h"
#include "inspect/measured_sizes.h"

namespace kiln::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

const Values kPaddedTile = {{"BM", 64}, {"BN", 64}, {"BK", 32}, {"TM", 4}, {"TN", 4}, {"PAD", 2}, {"VEC", 1}};

class RecordSizesTest : public Analyzing {
  protected:
    RecordSizesTest() { (void)target("host"); }
};

TEST_F(RecordSizesTest, WorkOfALaunch) {
    const LaunchWork work =
        launch_work(variant("gemm_tiled", kPaddedTile), {{"m", 128}, {"n", 192}, {"k", 512}});
    EXPECT_EQ(work.blocks, 6U);
    EXPECT_EQ(work.block_work, 2.0 * 64 * 64 * 512);
    EXPECT_EQ(work.tensor_bytes, 2.0 * (128 + 192) * 512 + 4.0 * 128 * 192);
}

TEST_F(RecordSizesTest, ASmallShapeIsItself) {
    const Variant tile = variant("gemm_tiled", kPaddedTile);
    const LaunchWork shape = launch_work(tile, {{"m", 65}, {"n", 127}, {"k", 67}});
    const RecordSizes sizes = record_sizes(tile, shape);
    EXPECT_EQ(sizes.at.sizes, shape.sizes);
    EXPECT_FALSE(sizes.less);
}

TEST_F(RecordSizesTest, ALargeOneLosesDepthFirst) {
    const Variant tile = variant("gemm_tiled", kPaddedTile);
    const LaunchWork shape = launch_work(tile, {{"m", 1024}, {"n", 1024}, {"k", 8192}});
    const RecordSizes sizes = record_sizes(tile, shape);
    EXPECT_EQ(sizes.at.sizes.at("m"), 1024);
    EXPECT_EQ(sizes.at.sizes.at("n"), 1024);
    EXPECT_LE(sizes.at.block_accesses, RecordBudget().accesses);
    EXPECT_EQ(sizes.at.sizes.at("k") % 128, 0);
    ASSERT_TRUE(sizes.less);
    EXPECT_LT(sizes.less->block_work, sizes.at.block_work);
}

TEST_F(RecordSizesTest, RemaindersStay) {
    const Variant tile = variant("gemm_tiled", kPaddedTile);
    const LaunchWork shape = launch_work(tile, {{"m", 40000}, {"n", 40007}, {"k", 10001}});
    const RecordSizes sizes = record_sizes(tile, shape);
    for (const auto& [name, size] : sizes.at.sizes) {
        EXPECT_LT(size, shape.sizes.at(name)) << name;
        EXPECT_EQ(size % 128, shape.sizes.at(name) % 128) << name;
    }
    EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
    EXPECT_LE(sizes.at.block_accesses, RecordBudget().accesses);
}

// Of blocks that make so many accesses, as a function of the sizes.
RecordSizes measured(const Variant& variant, const Sizes& shape,
                     const std::function<double(const std::map<std::string, double>&)>& accesses) {
    return measured_sizes(variant, shape, {}, [&](const LaunchWork& work) {
        std::map<std::string, double> sizes;
        for (const auto& [name, size] : work.sizes) sizes[name] = static_cast<double>(size);
        const double bytes = 4 * accesses(sizes);
        return std::vector<BlockBytes>(work.kernel_blocks.size(), {bytes, bytes});
    });
}
double constant(const std::map<std::string, double>&) { return 1000; }

// Of the first kernel, from counts per block at the two recordings.
double whole(const RecordSizes& sizes, double at, double less) {
    RecordSizes first{sizes.at.of_kernel(0), std::nullopt};
    if (sizes.less) first.less = sizes.less->of_kernel(0);
    return Scaling(first, sizes.shape.of_kernel(0)).whole_grid(at, less);
}

TEST_F(RecordSizesTest, MemoryAlone) {
    const RecordSizes sizes =
        measured(variant("transpose_tiled"), {{"rows", 16384}, {"cols", 16384}}, constant);
    EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
    EXPECT_FALSE(sizes.less) << "a block does the same as ever";
    EXPECT_EQ(sizes.not_scaled, "");
    EXPECT_EQ(whole(sizes, 7, 0), 7 * static_cast<double>(sizes.shape.blocks));
}

class WithoutFlops : public RecordSizesTest {
  protected:
    Variant tile() {
        return target()
            .parse(R"(//@ kernel tile
//@ block 256
//@ grid ceil_div(n, 32), ceil_div(m, 32)
//@ size m = 4096
//@ size n = 4096
//@ size k = 4096
//@ input a [m, k]
//@ input b [k, n]
//@ output c [m, n]
#include "kiln/device.h"
extern "C" __global__ void tile(int m, int n, int k, const float* a, const float* b, float* c) {}
)",
                   "tile.cu")
            .variant();
    }
    static double of_k(const std::map<std::string, double>& sizes) { return 64 * sizes.at("k") + 1024; }
};

TEST_F(WithoutFlops, WhatABlockDependsOnStays) {
    const RecordSizes sizes = measured(tile(), {{"m", 16384}, {"n", 16384}, {"k", 256}}, of_k);
    EXPECT_EQ(sizes.at.sizes.at("k"), 256);
    EXPECT_LT(sizes.at.sizes.at("m"), 16384);
    EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
    EXPECT_FALSE(sizes.less);
    EXPECT_EQ(sizes.not_scaled, "");
    EXPECT_EQ(whole(sizes, 100, 0), 100 * 512 * 512.0);
}

TEST_F(WithoutFlops, WhatIsTooMuchIsScaledAlongOneSize) {
    const RecordSizes sizes = measured(tile(), {{"m", 512}, {"n", 512}, {"k", 1 << 20}}, of_k);
    ASSERT_TRUE(sizes.less) << sizes.not_scaled;
    EXPECT_EQ(sizes.at.sizes.at("n"), sizes.less->sizes.at("n"));
    EXPECT_EQ(sizes.at.sizes.at("m"), sizes.less->sizes.at("m"));
    const auto count = [](const LaunchWork& work) { return 3.0 * work.sizes.at("k") + 5; };
    EXPECT_DOUBLE_EQ(whole(sizes, count(sizes.at), count(*sizes.less)), 16 * 16 * (3.0 * (1 << 20) + 5));
}

// An n-body: each block reads all of what the grid is divided into.
TEST_F(WithoutFlops, ASizeOfTheGridMayBeThatOfALoop) {
    const Variant bodies = target()
                               .parse(R"(//@ kernel bodies
//@ block 256
//@ grid ceil_div(n, 256)
//@ size n = 65536
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"
extern "C" __global__ void bodies(int n, const float* x, float* y) {}
)",
                                      "bodies.cu")
                               .variant();
    const RecordSizes sizes = measured(bodies, {}, [](const auto& with) { return 256 * with.at("n") + 512; });
    ASSERT_TRUE(sizes.less) << sizes.not_scaled;
    EXPECT_LE(static_cast<double>(256 * sizes.at.sizes.at("n")), 2 * RecordBudget().accesses);
    const auto count = [](const LaunchWork& work) { return 8.0 * work.sizes.at("n") + 64; };
    EXPECT_DOUBLE_EQ(whole(sizes, count(sizes.at), count(*sizes.less)), 256 * (8 * 65536.0 + 64));
}

TEST_F(WithoutFlops, TwoSizesThatChangeABlockAreNotScaled) {
    const RecordSizes sizes = measured(tile(), {{"m", 1 << 16}, {"n", 512}, {"k", 1 << 16}},
                                       [](const auto& with) { return with.at("k") * with.at("m"); });
    EXPECT_THAT(sizes.not_scaled, ::testing::HasSubstr("depend on k and m"));
    EXPECT_FALSE(sizes.less);
    EXPECT_EQ(sizes.shape.sizes, sizes.at.sizes);
    EXPECT_EQ(whole(sizes, 7, 0), 7 * static_cast<double>(sizes.at.blocks));
}

TEST_F(WithoutFlops, WhatIsNotLinearIsNotScaled) {
    const RecordSizes sizes = measured(tile(), {{"m", 512}, {"n", 512}, {"k", 1 << 18}},
                                       [](const auto& with) { return with.at("k") * with.at("k"); });
    EXPECT_THAT(sizes.not_scaled, ::testing::HasSubstr("do not grow linearly with k"));
}

TEST_F(WithoutFlops, AKernelThatDoesNotRunAtSmallSizes) {
    const auto fails_below = [](double least) {
        return [=](const auto& with) {
            if (with.at("k") < least) throw UsageError("k is too small");
            return with.at("k");
        };
    };
    const RecordSizes whole_shape = measured(tile(), {{"m", 512}, {"n", 512}, {"k", 512}}, fails_below(300));
    EXPECT_EQ(whole_shape.at.sizes.at("k"), 512);
    EXPECT_EQ(whole_shape.not_scaled, "");
    const RecordSizes large =
        measured(tile(), {{"m", 512}, {"n", 512}, {"k", 1 << 20}}, fails_below(1 << 19));
    EXPECT_THAT(large.not_scaled, ::testing::HasSubstr("can't be run: k is too small"));
}

// The mean has the edges of a small grid, and the largest block the longest of unequal loops.
TEST_F(WithoutFlops, TheLargestBlockOrTheMeanShowsWhatABlockDoes) {
    const auto with = [&](const Variant& of, const Sizes& shape, const auto& bytes) {
        return measured_sizes(of, shape, {}, [&](const LaunchWork& work) {
            return std::vector<BlockBytes>{bytes(static_cast<double>(work.sizes.begin()->second))};
        });
    };
    const Variant copy = target()
                             .parse(R"(//@ kernel copying
//@ block 256
//@ grid min(ceil_div(n, 256), 1000)
//@ size n = 64000000
//@ input x [n]
//@ output y [n]
#include "kiln/device.h"
extern "C" __global__ void copying(int n, const float* x, float* y) {}
)",
                                    "copying.cu")
                             .variant();
    const RecordSizes rounds = with(copy, {}, [](double n) {
        return BlockBytes{2048 * std::ceil(n / 256000), 2048 * n / 256000};
    });
    EXPECT_TRUE(rounds.less) << rounds.not_scaled;
    const RecordSizes edges = with(tile(), {{"k", 65536}, {"m", 4096}, {"n", 4096}}, [](double k) {
        return BlockBytes{256 * k, 200 * k - 3 * k * k / 65536};
    });
    EXPECT_EQ(edges.not_scaled, "");
}

// From some size on, the blocks of a grid loop.
TEST_F(WithoutFlops, AGridThatStopsGrowing) {
    const auto copy = [&](int most_blocks) {
        return target()
            .parse("//@ kernel copying\n//@ block 256\n//@ grid min(ceil_div(n, 256), " +
                       std::to_string(most_blocks) +
                       ")\n//@ size n = 64000000\n//@ input x [n]\n//@ output y [n]\n"
                       "#include \"kiln/device.h\"\n"
                       "extern \"C\" __global__ void copying(int n, const float* x, float* y) {}\n",
                   "copying.cu")
            .variant();
    };
    const auto of_blocks = [](double most_blocks) {
        return [=](const auto& sizes) { return std::max(512.0, 2 * sizes.at("n") / most_blocks); };
    };
    const RecordSizes few = measured(copy(1000), {}, of_blocks(1000));
    ASSERT_TRUE(few.less) << few.not_scaled;
    EXPECT_DOUBLE_EQ(whole(few, few.at.sizes.at("n") / 1000.0, few.less->sizes.at("n") / 1000.0), 64e6);
    // A tenth of the data that may be recorded does not even fill this grid.
    EXPECT_THAT(measured(copy(100000), {}, of_blocks(100000)).not_scaled,
                ::testing::HasSubstr("the number of blocks follows n in another way"));
}

// Rows of a sparse matrix stay as long.
TEST_F(RecordSizesTest, SizesThatOffsetsJoinAreLoweredTogether) {
    const Variant sparse = target()
                               .parse(R"(//@ kernel sparse
//@ block 128
//@ grid ceil_div(rows, 128)
//@ size rows = 1000000
//@ size many = 20000000
//@ input first [rows + 1] offsets to many
//@ input x [many]
//@ output y [rows]
#include "kiln/device.h"
extern "C" __global__ void sparse(int rows, int many, const int* first, const float* x, float* y) {}
)",
                                      "sparse.cu")
                               .variant();
    const RecordSizes sizes =
        measured(sparse, {}, [](const auto& with) { return 128 * (with.at("many") / with.at("rows") + 3); });
    EXPECT_EQ(sizes.not_scaled, "");
    EXPECT_FALSE(sizes.less);
    EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
    EXPECT_NEAR(
        static_cast<double>(sizes.at.sizes.at("many")) / static_cast<double>(sizes.at.sizes.at("rows")), 20,
        1);
}

TEST_F(RecordSizesTest, SeveralOffsetsMayJoinASizeAndOthersStayApart) {
    const auto packed = [&](const std::string& line) {
        return target()
            .parse(R"(//@ kernel packed
//@ block 128
//@ grid ceil_div(batch, 128)
//@ size batch = 100000
//@ size as = 4000000
//@ size bs = 8000000
//@ size wide = 4096
//@ size deep = 4096
//@ input first_a [batch + 1] offsets to as
//@ input first_b [batch + 1] offsets to bs
//@ input a [as]
//@ input b [bs]
//@ input w [wide, deep]
//@ output y [batch]
)" + line + R"(
#include "kiln/device.h"
extern "C" __global__ void packed(int batch, int as, int bs, int wide, int deep, const int* first_a, const int* first_b,
                                  const float* a, const float* b, const float* w, float* y) {}
)",
                   "packed.cu")
            .variant();
    };
    const Variant declared = packed("//@ flops 100 * batch");
    for (const RecordSizes& sizes :
         {measured(packed(""), {}, constant), record_sizes(declared, launch_work(declared, {}))}) {
        EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
        const auto mean = [&](const char* all) {
            return static_cast<double>(sizes.at.sizes.at(all)) /
                   static_cast<double>(sizes.at.sizes.at("batch"));
        };
        EXPECT_NEAR(mean("as"), 40, 2);
        EXPECT_NEAR(mean("bs"), 80, 4);
        EXPECT_GE(sizes.at.sizes.at("wide") * sizes.at.sizes.at("deep"), 4096 * 256);
    }
}

TEST_F(RecordSizesTest, NoKernelOfTheShapeIsLeftOut) {
    const Variant two = target()
                            .parse(R"(//@ size n = 80000000
//@ input x [n]
//@ output y [n]
//@ kernel first
//@ block 256
//@ grid ceil_div(n, 256)
//@ kernel second
//@ block 256
//@ grid n > 40000000 ? ceil_div(n, 256) : 0
#include "kiln/device.h"
extern "C" __global__ void first(int n, const float* x, float* y) {}
extern "C" __global__ void second(int n, const float* x, float* y) {}
)",
                                   "two.cu")
                            .variant();
    EXPECT_NE(measured(two, {}, constant).at.kernel_blocks[1], 0U);
}

TEST(Scaling, IsExactWhereCountsAreAffine) {
    const auto count = [](double work) { return 100 + 3 * work; };
    LaunchWork shape, at, less;
    shape.block_work = 4096, shape.blocks = 10;
    at.block_work = 256, less.block_work = 128;
    const Scaling scaling({at, less}, shape);
    EXPECT_DOUBLE_EQ(scaling.whole_grid(count(256), count(128)), 10 * count(4096));
    EXPECT_DOUBLE_EQ(scaling.whole_grid(5, 5), 50) << "what does not grow is not scaled";

    at.block_work = 4096;
    const Scaling same({at, std::nullopt}, shape);
    EXPECT_DOUBLE_EQ(same.whole_grid(7, 0), 70);

    at.block_work = 2048;
    const Scaling proportional({at, std::nullopt}, shape);
    EXPECT_DOUBLE_EQ(proportional.whole_grid(7, 0), 140);
}

std::vector<std::string> changes(const std::vector<LayoutChoice>& choices) {
    std::vector<std::string> texts;
    for (const LayoutChoice& choice : choices) texts.push_back(choice.change);
    return texts;
}

TEST_F(RecordSizesTest, LayoutChoicesAreThoseOfTheLayout) {
    const Sizes sizes = {{"rows", 256}, {"cols", 256}};
    const Values values = {{"T", "float"}, {"TILE", 32}, {"VEC", 1}, {"SWIZZLE", false}, {"PAD", 1}};
    const auto choices = layout_choices(variant("transpose_tiled", values), sizes);
    EXPECT_THAT(changes(choices), ElementsAre("PAD=0", "SWIZZLE=true PAD=0", "PAD=2", "PAD=4", "PAD=8"));
    EXPECT_EQ(choices.front().shared_bytes_more, -32 * 4);
    EXPECT_EQ(choices.back().shared_bytes_more, 7 * 32 * 4);

    // BK, VEC and UNROLL leave the launch as it is, too, and are no padding.
    const auto tile =
        layout_choices(variant("gemm_tiled", kPaddedTile), {{"m", 256}, {"n", 256}, {"k", 256}});
    EXPECT_THAT(changes(tile), Contains("PAD=4"));
    for (const std::string& change : changes(tile))
        for (const char* other : {"BK=", "VEC=", "UNROLL=", "TM=", "T="})
            EXPECT_THAT(change, Not(::testing::StartsWith(other)));
}

}  // namespace
}  // namespace kiln::test
