// SPDX-License-Identifier: Apache-2.0
//
// Output types, layouts and epilogues of the GEMMs that have them, at sizes that no tile divides, and of those that take
// matrices anywhere also at unaligned addresses; and what the epilogue is, by a computation of its own.
#include <kiln/types.h>

#include <cmath>
#include <cstring>

#include "library.h"

namespace kiln {
namespace {

struct EpilogueCase {
    std::string kernel;
    Values values;
    int skew = 0;  ///< elements that matrices are moved by
};

void PrintTo(const EpilogueCase& one, std::ostream* out) { *out << one.kernel; }

class GemmEpilogue : public testing::TestWithParam<EpilogueCase> {};

TEST_P(GemmEpilogue, IsRight) {
    const EpilogueCase& one = GetParam();
    test::HostLibrary library;
    const Variant variant = library.service().find(one.kernel).variant(one.values);
    for (const Data data : {Data::random, Data::contributions}) {
        RunOptions options = test::once({}, data);
        options.skew = one.skew;
        const RunResult result = library.runner().run(variant, options);
        EXPECT_TRUE(result.pass()) << variant.text() << "\n" << test::failures_text(result);
    }
}

const Values kSmall = {{"BM", 64}, {"BN", 64}, {"STAGES", 2}};

Values with(Values values, const Values& more) {
    for (const auto& [name, value] : more) values.insert_or_assign(name, value);
    return values;
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, GemmEpilogue,
    testing::Values(
        EpilogueCase{"gemm_naive",
                     {{"OUT", "half"}, {"TRANS_A", true}, {"TRANS_B", true}, {"BIAS", 1}, {"ACTIVATION", 2}}},
        EpilogueCase{"gemm_skinny",
                     {{"OUT", "half"}, {"BIAS", 1}, {"RESIDUAL", true}, {"BETA", 0.5}, {"SPLIT_K", 2}},
                     1},
        EpilogueCase{"gemm_wgmma_any",
                     with(kSmall, {{"OUT", "half"},
                                   {"TRANS_A", true},
                                   {"TRANS_B", true},
                                   {"BIAS", 1},
                                   {"RESIDUAL", true},
                                   {"ACTIVATION", 3}}),
                     1},
        // By TMA: TN with bias and GELU, what a linear layer is.
        EpilogueCase{
            "gemm_wgmma",
            with(kSmall,
                 {{"OUT", "half"}, {"TRANS_B", true}, {"BIAS", 1}, {"ACTIVATION", 2}, {"PINGPONG", true}})},
        EpilogueCase{
            "gemm_wgmma",
            with(kSmall,
                 {{"OUT", "bfloat16"}, {"TRANS_A", true}, {"ALPHA", 0.5}, {"RESIDUAL", true}, {"BM", 128}})},
        // Row by row, to rows of C of any length.
        EpilogueCase{"gemm_wgmma", with(kSmall, {{"OUT", "half"},
                                                 {"TRANS_B", true},
                                                 {"TMA_STORE", false},
                                                 {"BIAS", 2},
                                                 {"RESIDUAL", true}})}),
    [](const auto& item) { return item.param.kernel + "_" + std::to_string(item.index); });

TEST(GemmEpilogueFormula, IsActivationOfTheScaledProductAndWhatIsAdded) {
    // Without steps of k the result is what the epilogue adds, which then is known exactly.
    test::HostLibrary library;
    const auto result_of = [&](const Values& values) {
        const Template of = library.service().find("gemm_naive");
        const RunResult result = library.runner().run(
            of.variant(values), test::once({{"m", 3}, {"n", 5}, {"k", 0}}, Data::integers));
        EXPECT_TRUE(result.pass()) << test::failures_text(result);
        std::vector<float> c(15);
        EXPECT_EQ(result.outputs.at(0).second.size(), c.size() * sizeof(float));
        std::memcpy(c.data(), result.outputs.at(0).second.data(), c.size() * sizeof(float));
        return c;
    };
    const std::vector<float> column = result_of({{"BIAS", 1}}), row = result_of({{"BIAS", 2}}),
                             residual = result_of({{"RESIDUAL", true}, {"BETA", 3}}),
                             rectified = result_of({{"BIAS", 1}, {"ACTIVATION", 1}});
    bool rows_differ = false, columns_differ = false;
    for (std::size_t i = 0; i < 15; ++i) {
        EXPECT_EQ(column[i], column[i % 5]) << "a column has one bias";
        EXPECT_EQ(row[i], row[i / 5 * 5]) << "a row has one bias";
        EXPECT_EQ(std::fmod(residual[i], 3.0F), 0.0F) << "the residual is an integer, times 3";
        EXPECT_EQ(rectified[i], std::max(column[i], 0.0F));
        rows_differ = rows_differ || row[i] != row[0];
        columns_differ = columns_differ || column[i] != column[0];
    }
    EXPECT_TRUE(rows_differ);
    EXPECT_TRUE(columns_differ);
}

}  // namespace
}  // namespace kiln
