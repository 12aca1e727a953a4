// SPDX-License-Identifier: Apache-2.0
//
// The optimisation switches of the FMA GEMMs, each alone: none may change a single bit, whole tiles
// or edges, aligned rows or not. And what the batched product promises also its result.
#include <kiln/error.h>

#include <limits>

#include "library.h"
#include "template/embedded.h"

namespace kiln {
namespace {

using Outputs = std::vector<std::pair<std::string, std::vector<std::byte>>>;

// Several tiles; edges and aligned rows; rows that are not aligned; less than one tile.
const Sizes kProblems[] = {
    {{"m", 256}, {"n", 256}, {"k", 64}},
    {{"m", 129}, {"n", 136}, {"k", 72}},
    {{"m", 131}, {"n", 67}, {"k", 37}},
    {{"m", 1}, {"n", 5}, {"k", 3}},
};

Outputs results(test::HostLibrary& library, const Variant& variant, const Sizes& sizes) {
    RunResult result = library.runner().run(variant, test::once(sizes));
    EXPECT_TRUE(result.pass()) << variant.text() << test::sizes_text(result.problem) << "\n"
                               << test::failures_text(result);
    return std::move(result.outputs);
}

struct Switch {
    std::string kernel;
    std::string name;
    Values common;
    std::vector<Values> settings;
};

void PrintTo(const Switch& one, std::ostream* out) { *out << one.kernel << " " << one.name; }

class GemmSwitch : public testing::TestWithParam<Switch> {};

TEST_P(GemmSwitch, ChangesNoBit) {
    const Switch& one = GetParam();
    test::HostLibrary library(5);
    const Template of = library.service().find(one.kernel);
    for (const Sizes& sizes : kProblems) {
        std::optional<Outputs> first;
        for (const Values& setting : one.settings) {
            Values values = one.common;
            values.insert(setting.begin(), setting.end());
            const Variant variant = of.variant(values);
            const Outputs outputs = results(library, variant, sizes);
            if (!first) first = outputs;
            EXPECT_TRUE(outputs == *first) << variant.text() << " at m=" << sizes.at("m");
        }
    }
}

const Values kSmallTiles = {{"BM", 64}, {"BN", 64}, {"TM", 4}, {"TN", 4}, {"PAD", 0}};

INSTANTIATE_TEST_SUITE_P(
    Kernels, GemmSwitch,
    testing::Values(Switch{"gemm_tiled",
                           "UNROLL",
                           {},
                           {{{"UNROLL", 1}}, {{"UNROLL", 2}}, {{"UNROLL", 8}}, {{"UNROLL", 64}}}},
                    Switch{"gemm_tiled",
                           "Coarsening",
                           {},
                           {{{"TM", 1}, {"TN", 4}}, {{"TM", 4}, {"TN", 4}}, {{"TM", 8}, {"TN", 8}}}},
                    Switch{"gemm_tiled", "VEC", {{"PAD", 8}}, {{{"VEC", 1}}, {{"VEC", 2}}, {{"VEC", 4}}}},
                    Switch{"gemm_buffered",
                           "Pipeline",
                           kSmallTiles,
                           {{{"PREFETCH", false}, {"BUFFERS", 1}},
                            {{"PREFETCH", true}, {"BUFFERS", 1}},
                            {{"PREFETCH", false}, {"BUFFERS", 2}},
                            {{"PREFETCH", true}, {"BUFFERS", 2}}}},
                    Switch{"gemm_buffered",
                           "Layout",
                           {{"BM", 64}, {"BN", 64}, {"TM", 4}, {"TN", 4}, {"BK", 16}, {"T", "half"}},
                           {{{"PAD", 0}}, {{"PAD", 4}}, {{"PAD", 0}, {"SWIZZLE", true}}}},
                    Switch{"gemm_buffered",
                           "VEC",
                           {{"BM", 64},
                            {"BN", 64},
                            {"TM", 8},
                            {"TN", 8},
                            {"PAD", 0},
                            {"SWIZZLE", true},
                            {"T", "bfloat16"},
                            {"MIN_BLOCKS", 1}},
                           {{{"VEC", 1}}, {{"VEC", 2}}, {{"VEC", 4}}, {{"VEC", 8}}}}),
    [](const auto& item) { return item.param.kernel + "_" + item.param.name; });

std::string text_of(std::string_view name) {
    for (const EmbeddedFile& file : embedded_files())
        if (file.name == name) return std::string(file.text);
    ADD_FAILURE() << "there is no " << name;
    return {};
}

// The template with the header that has its main loop written out in the place of the include.
std::string with_main_loop(const std::string& file) {
    constexpr std::string_view kInclude = "#include \"kiln/gemm_tile.h\"", kOnce = "#pragma once";
    std::string text = text_of(file), header = text_of("kiln/gemm_tile.h");
    header.erase(header.find(kOnce), kOnce.size());
    return text.replace(text.find(kInclude), kInclude.size(), header);
}

// The text with the n-th barrier of the main loop taken out, from 0; empty when there are fewer.
std::string without_barrier(std::string text, int n) {
    constexpr std::string_view kBarrier = "__syncthreads();";
    std::size_t at = text.find("void multiply_all(");
    for (int i = 0; i <= n; ++i) {
        at = text.find(kBarrier, at + 1);
        if (at == std::string::npos) return {};
    }
    return text.replace(at, kBarrier.size(), ";");
}

bool is_right(const std::string& text, const std::string& file, const Values& values, unsigned seed) {
    test::HostLibrary library(seed);
    try {
        return library.runner().run(library.service().parse(text, file).variant(values), test::once()).pass();
    } catch (const DeviceError&) {
        return false;
    }
}

// Double buffering is right only if one barrier per step is enough, and less is not.
TEST(GemmBarriers, EachIsNeeded) {
    struct Case {
        std::string file;
        Values values;
        std::vector<int> needed;
    };
    const Case cases[] = {{"gemm_buffered.cu", {{"BUFFERS", 1}}, {0, 1, 2}},
                          {"gemm_buffered.cu", {{"BUFFERS", 2}}, {0, 2}},
                          {"gemm_batched.cu", {}, {0, 2}}};
    for (const Case& one : cases) {
        const std::string text = with_main_loop(one.file);
        EXPECT_TRUE(is_right(text, one.file, one.values, 1)) << one.file;
        for (const int barrier : one.needed) {
            const std::string broken = without_barrier(text, barrier);
            ASSERT_FALSE(broken.empty()) << one.file << " has no barrier " << barrier;
            bool caught = false;
            for (unsigned seed = 1; seed <= 4 && !caught; ++seed)
                caught = !is_right(broken, one.file, one.values, seed);
            EXPECT_TRUE(caught) << one.file << " without its barrier " << barrier;
        }
    }
}

// Every layout of the operands, with all that an epilogue can be made of.
TEST(GemmBatched, IsRightInEveryLayout) {
    test::HostLibrary library(3);
    const Template of = library.service().find("gemm_batched");
    for (const bool trans_a : {false, true}) {
        for (const bool trans_b : {false, true}) {
            for (const int vec : {1, 4}) {
                const Variant plain = of.variant({{"TRANS_A", trans_a}, {"TRANS_B", trans_b}, {"VEC", vec}});
                results(library, plain, {{"m", 64}, {"n", 128}, {"k", 48}, {"batch", 3}});
                results(library, plain, {{"m", 67}, {"n", 5}, {"k", 131}, {"batch", 2}});
            }
        }
    }
    for (int activation = 0; activation <= 3; ++activation)
        for (const float beta : {0.0f, -1.5f})
            results(
                library,
                of.variant({{"ALPHA", 0.75f}, {"BETA", beta}, {"BIAS", true}, {"ACTIVATION", activation}}),
                {{"m", 65}, {"n", 68}, {"k", 30}, {"batch", 2}});
}

TEST(GemmBatched, IsExactForSmallIntegers) {
    test::HostLibrary library;
    const Template of = library.service().find("gemm_batched");
    for (const int activation : {0, 1}) {
        const Variant variant =
            of.variant({{"ALPHA", 0.5f}, {"BETA", 2.0f}, {"BIAS", true}, {"ACTIVATION", activation}});
        const RunResult result = library.runner().run(variant, test::once({}, Data::integers));
        EXPECT_TRUE(result.pass()) << test::failures_text(result);
        ASSERT_EQ(result.outputs_checked.size(), 1u);
        EXPECT_EQ(result.outputs_checked[0].max_abs_error, 0);
    }
}

// As in BLAS: where BETA is 0 and without BIAS, what C and the bias hold does not matter, were it a NaN.
TEST(GemmBatched, ReadsNeitherCNorBiasWhenTheyDoNotCount) {
    using Fn =
        void(int m, int n, int k, int batch, const float* a, const float* b, const float* bias, float* c);
    test::HostLibrary library;
    Service& service = library.service();
    const auto kernel = service.build<Fn>(service.find("gemm_batched").variant({{"T", "float"}}));
    constexpr int kM = 5, kN = 7, kK = 3;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> a(kM * kK, 2.0f), b(kK * kN, 3.0f), bias(kN, nan);
    std::vector<float> c(kM * kN, nan);
    kernel(service.stream(), kM, kN, kK, 1, a.data(), b.data(), bias.data(), c.data());
    service.stream().synchronize();
    for (const float value : c) EXPECT_EQ(value, 2.0f * 3.0f * kK);
}

// The rules that keep vectors aligned and threads in warps are told before any compiler starts.
TEST(GemmBuffered, RejectsWhatCanNotBe) {
    test::HostLibrary library;
    const Template of = library.service().find("gemm_buffered");
    const auto message = [&](const Values& values) -> std::string {
        try {
            of.variant(values);
        } catch (const VariantError& error) {
            return error.what();
        }
        return "legal";
    };
    EXPECT_NE(message({{"PAD", 1}}).find("BM + PAD"), std::string::npos) << message({{"PAD", 1}});
    const Values both = {{"SWIZZLE", true}, {"PAD", 4}};
    EXPECT_NE(message(both).find("PAD = 0"), std::string::npos) << message(both);
    EXPECT_NE(message({{"VEC", 8}}).find("16 bytes"), std::string::npos) << message({{"VEC", 8}});
    EXPECT_EQ(message({{"SWIZZLE", true}}), "legal") << "the default of PAD is 0 then";
}

}  // namespace
}  // namespace kiln
