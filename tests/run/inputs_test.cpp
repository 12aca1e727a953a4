// SPDX-License-Identifier: Apache-2.0
//
// What inputs hold, and which elements a sample takes.
#include "run/inputs.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/parallel.h"
#include "rejected.h"
#include "run/sample.h"
#include "run_support.h"

namespace kiln::test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

template <class T>
std::vector<T> made(const Tensor& tensor, Data data, std::uint64_t seed, std::int64_t first,
                    std::size_t count) {
    std::vector<T> elements(count);
    make_elements(tensor, data, seed, first, std::as_writable_bytes(std::span(elements)));
    return elements;
}

Tensor tensor_of(const std::string& type, std::size_t bytes, std::int64_t count, Fill fill,
                 std::int64_t low = 0, std::int64_t high = 0) {
    Tensor tensor;
    tensor.name = "x";
    tensor.type = type;
    tensor.element_bytes = bytes;
    tensor.extents = {count};
    tensor.fill = fill;
    tensor.low = low;
    tensor.high = high;
    return tensor;
}

TEST(Inputs, AreFunctionsOfTheSeedTheNameAndTheNumber) {
    Tensor tensor = tensor_of("float", 4, 200000, Fill::uniform);
    const auto all = made<float>(tensor, Data::random, 1, 0, 200000);
    EXPECT_EQ(made<float>(tensor, Data::random, 1, 0, 200000), all);
    const auto part = made<float>(tensor, Data::random, 1, 123456, 1000);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 123456));
    EXPECT_NE(made<float>(tensor, Data::random, 2, 0, 200000), all);
    tensor.name = "y";
    EXPECT_NE(made<float>(tensor, Data::random, 1, 0, 200000), all);
}

TEST(Inputs, AreTheSameForEver) {
    // Recorded results depend on them.
    const auto floats = made<float>(tensor_of("float", 4, 3, Fill::uniform), Data::random, 1, 0, 3);
    EXPECT_EQ(floats, (std::vector<float>{-0x1.b8ea08p-2F, 0x1.c0575p-3F, 0x1.0594dcp-1F}));
    const auto places = made<int>(tensor_of("int", 4, 5, Fill::permutation), Data::random, 1, 0, 5);
    EXPECT_EQ(places, (std::vector<int>{3, 4, 0, 2, 1}));
}

TEST(Inputs, OffsetsRiseFromZeroToTheNumberOfRows) {
    const auto of = [](std::int64_t sequences, std::int64_t rows, std::uint64_t seed) {
        return made<int>(tensor_of("int", 4, sequences + 1, Fill::offsets, 0, rows), Data::random, seed, 0,
                         sequences + 1);
    };
    EXPECT_EQ(of(5, 519, 1), of(5, 519, 2)) << "as much work with each seed";
    EXPECT_EQ(of(0, 0, 1), (std::vector<int>{0}));
    EXPECT_EQ(of(1, 7, 1), (std::vector<int>{0, 7}));
    for (const auto& [sequences, rows] : {std::pair{5, 519}, {1000, 2'000'000'000}, {1000, 37}, {64, 4096}}) {
        const std::vector<int> all = of(sequences, rows, 1);
        EXPECT_EQ(all.front(), 0);
        EXPECT_EQ(all.back(), rows);
        EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
        std::set<int> lengths;
        for (std::size_t i = 1; i < all.size(); ++i) lengths.insert(all[i] - all[i - 1]);
        EXPECT_GE(lengths.size(), 2u) << "they differ";
    }
    const std::vector<int> many = of(1000, 1'000'000, 1);
    int empty = 0;
    for (std::size_t i = 1; i < many.size(); ++i) empty += many[i] == many[i - 1] ? 1 : 0;
    EXPECT_GT(empty, 0) << "some have no rows";
}

TEST(Inputs, UniformFloatsFillTheirRange) {
    const auto all = made<float>(tensor_of("float", 4, 100000, Fill::uniform), Data::random, 1, 0, 100000);
    EXPECT_GE(*std::min_element(all.begin(), all.end()), -1);
    EXPECT_LT(*std::min_element(all.begin(), all.end()), -0.999);
    EXPECT_LT(*std::max_element(all.begin(), all.end()), 1);
    EXPECT_GT(*std::max_element(all.begin(), all.end()), 0.999);
    EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0) / 100000, 0, 0.01);
}

TEST(Inputs, IntegersAreFromMinusTwoToTwo) {
    const auto all = made<float>(tensor_of("float", 4, 1000, Fill::uniform), Data::integers, 1, 0, 1000);
    EXPECT_EQ(std::set<float>(all.begin(), all.end()), (std::set<float>{-2, -1, 0, 1, 2}));
}

TEST(Inputs, BytesTakeAllTheirValues) {
    const auto all =
        made<std::int8_t>(tensor_of("signed char", 1, 10000, Fill::uniform), Data::random, 1, 0, 10000);
    EXPECT_EQ((std::set<int>(all.begin(), all.end()).size()), 256U);
}

TEST(Inputs, ARangeTakesBothEnds) {
    const auto all = made<int>(tensor_of("int", 4, 1000, Fill::range, -3, 4), Data::random, 1, 0, 1000);
    EXPECT_EQ((std::set<int>(all.begin(), all.end())), (std::set<int>{-3, -2, -1, 0, 1, 2, 3, 4}));
    EXPECT_THAT(rejected<VariantError>([] {
                    made<std::int8_t>(tensor_of("signed char", 1, 9, Fill::range, 0, 128), Data::random, 1, 0,
                                      9);
                }),
                HasSubstr("0 to 128"));
}

TEST(Inputs, APermutationTakesEachOnce) {
    for (const std::int64_t count : {1, 2, 3, 4, 5, 16, 17, 1000, 65537}) {
        auto all = made<int>(tensor_of("int", 4, count, Fill::permutation), Data::random, 1, 0,
                             static_cast<std::size_t>(count));
        std::vector<int> ordered(all.size());
        std::iota(ordered.begin(), ordered.end(), 0);
        if (count > 100) {
            EXPECT_NE(all, ordered);
        }
        std::sort(all.begin(), all.end());
        EXPECT_EQ(all, ordered) << count;
    }
    EXPECT_THROW(
        made<std::int8_t>(tensor_of("signed char", 1, 129, Fill::permutation), Data::random, 1, 0, 129),
        VariantError);
}

Tensor patterned(const std::string& type, std::size_t bytes, std::vector<std::int64_t> extents,
                 Pattern pattern, std::int64_t size) {
    Tensor tensor = tensor_of(type, bytes, 1, Fill::uniform);
    tensor.extents = std::move(extents);
    tensor.pattern = pattern;
    tensor.pattern_size = size;
    return tensor;
}

TEST(Inputs, FactorsAndTermsHaveExactSums) {
    for (const std::int64_t k : {1, 88, 4096, 8192, 1 << 20}) {
        const auto factors = made<float>(patterned("float", 4, {100000}, Pattern::factor, k),
                                         Data::contributions, 1, 0, 100000);
        const double most = *std::ranges::max_element(factors);
        EXPECT_LE(most * most * static_cast<double>(k), 0x1p24) << k;
        EXPECT_GE(most * most * static_cast<double>(4 * k), std::min(0x1p24, 4.0 * k * 200 * 200)) << k;
        EXPECT_EQ(std::ranges::count(factors, 0.0F), 0) << k;
        EXPECT_NEAR(std::accumulate(factors.begin(), factors.end(), 0.0) / most, 0, 1500) << k;
    }
    for (const std::int64_t n : {std::int64_t{1000}, std::int64_t{100003}, std::int64_t{1} << 24}) {
        const auto terms = made<float>(patterned("float", 4, {n}, Pattern::term, n), Data::contributions, 1,
                                       0, static_cast<std::size_t>(n));
        const double sum = std::accumulate(terms.begin(), terms.end(), 0.0);
        EXPECT_LE(sum, 0x1p24);
        EXPECT_GE(sum, std::min(0x1p22, 100.0 * static_cast<double>(n)));
        if (n < 1 << 22) {
            EXPECT_EQ(std::ranges::count(terms, 0.0F), 0) << n;
        }
        EXPECT_GT(terms.front(), 0);
        EXPECT_GT(terms.back(), 0);
        EXPECT_GT(terms[static_cast<std::size_t>(n) - 64], 0);
    }
    // As large a sum as float cannot hold; one element in 512 is not zero.
    const std::int64_t huge = std::int64_t{1} << 31;
    const Tensor tensor = patterned("half", 2, {huge}, Pattern::term, huge);
    const auto some = made<half>(tensor, Data::contributions, 1, huge / 2, 1 << 20);
    double sum = 0;
    for (const half value : some) sum += static_cast<float>(value);
    EXPECT_NEAR(sum * 2048, 0x1p23, 0x1p20);
    EXPECT_GT(static_cast<float>(made<half>(tensor, Data::contributions, 1, huge - 1, 1)[0]), 0);
}

TEST(Inputs, EveryColumnIsAPeakOfSomeRow) {
    for (const auto& [rows, cols] : {std::pair{1000, 997}, {19, 1000}, {3, 1}, {64, 4096}}) {
        const auto all = made<float>(patterned("float", 4, {rows, cols}, Pattern::peaks, 8),
                                     Data::contributions, 1, 0, static_cast<std::size_t>(rows * cols));
        for (int col = 0; col < cols; ++col) {
            int peaks = 0;
            for (int row = 0; row < rows; ++row) peaks += all[static_cast<std::size_t>(row * cols + col)] > 4;
            ASSERT_GE(peaks, 1) << rows << " x " << cols << ", column " << col;
        }
        for (int row = 0; row < rows; ++row) {
            const auto first = all.begin() + row * cols;
            ASSERT_LE(std::count_if(first, first + cols, [](float x) { return x > 4; }), 64 + 2)
                << "and the ends";
        }
    }
}

TEST(Inputs, ShiftedPeaksAreFarBelowZeroFarAboveAndNearIt) {
    constexpr int kRows = 6, kCols = 100;
    const auto of = [](Pattern pattern) {
        return made<float>(patterned("float", 4, {kRows, kCols}, pattern, 8), Data::contributions, 1, 0,
                           kRows * kCols);
    };
    const auto peaks = of(Pattern::peaks), shifted = of(Pattern::shifted_peaks);
    for (int row = 0; row < kRows; ++row)
        for (int col = 0; col < kCols; ++col) {
            constexpr float kShifts[] = {-128, 128, 0};
            const auto i = static_cast<std::size_t>(row * kCols + col);
            ASSERT_NEAR(shifted[i], peaks[i] + kShifts[row % 3], 1e-5) << row << " " << col;
        }
}

TEST(Inputs, AQueryAgreesWithAFewKeysOnly) {
    constexpr int kKeys = 1000, kHead = 64;
    Tensor tensor = patterned("half", 2, {kKeys, kHead}, Pattern::key, kKeys);
    tensor.name = "k";
    const auto keys = made<half>(tensor, Data::contributions, 1, 0, kKeys * kHead);
    tensor.pattern = Pattern::query;
    tensor.name = "q";
    const auto queries = made<half>(tensor, Data::contributions, 1, 0, kKeys * kHead);
    std::vector<int> seen(kKeys);
    for (int i = 0; i < kKeys; ++i) {
        std::vector<int> agreeing;
        for (int j = 0; j < kKeys; ++j) {
            float score = 0;
            for (int d = 0; d + 1 < kHead; ++d)
                score += static_cast<float>(queries[static_cast<std::size_t>(i * kHead + d)]) *
                         static_cast<float>(keys[static_cast<std::size_t>(j * kHead + d)]);
            ASSERT_TRUE(score == 6 * 63 || score < 6 * 50) << score;
            if (score == 6 * 63) agreeing.push_back(j);
        }
        for (const int j : agreeing) ++seen[static_cast<std::size_t>(j)];
        ASSERT_LE(agreeing.size(), 60U);
        if (i % 4 == 2) {
            EXPECT_THAT(agreeing, Contains(i));
        }
        if (i % 4 == 1 && i + 1 < kKeys) {
            EXPECT_THAT(agreeing, Contains(i + 1));
        }
    }
    EXPECT_EQ(std::ranges::count(seen, 0), 0) << "keys that no query agrees with";
}

TEST(Sample, HasTheEndsTheCornersAndThePowersOfTwo) {
    const std::vector<std::int64_t> extents = {1000, 70000, 100};
    const auto sample = sample_elements(extents, 65536, 1);
    EXPECT_EQ(sample, sample_elements(extents, 65536, 1));
    EXPECT_NE(sample, sample_elements(extents, 65536, 2));
    EXPECT_GE(sample.size(), 65536U);
    EXPECT_LE(sample.size(), 66000U);
    const std::set<std::int64_t> elements(sample.begin(), sample.end());
    EXPECT_EQ(elements.size(), sample.size());
    EXPECT_EQ(*elements.begin(), 0);
    EXPECT_EQ(*elements.rbegin(), 6999999999);
    for (const std::int64_t element :
         {std::int64_t{99}, std::int64_t{6999900}, std::int64_t{6993000000}, (std::int64_t{1} << 31) - 1,
          std::int64_t{1} << 31, std::int64_t{1} << 32})
        EXPECT_EQ(elements.count(element), 1U) << element;
    // The most telling come first: a shorter sample has them too.
    EXPECT_EQ(sample[0], 0);
    EXPECT_EQ(sample[1], 6999999999);
    EXPECT_LT(std::find(sample.begin(), sample.end(), std::int64_t{1} << 31) - sample.begin(), 1024);
}

TEST(Sample, OfAFewIsAll) {
    const std::vector<std::int64_t> extents = {3, 5};
    EXPECT_EQ(sample_elements(extents, 100, 1).size(), 15U);
    EXPECT_EQ(sample_elements(extents, 15, 1).size(), 15U);
    const std::vector<std::int64_t> flat = {70000};
    EXPECT_GE(sample_elements(flat, 65536, 1).size(), 60000U);
}

TEST(RunParallel, CoversEveryNumberOnceAndPassesErrorsOn) {
    std::vector<int> seen(100001);
    parallel_for(100001, 1000, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    EXPECT_THAT(seen, Each(1));
    parallel_for(0, 10, [](std::int64_t, std::int64_t) { FAIL(); });
    EXPECT_THROW(parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw UsageError("x"); }), UsageError);
}

}  // namespace
}  // namespace kiln::test
