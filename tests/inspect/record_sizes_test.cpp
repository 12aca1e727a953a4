// SPDX-License-Identifier: Apache-2.0
//
// Which sizes are recorded, and counts at those scaled to the shape.
#include "inspect/record_sizes.h"

#include "analyzer_support.h"
#include "inspect/layout_search.h"

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

// Bytes are what counts where no flops are declared.
TEST_F(RecordSizesTest, MemoryAlone) {
    const Variant tile = variant("transpose_tiled");
    const LaunchWork shape = launch_work(tile, {{"rows", 16384}, {"cols", 16384}});
    const RecordSizes sizes = record_sizes(tile, shape);
    EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
    EXPECT_NEAR(sizes.at.block_work, shape.block_work, 1e-9);
    EXPECT_FALSE(sizes.less) << "a block does the same as ever";
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
    const LaunchWork shape = launch_work(sparse, {});
    const RecordSizes sizes = record_sizes(sparse, shape);
    EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
    EXPECT_NEAR(
        static_cast<double>(sizes.at.sizes.at("many")) / static_cast<double>(sizes.at.sizes.at("rows")), 20,
        1);
}

TEST_F(RecordSizesTest, SeveralOffsetsMayJoinASizeAndOthersStayApart) {
    const Variant packed = target()
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
#include "kiln/device.h"
extern "C" __global__ void packed(int batch, int as, int bs, int wide, int deep, const int* first_a, const int* first_b,
                                  const float* a, const float* b, const float* w, float* y) {}
)",
                                      "packed.cu")
                               .variant();
    const RecordSizes sizes = record_sizes(packed, launch_work(packed, {}));
    EXPECT_LE(sizes.at.tensor_bytes, RecordBudget().bytes);
    const auto mean = [&](const char* all) {
        return static_cast<double>(sizes.at.sizes.at(all)) / static_cast<double>(sizes.at.sizes.at("batch"));
    };
    EXPECT_NEAR(mean("as"), 40, 2);
    EXPECT_NEAR(mean("bs"), 80, 4);
    EXPECT_GE(sizes.at.sizes.at("wide") * sizes.at.sizes.at("deep"), 4096 * 256);
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
    EXPECT_NE(record_sizes(two, launch_work(two, {})).at.kernel_blocks[1], 0U);
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
