// SPDX-License-Identifier: Apache-2.0
//
// Products through asynchronous copies and matrix cores on a GPU: every layout and epilogue at even, odd and
// extreme shapes, against the FP64 references; with integers the result has to be exact.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "gemm_fixture.h"

namespace kiln {
namespace {

class MatrixCores : public testing::Test {
  protected:
    void SetUp() override {
        KILN_NEEDS_GPU();
        service_ = test::gpu_service(directory_.path());
        runner_ = std::make_unique<Runner>(*service_);
        try {
            service_->find("gemm_mma").variant();
        } catch (const VariantError& error) {
            GTEST_SKIP() << error.what();
        }
    }

    void expect_right(const std::string& name, const Values& values, const Sizes& sizes, Data data) {
        RunOptions options;
        options.sizes = sizes;
        options.data = data;
        options.time = false;
        const Variant variant = service_->find(name).variant(values);
        const RunResult result = runner_->run(variant, options);
        std::string text;
        for (const auto& failure : result.failures()) text += failure + "\n";
        EXPECT_TRUE(result.pass()) << variant.text() << ": " << text;
        if (data == Data::integers) {
            EXPECT_EQ(result.outputs_checked.at(0).max_abs_error, 0) << variant.text();
        }
    }

    void expect_right_everywhere(const std::string& name, const Values& values, const Sizes& more = {}) {
        struct Shape {
            std::int64_t m, n, k;
        };
        for (const auto& [m, n, k] :
             {Shape{1, 1, 1}, Shape{127, 129, 31}, Shape{257, 255, 500}, Shape{256, 384, 512}}) {
            Sizes sizes = more;
            sizes.insert({{"m", m}, {"n", n}, {"k", k}});
            for (const Data data : {Data::random, Data::integers}) expect_right(name, values, sizes, data);
        }
    }

    TemporaryDirectory directory_;
    std::unique_ptr<Service> service_;
    std::unique_ptr<Runner> runner_;
};

TEST_F(MatrixCores, EveryLayoutAndTile) {
    for (const char* type : {"half", "bfloat16"}) {
        for (const bool trans_a : {false, true}) {
            for (const bool trans_b : {false, true}) {
                const Values layout = {{"T", type}, {"TRANS_A", trans_a}, {"TRANS_B", trans_b}};
                const std::vector<Values> tiles = {
                    {},
                    {{"BM", 256}, {"BK", 64}, {"STAGES", 2}},
                    {{"BN", 256}, {"BK", 16}, {"STAGES", 2}, {"SWIZZLE", false}},
                    {{"BM", 64}, {"BN", 64}, {"WM", 32}, {"WN", 32}, {"STAGES", 3}, {"RASTER_GROUP", 1}}};
                for (const Values& tile : tiles) {
                    Values values = layout;
                    values.insert(tile.begin(), tile.end());
                    expect_right_everywhere("gemm_mma", values);
                }
            }
        }
    }
}

// Many blocks in groups that the last of them does not fill, and shapes with one long side.
TEST_F(MatrixCores, LargeAndNarrowShapes) {
    for (const bool trans : {false, true}) {
        for (const Sizes& sizes :
             {Sizes{{"m", 2500}, {"n", 1013}, {"k", 519}}, Sizes{{"m", 1}, {"n", 4096}, {"k", 4097}},
              Sizes{{"m", 20000}, {"n", 8}, {"k", 72}}, Sizes{{"m", 3}, {"n", 5}, {"k", 1 << 20}}})
            expect_right("gemm_mma", {{"TRANS_A", trans}, {"TRANS_B", !trans}}, sizes, Data::random);
    }
}

TEST_F(MatrixCores, BatchesWithAnEpilogue) {
    expect_right_everywhere("gemm_mma_batched",
                            {{"ALPHA", 0.5f}, {"BETA", -2.0f}, {"BIAS", true}, {"ACTIVATION", 1}},
                            {{"batch", 3}});
    expect_right_everywhere("gemm_mma_batched", {{"TRANS_A", true}, {"BIAS", true}}, {{"batch", 2}});
    for (const int activation : {2, 3}) {
        expect_right("gemm_mma_batched", {{"BETA", 0.3f}, {"ACTIVATION", activation}},
                     {{"m", 300}, {"n", 200}, {"k", 100}, {"batch", 5}}, Data::random);
    }
}

TEST_F(MatrixCores, AsynchronousCopies) {
    for (const int stages : {2, 3, 4}) {
        expect_right_everywhere("gemm_async", {{"STAGES", stages}});
        expect_right_everywhere(
            "gemm_async",
            {{"STAGES", stages}, {"T", "float"}, {"BM", 128}, {"BN", 128}, {"TM", 8}, {"TN", 8}, {"BK", 16}});
        expect_right_everywhere(
            "gemm_async",
            {{"STAGES", stages}, {"T", "bfloat16"}, {"VEC", 8}, {"PAD", 8}, {"SWIZZLE", false}});
    }
}

}  // namespace
}  // namespace kiln
