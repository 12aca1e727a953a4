// SPDX-License-Identifier: Apache-2.0
//
// Templates whose way through a problem depends on whether vectors divide its rows and addresses, on a GPU: products
// in FP32 and of few rows, rows in registers, column sums, transpositions; at sizes of both kinds, and at addresses
// that are not aligned.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "gemm_fixture.h"

namespace kiln::test {
namespace {

struct LibraryOnGpu : testing::Test {
    void SetUp() override {
        KILN_NEEDS_GPU();
        service = gpu_service(directory.path() / "cache");
        runner = std::make_unique<Runner>(*service);
    }

    void expect_right(const char* name, const std::vector<Values>& variants,
                      const std::vector<Sizes>& problems, int skew = 0) {
        const Template of = service->find(name);
        if (!of.runs_on(service->backend(), service->target().arch)) return;
        std::vector<Variant> together;
        for (const Values& values : variants) together.push_back(of.variant(values));
        compile_together(*service, together);
        for (const Variant& variant : together) {
            for (const Sizes& sizes : problems) {
                for (const Data data : {Data::random, Data::integers}) {
                    RunOptions options;
                    options.sizes = sizes;
                    options.test_sizes = true;
                    options.data = data;
                    options.skew = skew;
                    if (is_long_row(name, sizes)) {
                        options.check = Check::sample;
                        options.sample_elements = 2048;
                    }
                    options.warm_up = 0;
                    options.iterations = 2;  // the last one's bits are compared with the first one's
                    std::string problem = variant.text() + " skew=" + std::to_string(skew);
                    for (const auto& [size, value] : sizes)
                        problem += " " + size + "=" + std::to_string(value);
                    for (const std::string& failure : runner->run(variant, options).failures())
                        ADD_FAILURE() << problem << ": " << failure;
                }
            }
        }
    }

    /// What is expected of one element takes the whole row to compute.
    static bool is_long_row(std::string_view name, const Sizes& sizes) {
        const auto cols = sizes.find("cols");
        return (name == "softmax" || name == "layer_norm" || name == "rms_norm") && cols != sizes.end() &&
               cols->second > 4096;
    }

    TemporaryDirectory directory;
    std::unique_ptr<Service> service;
    std::unique_ptr<Runner> runner;
};

const std::vector<Sizes> kProducts = {
    {{"m", 1}, {"n", 1}, {"k", 1}},        {{"m", 127}, {"n", 129}, {"k", 31}},
    {{"m", 257}, {"n", 256}, {"k", 512}},  {{"m", 130}, {"n", 264}, {"k", 1032}},
    {{"m", 64}, {"n", 4096}, {"k", 4096}}, {{"m", 1500}, {"n", 700}, {"k", 36}}};

TEST_F(LibraryOnGpu, GemmFp32) {
    expect_right("gemm_fp32",
                 {{},
                  {{"SPLIT_K", 4}},
                  {{"BM", 128}, {"MIN_BLOCKS", 2}, {"BK", 32}, {"STAGES", 2}},
                  {{"BM", 128}, {"BN", 128}, {"TN", 16}, {"BK", 32}, {"STAGES", 2}, {"MIN_BLOCKS", 2}},
                  {{"BN", 256}, {"TM", 4}, {"TN", 16}, {"BK", 8}, {"MIN_BLOCKS", 1}, {"RASTER_GROUP", 4}},
                  {{"BM", 128}, {"BN", 128}, {"TM", 16}, {"TN", 4}, {"MIN_BLOCKS", 1}, {"SPLIT_K", 7}}},
                 kProducts);
}

TEST_F(LibraryOnGpu, GemmFewRowsAndColumns) {
    const Sizes few_columns[] = {{{"m", 1663}, {"n", 2}, {"k", 11334}}, {{"m", 7}, {"n", 13}, {"k", 5970}}};
    const Sizes few_rows[] = {{{"m", 2}, {"n", 2552}, {"k", 2966}}, {{"m", 9}, {"n", 7112}, {"k", 520}}};
    expect_right("gemm_few_columns",
                 {{},
                  {{"T", "half"}, {"ROWS", 4}, {"BN", 4}},
                  {{"T", "bfloat16"}, {"ROWS", 1}, {"BN", 1}, {"SPLIT_K", 24}},
                  {{"ROWS", 4}, {"BN", 16}, {"SPLIT_K", 4}}},
                 {few_columns[0], few_columns[1], kProducts[0]});
    expect_right("gemm_few_rows",
                 {{},
                  {{"T", "half"}, {"BM", 4}, {"SPLIT_K", 3}},
                  {{"T", "bfloat16"}, {"BM", 1}, {"COLS", 2}, {"WARPS", 16}},
                  {{"BM", 16}, {"SPLIT_K", 16}}},
                 {few_rows[0], few_rows[1], kProducts[0]});
}

TEST_F(LibraryOnGpu, GemmSkinny) {
    expect_right("gemm_skinny",
                 {{},
                  {{"T", "bfloat16"}, {"WARPS_K", 16}, {"UNROLL", 1}},
                  {{"WARPS_K", 2}, {"UNROLL", 8}, {"BM", 8}, {"SPLIT_K", 2}},
                  {{"WARPS_K", 2}, {"WARPS_N", 4}},
                  {{"WN", 32}, {"WARPS_K", 4}, {"UNROLL", 1}, {"SPLIT_K", 5}, {"PDL", true}},
                  {{"TRANS_B", false}, {"WN", 64}, {"UNROLL", 1}, {"SPLIT_K", 4}},
                  {{"TRANS_B", false}, {"WN", 64}, {"UNROLL", 2}, {"WARPS_K", 2}, {"WARPS_N", 2}},
                  {{"OUT", "half"}, {"BIAS", 1}, {"ACTIVATION", 2}, {"ALPHA", 0.5f}},
                  {{"OUT", "half"}, {"BIAS", 2}, {"RESIDUAL", true}, {"BETA", 2.0f}, {"SPLIT_K", 3}}},
                 kProducts);
}

TEST_F(LibraryOnGpu, GemmNaiveWithEpilogues) {
    expect_right("gemm_naive",
                 {{{"OUT", "half"}, {"BIAS", 1}, {"ACTIVATION", 2}, {"TRANS_A", true}, {"TRANS_B", true}},
                  {{"T", "bfloat16"}, {"RESIDUAL", true}, {"BETA", 0.5f}, {"BIAS", 2}, {"ACTIVATION", 3}}},
                 kProducts);
}

TEST_F(LibraryOnGpu, RowsInRegistersAndBehind) {
    std::vector<Sizes> lengths;
    for (const int cols : {8, 256, 504, 512, 520, 1000, 1001, 1024, 1032})
        lengths.push_back({{"cols", cols}});
    expect_right(
        "softmax",
        {{},
         {{"THREADS", 32}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"ROWS", 2}, {"RECOMPUTE", true}},
         {{"T", "float"}, {"THREADS", 32}, {"VEC", 4}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"RECOMPUTE", true}},
         {{"T", "bfloat16"}, {"THREADS", 32}, {"ITEMS", 4}, {"ROWS", 4}, {"PDL", true}}},
        lengths);
    expect_right("layer_norm",
                 {{},
                  {{"THREADS", 32}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"ROWS", 2}},
                  {{"T", "float"}, {"THREADS", 32}, {"VEC", 4}, {"ITEMS", 2}, {"SMEM_ITEMS", 2}},
                  {{"T", "bfloat16"}, {"THREADS", 32}, {"ITEMS", 4}, {"ROWS", 4}, {"PDL", true}}},
                 lengths);
    expect_right("rms_norm",
                 {{},
                  {{"RESIDUAL", true}},
                  {{"T", "float"}, {"THREADS", 32}, {"VEC", 4}, {"ITEMS", 2}, {"RESIDUAL", true}},
                  {{"T", "bfloat16"}, {"THREADS", 32}, {"ITEMS", 4}, {"ROWS", 4}, {"PDL", true}}},
                 lengths);
}

// A row of 2, 4 or 8 blocks: that leaves some of them without an element, fills them all, and is longer than they hold; in
// vectors and not; more clusters than a device has room for.
TEST_F(LibraryOnGpu, RowsInPieces) {
    std::vector<Sizes> problems;
    for (const int cols : {1, 7, 8, 31, 33, 63, 64, 65}) {
        for (const int rows : {1, 19, 100003}) problems.push_back({{"rows", rows}, {"cols", cols}});
    }
    const Values narrow = {{"STAGED", true}, {"THREADS", 8}, {"ROWS", 16}, {"VEC", 1}, {"ITEMS", 8}},
                 wide = {{"STAGED", true}, {"T", "bfloat16"}, {"THREADS", 4},
                         {"ROWS", 32},     {"VEC", 8},        {"ITEMS", 2}},
                 whole_warps = {{"STAGED", true}, {"T", "float"}, {"THREADS", 64}, {"ROWS", 2},
                                {"VEC", 1},       {"ITEMS", 1},   {"PDL", true}};
    expect_right("softmax", {narrow, wide, whole_warps}, problems);
    expect_right("layer_norm", {narrow, wide, whole_warps}, problems);
    const auto with_residual = [](Values values) {
        values.insert_or_assign("RESIDUAL", true);
        return values;
    };
    expect_right("rms_norm", {narrow, wide, whole_warps, with_residual(narrow), with_residual(wide)},
                 problems);
}
TEST_F(LibraryOnGpu, RowsOfClusters) {
    if (service->target().limits.blocks_per_cluster == 1) GTEST_SKIP() << "the device has no clusters";
    std::vector<Sizes> problems;
    for (const int cols : {1, 8, 504, 4096, 8184, 8192, 8200, 16384, 16391, 32768, 40000})
        problems.push_back({{"rows", 3}, {"cols", cols}});
    problems.push_back({{"rows", 1000}, {"cols", 8192}});
    const Values two = {{"CLUSTER", 2}, {"THREADS", 256}},
                 four = {{"CLUSTER", 4}, {"THREADS", 256}, {"VEC", 1}},
                 eight = {{"CLUSTER", 8}, {"THREADS", 512}, {"T", "float"}, {"VEC", 4}, {"ITEMS", 2}};
    const auto with = [](Values values, const Values& more) {
        for (const auto& [name, value] : more) values.insert_or_assign(name, value);
        return values;
    };
    const Values stash = {{"ITEMS", 2}, {"SMEM_ITEMS", 2}, {"T", "bfloat16"}};
    expect_right(
        "softmax",
        {two, four, eight, with(with(two, stash), {{"RECOMPUTE", true}}), with(eight, {{"PDL", true}})},
        problems);
    expect_right("layer_norm", {two, four, eight, with(two, stash), with(eight, {{"PDL", true}})}, problems);
    expect_right("rms_norm",
                 {two, four, eight, with(two, {{"RESIDUAL", true}}), with(eight, {{"RESIDUAL", true}})},
                 problems);
}

TEST_F(LibraryOnGpu, ColumnSum) {
    std::vector<Sizes> problems;
    for (const int cols : {128, 264, 263, 8, 1})
        for (const int rows : {1, 6, 67, 3000}) problems.push_back({{"rows", rows}, {"cols", cols}});
    expect_right("column_sum",
                 {{},
                  {{"SPLIT_ROWS", 1}},
                  {{"SPLIT_ROWS", 1}, {"UNROLL", 8}, {"THREADS_Y", 1}},
                  {{"T", "half"}, {"VEC", 8}, {"SPLIT_ROWS", 4}, {"UNROLL", 16}, {"THREADS_Y", 2}},
                  {{"SPLIT_ROWS", 4}, {"UNROLL", 2}, {"THREADS_Y", 4}},
                  {{"T", "half"}, {"VEC", 8}, {"SPLIT_ROWS", 4}, {"UNROLL", 16}, {"THREADS_X", 16}},
                  {{"VEC", 1}, {"UNROLL", 16}, {"L1_NO_ALLOCATE", true}},
                  {{"T", "bfloat16"}, {"VEC", 2}, {"SPLIT_ROWS", 1}, {"L1_NO_ALLOCATE", false}},
                  {{"T", "half"}, {"VEC", 8}, {"THREADS_X", 4}, {"ANY_ROWS", true}},
                  {{"T", "half"}, {"VEC", 8}, {"THREADS_Y", 32}, {"SPLIT_ROWS", 16}, {"ANY_ROWS", true}},
                  {{"ANY_ROWS", true}, {"SPLIT_ROWS", 1}}},
                 problems);
}

TEST_F(LibraryOnGpu, TransposeTiled) {
    std::vector<Sizes> problems;
    for (const int rows : {72, 360, 71, 1499})
        for (const int cols : {120, 1064, 121, 1}) problems.push_back({{"rows", rows}, {"cols", cols}});
    expect_right("transpose_tiled",
                 {{},
                  {{"T", "half"}, {"VEC", 8}},
                  {{"T", "half"}, {"VEC", 8}, {"PAIRS", false}},
                  {{"T", "bfloat16"}, {"VEC", 2}, {"PAD", 2}, {"SWIZZLE", false}},
                  {{"T", "half"}, {"VEC", 4}, {"TILE", 32}, {"THREADS", 64}, {"RASTER_GROUP", 8}},
                  {{"T", "half"},
                   {"VEC", 8},
                   {"TILE", 128},
                   {"THREADS", 512},
                   {"PAD", 2},
                   {"SWIZZLE", false},
                   {"RASTER_GROUP", 32}},
                  {{"T", "half"},
                   {"VEC", 8},
                   {"TILE", 128},
                   {"THREADS", 512},
                   {"PAD", 1},
                   {"SWIZZLE", false},
                   {"RASTER_GROUP", 128}},
                  {{"VEC", 4}, {"PAD", 1}, {"SWIZZLE", false}, {"TILE", 32}, {"RASTER_GROUP", 8}},
                  {{"VEC", 4},
                   {"PAD", 1},
                   {"SWIZZLE", false},
                   {"TILE", 128},
                   {"THREADS", 1024},
                   {"RASTER_GROUP", 128}},
                  {{"T", "double"}, {"VEC", 2}},
                  {{"T", "double"}, {"VEC", 2}, {"TILE", 128}},
                  {{"ANY_ROWS", true}},
                  {{"T", "half"}, {"VEC", 8}, {"ANY_ROWS", true}},
                  {{"T", "bfloat16"}, {"VEC", 8}, {"TILE", 128}, {"ANY_ROWS", true}, {"RASTER_GROUP", 8}},
                  {{"T", "half"}, {"VEC", 2}, {"TILE", 32}, {"THREADS", 512}, {"ANY_ROWS", true}},
                  {{"T", "double"}, {"VEC", 2}, {"ANY_ROWS", true}}},
                 problems);
}

TEST_F(LibraryOnGpu, TransposeNarrow) {
    std::vector<Sizes> problems;
    for (const int side : {1, 8, 11, 25, 135, 208, 600})
        for (const int other : side < 100 ? std::array{72000, 71999} : std::array{7200, 7199}) {
            problems.push_back({{"rows", side}, {"cols", other}});
            problems.push_back({{"rows", other}, {"cols", side}});
        }
    expect_right("transpose_narrow",
                 {{},
                  {{"T", "half"}},
                  {{"T", "half"}, {"THREADS", 128}, {"BYTES", 32}},
                  {{"T", "bfloat16"}, {"THREADS", 512}, {"BYTES", 128}},
                  {{"THREADS", 512}},
                  {{"T", "double"}}},
                 problems);
}

TEST_F(LibraryOnGpu, Histogram) {
    std::vector<Sizes> problems;
    for (const int n : {0, 1, 17, 4097, 300007, 40000003}) problems.push_back({{"n", n}});
    expect_right("histogram",
                 {{},
                  {{"SET", true}},
                  {{"SET", true}, {"BLOCKS", 132}},
                  {{"SET", true}, {"BLOCKS", 1056}, {"THREADS", 256}, {"VEC", 4}},
                  {{"SET", true}, {"BLOCKS", 1056}, {"VEC", 1}, {"COUNTERS_PER_BIN", 1}}},
                 problems);
}

// Rows whose lengths vectors divide, from addresses that they do not.
TEST_F(LibraryOnGpu, AddressesThatAreNotAligned) {
    for (const int skew : {1, 2, 4, 8}) {
        for (const char* name :
             {"gemm_async", "gemm_batched", "gemm_buffered", "gemm_few_columns", "gemm_few_rows", "gemm_fp32",
              "gemm_mma", "gemm_mma_batched", "gemm_skinny", "gemm_tiled", "gemm_wgmma_any"})
            expect_right(name, {{}}, {{{"m", 256}, {"n", 256}, {"k", 128}}, {}}, skew);
        for (const char* name :
             {"softmax", "layer_norm", "rms_norm", "column_sum", "transpose_narrow", "transpose_tiled"})
            expect_right(name, {{}}, {{{"rows", 256}, {"cols", 256}}, {}}, skew);
        for (const char* name : {"copy", "sum_shuffle", "histogram"})
            expect_right(name, {{}}, {{{"n", 1 << 20}}, {}}, skew);
        expect_right("transpose_tiled",
                     {{{"ANY_ROWS", true}}, {{"T", "half"}, {"VEC", 8}, {"ANY_ROWS", true}}},
                     {{{"rows", 256}, {"cols", 256}}, {{"rows", 257}, {"cols", 263}}}, skew);
    }
}

}  // namespace
}  // namespace kiln::test
