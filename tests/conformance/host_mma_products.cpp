// SPDX-License-Identifier: Apache-2.0
//
// The GEMMs with asynchronous copies and matrix cores, on the host: every layout at sizes that are
// no multiple of anything, with rows that allow vector copies and rows that don't, and exact integers.
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <kiln/run.h>

#include <optional>
#include <string>
#include <vector>

#include "base/host_arch.h"
#include "shared_cache.h"

namespace kiln {
namespace {

class MatrixProducts : public testing::Test {
  protected:
    MatrixProducts() {
        ServiceOptions options;
        options.backend = Backend::host;
        options.arch = host_arch();
        options.cache.directory = test::shared_cache();
        service_.emplace(options);
        runner_.emplace(*service_);
    }

    void expect_right(const std::string& name, const Values& values, const Sizes& sizes, Data data) {
        RunOptions options;
        options.sizes = sizes;
        options.data = data;
        options.check = Check::full;
        options.time = false;
        const RunResult result = runner_->run(service_->find(name).variant(values), options);
        std::string text;
        for (const auto& failure : result.failures()) text += failure + "\n";
        EXPECT_TRUE(result.pass()) << service_->find(name).variant(values).text() << ": " << text;
        // Integers leave no error at all, whether or not the bound would allow one.
        if (data == Data::integers && !has_smooth_activation(values)) {
            EXPECT_EQ(result.outputs_checked.at(0).max_abs_error, 0) << name;
        }
    }

    /// A size that fits nothing, one whose rows are whole vectors, and the smallest.
    void expect_right_everywhere(const std::string& name, const Values& values, Sizes more = {}) {
        const auto with = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
            Sizes sizes = more;
            sizes.insert({{"m", m}, {"n", n}, {"k", k}});
            return sizes;
        };
        expect_right(name, values, with(67, 131, 37), Data::random);
        expect_right(name, values, with(65, 129, 33), Data::integers);
        expect_right(name, values, with(72, 136, 80), Data::random);
        expect_right(name, values, with(1, 1, 1), Data::integers);
    }

  private:
    static bool has_smooth_activation(const Values& values) {
        const auto found = values.find("ACTIVATION");
        return found != values.end() && found->second.as_int() > 1;
    }

    std::optional<Service> service_;
    std::optional<Runner> runner_;
};

TEST_F(MatrixProducts, MmaInEveryLayout) {
    for (const bool trans_a : {false, true}) {
        for (const bool trans_b : {false, true}) {
            expect_right_everywhere("gemm_mma", {{"TRANS_A", trans_a},
                                                 {"TRANS_B", trans_b},
                                                 {"BM", 64},
                                                 {"BN", 64},
                                                 {"BK", 16},
                                                 {"WM", 32},
                                                 {"WN", 32},
                                                 {"STAGES", 2}});
            expect_right_everywhere("gemm_mma", {{"TRANS_A", trans_a},
                                                 {"TRANS_B", trans_b},
                                                 {"BM", 64},
                                                 {"WM", 32},
                                                 {"SWIZZLE", false},
                                                 {"T", "bfloat16"},
                                                 {"BK", 64},
                                                 {"STAGES", 3},
                                                 {"RASTER_GROUP", 1}});
        }
    }
}

TEST_F(MatrixProducts, MmaWithEveryEpilogue) {
    for (int activation = 0; activation < 4; ++activation) {
        expect_right_everywhere("gemm_mma",
                                {{"BM", 64}, {"BN", 64}, {"ACTIVATION", activation}, {"ALPHA", -0.5f}});
        expect_right_everywhere("gemm_mma_batched",
                                {{"BM", 64},
                                 {"BN", 64},
                                 {"ACTIVATION", activation},
                                 {"ALPHA", 0.5f},
                                 {"BETA", activation == 1 ? 0.0f : -2.0f},
                                 {"BIAS", activation != 2},
                                 {"TRANS_A", activation == 3},
                                 {"TRANS_B", activation == 1}},
                                {{"batch", 3}});
    }
}

TEST_F(MatrixProducts, AsyncCopiesOfEveryWidth) {
    for (const int vec : {2, 4, 8}) {
        expect_right_everywhere("gemm_async", {{"VEC", vec}, {"STAGES", vec == 4 ? 2 : 4}});
        expect_right_everywhere("gemm_async", {{"VEC", vec},
                                               {"STAGES", vec == 4 ? 4 : 2},
                                               {"SWIZZLE", false},
                                               {"PAD", 8},
                                               {"T", "bfloat16"},
                                               {"BK", 16},
                                               {"TM", 2}});
        if (vec < 8)
            expect_right_everywhere("gemm_async", {{"VEC", vec}, {"T", "float"}, {"BM", 32}, {"TN", 8}});
    }
}

TEST_F(MatrixProducts, MfmaOfEveryShape) {
    for (const int size : {16, 32}) {
        for (const char* type : {"half", "bfloat16", "float"}) {
            expect_right_everywhere("gemm_mfma", {{"T", type},
                                                  {"MFMA_SIZE", size},
                                                  {"BM", 64},
                                                  {"BN", 64},
                                                  {"WM", 32},
                                                  {"WN", 32},
                                                  {"BK", 32}});
        }
    }
}

}  // namespace
}  // namespace kiln
