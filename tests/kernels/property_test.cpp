// SPDX-License-Identifier: Apache-2.0
//
// Every template of the library that the host can run, against its reference: at its defaults with many sizes,
// with other orders of a block's threads, and as random legal variants.
#include <algorithm>
#include <random>

#include "library.h"
#include "variants.h"

namespace kiln {
namespace {

constexpr int kRandomVariants = 3;
// Changed now and then to draw other variants; a failure prints what was drawn.
constexpr unsigned kSeed = 20261121;

// Seconds on one core, so that the suite stays one that people run.
constexpr std::int64_t kLargestWork = 10'000'000;

class Library : public testing::TestWithParam<std::string> {};

void expect_right(test::HostLibrary& library, const Variant& variant, const RunOptions& options) {
    const RunResult result = library.runner().run(variant, options);
    EXPECT_TRUE(result.pass()) << variant.text() << ":" << test::sizes_text(result.problem) << ", "
                               << name(options.data) << "\n"
                               << test::failures_text(result);
    EXPECT_FALSE(result.outputs_checked.empty()) << variant.text() << " was not compared with anything";
}

// Around the tile sizes that templates have, and one.
constexpr std::int64_t kSizes[] = {1, 2, 31, 33, 64, 127};

// The next value that the variant takes: TMA, for one, wants rows of whole 16 bytes.
std::int64_t allowed(const Variant& variant, const SizeArgument& size, std::int64_t value) {
    if (size.multiple_text.empty()) return value;
    for (const std::int64_t last = value + 64; value < last; ++value) {
        try {
            static_cast<void>(variant.problem({{size.name, value}}, true));
            return value;
        } catch (const VariantError&) {
        }
    }
    throw std::runtime_error(size.name + " up to " + std::to_string(value) + " are not multiples of " +
                             size.multiple_text);
}

TEST_P(Library, IsRightAtManySizes) {
    test::HostLibrary library;
    const Template of = library.service().find(GetParam());
    const Variant variant = of.variant();
    expect_right(library, variant, test::once());
    expect_right(library, variant, test::once({}, Data::integers));

    Sizes ones;
    for (const SizeArgument& size : of.sizes()) ones[size.name] = allowed(variant, size, 1);
    expect_right(library, variant, test::once(ones));
    for (const SizeArgument& size : of.sizes()) {
        for (const std::int64_t value : kSizes) {
            const Sizes sizes = {{size.name, allowed(variant, size, value)}};
            if (variant.problem(sizes, true).flops > kLargestWork) continue;
            expect_right(library, variant, test::once(sizes, Data::random, 2));
        }
    }
}

TEST_P(Library, GivesTheSameBitsInEveryOrderOfThreads) {
    std::vector<std::pair<std::string, std::vector<std::byte>>> bits;
    for (const std::optional<unsigned> seed :
         {std::optional<unsigned>(), std::optional(1u), std::optional(2u), std::optional(3u)}) {
        test::HostLibrary library(seed);
        const Variant variant = library.service().find(GetParam()).variant();
        RunResult result = library.runner().run(variant, test::once());
        EXPECT_TRUE(result.pass()) << "seed " << seed.value_or(0) << ": " << test::failures_text(result);
        // What has no reference, a time for example, differs.
        std::erase_if(result.outputs, [&](const auto& output) {
            for (const Tensor& tensor : result.problem.tensors)
                if (tensor.name == output.first) return tensor.reference.empty();
            return true;
        });
        if (bits.empty()) bits = result.outputs;
        EXPECT_TRUE(bits == result.outputs) << "other bits with seed " << seed.value_or(0);
    }
}

TEST_P(Library, IsRightAsRandomVariants) {
    test::HostLibrary library(7);
    const Template of = library.service().find(GetParam());
    std::mt19937 random(kSeed + static_cast<unsigned>(std::hash<std::string>{}(GetParam())));
    for (const Variant& variant : test::random_variants(of, random, kRandomVariants)) {
        expect_right(library, variant, test::once({}, Data::random, 3));
        expect_right(library, variant, test::once({}, Data::integers, 4));
    }
}

// Those that take matrices at any address. Others want multiples of 16 bytes, for TMA or for vectors.
constexpr const char* kAnyAddress[] = {
    "column_sum",       "copy",          "gemm_async",     "gemm_batched",     "gemm_buffered",
    "gemm_few_columns", "gemm_few_rows", "gemm_fp32",      "gemm_mma",         "gemm_mma_batched",
    "gemm_skinny",      "gemm_tiled",    "gemm_wgmma_any", "histogram",        "layer_norm",
    "rms_norm",         "softmax",       "sum_shuffle",    "transpose_narrow", "transpose_tiled"};

class AnyAddress : public testing::TestWithParam<const char*> {};

TEST_P(AnyAddress, IsRight) {
    test::HostLibrary library;
    const Template of = library.service().find(GetParam());
    const Variant variant = of.variant();
    // Rows whose lengths any vector divides, so that only addresses tell.
    Sizes even;
    for (const SizeArgument& size : of.sizes()) even[size.name] = 64;
    for (const int skew : {1, 2, 3, 4, 8}) {
        RunOptions options = test::once(even);
        options.skew = skew;
        SCOPED_TRACE("skew " + std::to_string(skew));
        expect_right(library, variant, options);
        options = test::once();
        options.skew = skew;
        expect_right(library, variant, options);
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AnyAddress, testing::ValuesIn(kAnyAddress),
                         [](const auto& item) { return std::string(item.param); });

INSTANTIATE_TEST_SUITE_P(Kernels, Library, testing::ValuesIn(test::runnable_templates()),
                         [](const auto& item) { return std::string(item.param); });

}  // namespace
}  // namespace kiln
