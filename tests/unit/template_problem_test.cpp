// SPDX-License-Identifier: Apache-2.0
//
// What a launch works on: the lines as they are described, and the problems and tensor maps that they come
// to.
#include <kiln/extents.h>

#include "template/tensor_maps.h"
#include "template_support.h"

namespace kiln {
namespace {

using test::make;
using test::variant_error;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kGather = R"(// gather: y = x[index], scaled
//@ kernel  gather
//@ param   T    type in half, float = half
//@ param   W    int in 1, 2, 4 = 2 "columns per thread"
//@ flops   2 * rows * columns
//@ scratch counts [ceil_div(columns, W)] = 0 "zero between launches"
//@ output  y [rows, columns] by gather_reference exact "the result"
//@ size    rows = 1 << 0
//@ size    columns = W * 100 test rows + 6 "columns of x and y"
//@ input   x [table, columns] "the table"
//@ size    table = 1000 test 5
//@ input   index [rows] in 0..table - 1
//@ inout   state [1] in -2..2 by state_reference any_order
//@ naive   gather_naive
//@ block   32
//@ grid    rows
#include "kiln/device.h"
extern "C" __global__ void gather(long long rows, unsigned columns, int table, const T* __restrict__ x,
                                  const int* index, T* y, float* state, unsigned* counts) {}
)";

std::string gather_text() {
    std::string text = kGather;
    text.replace(text.find("1 << 0"), 6, "W * 64");
    return text;
}

TEST(Problem, LinesAsDescribed) {
    const Template gather = Template::parse(gather_text(), "gather.cu");
    EXPECT_TRUE(gather.is_runnable());
    EXPECT_FALSE(gather.is_reference());
    ASSERT_EQ(gather.sizes().size(), 3u);
    EXPECT_EQ(gather.sizes()[0].name, "rows");
    EXPECT_EQ(gather.sizes()[0].default_text, "W * 64");
    EXPECT_EQ(gather.sizes()[0].test_text, "");
    EXPECT_EQ(gather.sizes()[1].name, "columns");
    EXPECT_EQ(gather.sizes()[1].default_text, "W * 100");
    EXPECT_EQ(gather.sizes()[1].test_text, "rows + 6");
    EXPECT_EQ(gather.sizes()[1].text, "columns of x and y");
    EXPECT_EQ(gather.sizes()[1].line, 9);
    EXPECT_EQ(gather.sizes()[2].name, "table");

    ASSERT_EQ(gather.tensors().size(), 5u);
    const TensorArgument& x = gather.tensors()[0];
    EXPECT_EQ(x.name, "x");
    EXPECT_EQ(x.role, TensorRole::input);
    EXPECT_EQ(x.fill, Fill::uniform);
    EXPECT_EQ(x.extents_text, "table, columns");
    EXPECT_EQ(x.text, "the table");
    EXPECT_EQ(x.line, 10);
    const TensorArgument& index = gather.tensors()[1];
    EXPECT_EQ(index.name, "index");
    EXPECT_EQ(index.fill, Fill::range);
    EXPECT_EQ(index.fill_text, "in 0..table - 1");
    const TensorArgument& y = gather.tensors()[2];
    EXPECT_EQ(y.name, "y");
    EXPECT_EQ(y.role, TensorRole::output);
    EXPECT_EQ(y.reference, "gather_reference");
    EXPECT_TRUE(y.exact);
    EXPECT_FALSE(y.any_order);
    const TensorArgument& state = gather.tensors()[3];
    EXPECT_EQ(state.role, TensorRole::inout);
    EXPECT_EQ(state.reference, "state_reference");
    EXPECT_FALSE(state.exact);
    EXPECT_TRUE(state.any_order);
    const TensorArgument& counts = gather.tensors()[4];
    EXPECT_EQ(counts.role, TensorRole::scratch);
    EXPECT_EQ(counts.fill, Fill::zero);
    EXPECT_EQ(counts.text, "zero between launches");
    EXPECT_EQ(gather.naive(), "gather_naive");
    EXPECT_EQ(gather.flops(), "2 * rows * columns");
    EXPECT_EQ(gather.bytes(), "");
}

TEST(Problem, Defaults) {
    const Problem problem = Template::parse(gather_text(), "gather.cu").variant().problem();
    EXPECT_EQ(problem.sizes, (Sizes{{"rows", 128}, {"columns", 200}, {"table", 1000}}));
    ASSERT_EQ(problem.tensors.size(), 5u);
    EXPECT_EQ(problem.tensors[0].type, "half");
    EXPECT_EQ(problem.tensors[0].element_bytes, 2u);
    EXPECT_THAT(problem.tensors[0].extents, ElementsAre(1000, 200));
    EXPECT_EQ(problem.tensors[0].count(), 200000);
    EXPECT_EQ(problem.tensors[0].size_bytes(), 400000u);
    EXPECT_EQ(problem.tensors[1].type, "int");
    EXPECT_EQ(problem.tensors[1].low, 0);
    EXPECT_EQ(problem.tensors[1].high, 999);
    EXPECT_EQ(problem.tensors[2].reference, "gather_reference");
    EXPECT_TRUE(problem.tensors[2].exact);
    EXPECT_FALSE(problem.tensors[2].any_order);
    EXPECT_TRUE(problem.tensors[3].any_order);
    EXPECT_EQ(problem.tensors[3].low, -2);
    EXPECT_EQ(problem.tensors[3].high, 2);
    EXPECT_EQ(problem.tensors[4].type, "unsigned int");
    EXPECT_THAT(problem.tensors[4].extents, ElementsAre(100));
    EXPECT_EQ(problem.flops, 2 * 128 * 200);
    EXPECT_EQ(problem.bytes, 400000 + 128 * 4 + 128 * 200 * 2 + 4) << "all but scratch";
}

TEST(Problem, TestSizesGivenSizesAndValues) {
    const Template gather = Template::parse(gather_text(), "gather.cu");
    const Problem tested = gather.variant().problem({}, true);
    EXPECT_EQ(tested.sizes, (Sizes{{"rows", 128}, {"columns", 134}, {"table", 5}}));
    const Problem given = gather.variant({{"T", "float"}, {"W", 4}}).problem({{"rows", 3}}, true);
    EXPECT_EQ(given.sizes, (Sizes{{"rows", 3}, {"columns", 9}, {"table", 5}}));
    EXPECT_EQ(given.tensors[0].type, "float");
    EXPECT_EQ(given.tensors[0].size_bytes(), 5u * 9 * 4);
    EXPECT_THAT(given.tensors[4].extents, ElementsAre(3));
    EXPECT_EQ(gather.variant().problem({{"rows", 5'000'000'000}}).tensors[2].count(), 1'000'000'000'000);
}

TEST(Problem, DeclaredBytesAndFills) {
    const Problem problem = make(
                                "//@ size m = 7\n//@ size n = m * m\n//@ inout c [m, n] = 0\n//@ bytes n\n"
                                "//@ input p [n] permutation\n//@ input b [4]\n",
                                "int m, long n, float* c, const short* p, const unsigned char* b")
                                .variant()
                                .problem();
    EXPECT_EQ(problem.bytes, 49);
    EXPECT_EQ(problem.flops, 0);
    EXPECT_EQ(problem.tensors[0].fill, Fill::zero);
    EXPECT_EQ(problem.tensors[1].fill, Fill::permutation);
    EXPECT_EQ(problem.tensors[1].low, 0);
    EXPECT_EQ(problem.tensors[1].high, 48);
    EXPECT_EQ(problem.tensors[2].fill, Fill::uniform);
    EXPECT_EQ(problem.tensors[2].element_bytes, 1u);
}

TEST(Problem, OffsetsOfPackedSequences) {
    const std::string sizes = "//@ size m = 3\n//@ size n = 10\n";
    const auto made = [&](const std::string& line, const std::string& type = "int") {
        return make(sizes + line, "int m, int n, const " + type + "* at");
    };
    const Template packed = made("//@ input at [m + 1] offsets to n\n");
    EXPECT_EQ(packed.tensors()[0].fill_text, "offsets to n");
    const Tensor at = packed.variant().problem().tensors[0];
    EXPECT_EQ(at.fill, Fill::offsets);
    EXPECT_THAT(at.extents, ElementsAre(4));
    EXPECT_EQ(at.high, 10);
    EXPECT_THAT([&] { return made("//@ input at [m] offsets to n\n", "float"); },
                testing::ThrowsMessage<TemplateError>(HasSubstr("offsets are integers; at can be float")));
    EXPECT_THAT([&] { return made("//@ input at [m] offsets n\n"); },
                testing::ThrowsMessage<TemplateError>(HasSubstr("how many rows the packed sequences have")));
    EXPECT_THAT(
        [&] {
            return packed.variant().problem({{"m", 0}});
        },
        testing::ThrowsMessage<VariantError>(
            HasSubstr("at has 1 element, so there is no sequence that the 10 rows belong to")));
    EXPECT_NO_THROW(static_cast<void>(packed.variant().problem({{"m", 0}, {"n", 0}})));
    EXPECT_THAT([&] { return made("//@ input at [m] offsets to n - 11\n").variant().problem(); },
                testing::ThrowsMessage<VariantError>(HasSubstr("the last of at")));
    EXPECT_THAT(
        [&] { return made("//@ input at [m] offsets to n * 30\n", "unsigned char").variant().problem(); },
        testing::ThrowsMessage<VariantError>(HasSubstr("unsigned char holds integers")));
}

TEST(Problem, LimitsOfTheTargetAreKnown) {
    Target target = test::cuda_target();
    target.limits.multiprocessors = 132;
    const Template parsed = make(
        "//@ size m = device.multiprocessors * threads\n//@ size n = 1\n"
        "//@ output c [m] by r\n");
    EXPECT_EQ(parsed.for_target(target).variant().problem().sizes.at("m"), 132 * 32);
}

TEST(Problem, WithoutLines) {
    const Template none = make("");
    EXPECT_FALSE(none.is_runnable());
    EXPECT_TRUE(none.sizes().empty());
    EXPECT_TRUE(none.tensors().empty());
    EXPECT_EQ(variant_error([&] { none.variant().problem(); }),
              "k: no //@ line says what int m, int n and float* c are, so that no launch can be prepared: "
              "integers need a size line, pointers one of input, output, inout or scratch, and other values "
              "are better parameters");
    const Template most = make("//@ size n = 4\n//@ output c [n]\n", "int n, float alpha, float* c");
    EXPECT_FALSE(most.is_runnable());
    EXPECT_THAT(variant_error([&] { most.variant().problem(); }), HasSubstr("what float alpha is, so"));
    const Template texture =
        make("//@ size n = 4\n//@ output c [n]\n", "int n, const cudaTextureObject_t image, float* c");
    EXPECT_EQ(variant_error([&] { texture.variant().problem(); }),
              "k: its argument image is a texture or surface object, which only an application makes, so "
              "that no launch "
              "can be prepared");
    EXPECT_TRUE(make("", "", "//@ block 1\n//@ grid 1\n").is_runnable());
    EXPECT_TRUE(make("", "", "//@ block 1\n//@ grid 1\n").variant().problem().tensors.empty());
}

TEST(Problem, References) {
    const char* shape = "//@ block 32\n//@ grid count\n";
    const std::string first =
        "long long count, const long long* __restrict__ which, double* expected, double* bound";
    EXPECT_TRUE(make("", first + ", int k, const float* a", shape).is_reference());
    EXPECT_TRUE(make("", first, shape).is_reference());
    EXPECT_FALSE(make("", "long long count, const long long* which, double* expected", shape).is_reference());
    EXPECT_FALSE(
        make("", "int count, const long long* which, double* expected, double* bound", shape).is_reference());
    EXPECT_FALSE(make("", "long long count, const long long* which, double* expected, double* error", shape)
                     .is_reference());
}

TEST(Problem, OfNothingHasNoElements) {
    const Variant variant =
        make("//@ size m = 10\n//@ size n = 5\n//@ output c [m, n]\n//@ flops m * n\n").variant();
    const Problem problem = variant.problem({{"n", 0}});
    EXPECT_EQ(problem.sizes.at("n"), 0);
    EXPECT_EQ(problem.tensors.front().count(), 0);
    EXPECT_EQ(problem.flops, 0);
    EXPECT_EQ(problem.bytes, 0);
}

TEST(Problem, BadSizes) {
    const Template parsed = make("//@ size m = 10\n//@ size n = m / 20 test 5\n//@ output c [m]\n",
                                 "int m, unsigned char n, float* c");
    const Variant variant = parsed.variant();
    EXPECT_EQ(variant_error([&] { variant.problem({{"l", 1}}); }), "k: there is no size l; there are m, n");
    EXPECT_THAT(
        variant_error([&] {
            Template::parse(gather_text(), "g.cu").variant().problem({{"row", 1}});
        }),
        HasSubstr("gather: there is no size row; there are rows, columns, table; did you mean rows?"));
    EXPECT_EQ(variant_error([&] { variant.problem({{"m", -4}}); }), "k: the size m = -4 can't be negative");
    EXPECT_EQ(variant_error([&] {
                  variant.problem({{"m", 2147483648}});
              }),
              "k: the size m = 2147483648 does not fit its argument, int, which holds at most 2147483647");
    EXPECT_EQ(variant.problem().sizes.at("n"), 0) << "m / 20";
    EXPECT_EQ(variant_error([&] {
                  variant.problem({{"m", 20000}});
              }),
              "k: the size n = 1000 does not fit its argument, unsigned char, which holds at most 255; it is "
              "m / 20, where m = 20000");
    EXPECT_EQ(variant.problem({{"m", 20000}}, true).sizes.at("n"), 5);
    EXPECT_EQ(variant.problem({{"m", 2147483647}, {"n", 255}}).tensors[0].count(), 2147483647);
    EXPECT_THAT(
        variant_error([&] {
            make("//@ output c [1]\n", "float* c", "//@ block 1\n//@ grid 1\n").variant().problem({{"n", 1}});
        }),
        HasSubstr("there is no size n; it has none at all"));
}

TEST(Problem, MultiplesOfSizes) {
    const Template parsed = make(
        "//@ param V int in 3, 8 = 8\n//@ size m = 5\n"
        "//@ size n = 24 test 2 * V multiple V * (m - 4) \"columns\"\n//@ output c [n]\n",
        "int m, unsigned char n, float* c");
    EXPECT_EQ(parsed.sizes()[1].multiple_text, "V * (m - 4)");
    EXPECT_EQ(parsed.sizes()[1].text, "columns");
    EXPECT_EQ(parsed.sizes()[0].multiple_text, "");
    const Variant variant = parsed.variant();
    const auto error = [&](const Sizes& sizes) { return variant_error([&] { variant.problem(sizes); }); };
    EXPECT_EQ(variant.problem().sizes.at("n"), 24);
    EXPECT_EQ(variant.problem({}, true).sizes.at("n"), 16);
    EXPECT_EQ(variant.problem({{"n", 248}}).sizes.at("n"), 248);
    EXPECT_EQ(parsed.variant({{"V", 3}}).problem({{"n", 255}}).sizes.at("n"), 255);
    EXPECT_EQ(error({{"n", 9}}), "k: the size n = 9 must be a multiple of 8; the nearest is 8 or 16");
    EXPECT_EQ(error({{"n", 7}}), "k: the size n = 7 must be a multiple of 8; the nearest is 8");
    EXPECT_EQ(error({{"n", 250}}), "k: the size n = 250 must be a multiple of 8; the nearest is 248");
    EXPECT_EQ(error({{"m", 7}, {"n", 25}}),
              "k: the size n = 25 must be a multiple of 24; the nearest is 24 or 48");
    EXPECT_EQ(error({{"m", 4}}),
              "k: the size n = 24 must be a multiple of V * (m - 4), but that is 0; it is V * (m - 4), where "
              "V = 8, "
              "m = 4");
    EXPECT_EQ(error({{"m", 2147483647}, {"n", 25}}), "k: the size n = 25 must be a multiple of 17179869144");
}

TEST(Problem, LimitsOfSizes) {
    const Template parsed = make(
        "//@ param V int in 3, 8 = 8\n//@ size m = 5\n"
        "//@ size n = 24 test 16 multiple V at_most V * m \"columns\"\n//@ output c [n]\n",
        "int m, unsigned char n, float* c");
    EXPECT_EQ(parsed.sizes()[1].most_text, "V * m");
    EXPECT_EQ(parsed.sizes()[0].most_text, "");
    EXPECT_EQ(parsed.sizes()[1].text, "columns");
    const Variant variant = parsed.variant();
    EXPECT_EQ(variant.problem({{"n", 40}}).sizes.at("n"), 40);
    const auto error = [&](const Sizes& sizes) { return variant_error([&] { variant.problem(sizes); }); };
    EXPECT_EQ(error({{"n", 48}}), "k: the size n = 48 must be at most 40; it is V * m, where V = 8, m = 5");
    EXPECT_EQ(error({{"m", 2}}), "k: the size n = 24 must be at most 16; it is V * m, where V = 8, m = 2");
}

TEST(Problem, WhatCannotBeComputed) {
    const auto error = [](const std::string& lines, const Sizes& sizes = {}) {
        const Template parsed = make("//@ size m = 10\n//@ size n = 1\n" + lines, "long m, long n, float* c");
        return variant_error([&] { parsed.variant().problem(sizes); });
    };
    EXPECT_EQ(error("//@ output c [n - m]\n"),
              "k: an extent of c can't be negative, and is -9; it is n - m, where n = 1, m = 10");
    EXPECT_EQ(
        error("//@ output c [m / (n - 1)]\n"),
        "k: an extent of c, m / (n - 1), can't be computed, since m / (n - 1) divides by zero; here m = "
        "10, n = 1");
    const Sizes large{{"m", 4'000'000'000}, {"n", 4'000'000'000}};
    EXPECT_EQ(error("//@ output c [m, n]\n", large),
              "k: c has more elements than 64 bits count; here m = 4000000000, n = 4000000000");
    EXPECT_EQ(error("//@ output c [m, n]\n", {{"m", 4'000'000'000}, {"n", 2'000'000'000}}),
              "k: c has a size that does not fit 64 bits; here m = 4000000000, n = 2000000000");
    EXPECT_EQ(
        error("//@ output c [m]\n//@ flops m * n\n", large),
        "k: the number of operations, m * n, can't be computed, since m * n overflows 64 bits; here m = "
        "4000000000, n = 4000000000");
    EXPECT_THAT(
        error("//@ output c [m]\n//@ bytes n - m\n"),
        HasSubstr("the number of bytes can't be negative, and is -9; it is n - m, where n = 1, m = 10"));
    EXPECT_THAT(error("//@ inout c [m] in m..n\n"),
                HasSubstr("the values of c are in 10 to 1, which is empty"));
    EXPECT_THAT(error("//@ inout c [m] in 0..16777217\n"),
                HasSubstr("the values of c are 0 to 16777217, but float holds integers without rounding from "
                          "-16777216 to 16777216 only"));
    EXPECT_EQ(make("//@ size m = 1\n//@ size n = 1\n//@ inout c [m - 1, n] in 0..m - 2\n")
                  .variant()
                  .problem()
                  .tensors[0]
                  .count(),
              0);
    const Template bytes =
        make("//@ size m = 1\n//@ size n = 1\n//@ inout c [m] permutation\n", "int m, int n, signed char* c");
    EXPECT_EQ(bytes.variant().problem({{"m", 128}}).tensors[0].high, 127);
    EXPECT_THAT(variant_error([&] {
                    bytes.variant().problem({{"m", 129}});
                }),
                HasSubstr("the values of c are 0 to 128, but signed char holds"));
    const Template two = make("//@ size m = 1\n//@ size n = 1\n//@ output c [m]\n//@ output d [m]\n",
                              "long m, int n, char* c, char* d");
    EXPECT_THAT(variant_error([&] {
                    two.variant().problem({{"m", 5'000'000'000'000'000'000}});
                }),
                HasSubstr("the tensors have more bytes than 64 bits count"));
    EXPECT_THAT(
        variant_error([&] {
            const Template parsed = make("//@ size n = 1\n//@ output c [n]\n//@ size m = n / (n - 1)\n");
            parsed.variant().problem();
        }),
        HasSubstr("k: the default of m, n / (n - 1), can't be computed, since n / (n - 1) divides by zero"));
}

ExtentRule product(std::int64_t factor, std::vector<std::string> sizes) {
    return {true, factor, std::move(sizes)};
}

TEST(Extents, RulesAreProductsOfSizesOrNone) {
    const Template of = make(
        "//@ param S int in 1, 4 = 4\n//@ param SWAP bool = false\n//@ let WIDE = S * 2\n//@ size m = 3\n"
        "//@ size n = 5\n"
        "//@ output c [m, SWAP ? m : n, 7, 2 * m * (n * WIDE), max(m, n), m + 1, ceil_div(n, S), m - m * n, "
        "m * m]\n");
    const std::vector<TensorExtentRules> rules = tensor_extent_rules(of.variant());
    ASSERT_EQ(rules.size(), 1u);
    EXPECT_EQ(rules[0].name, "c");
    const ExtentRule none;
    EXPECT_THAT(rules[0].extents,
                ElementsAre(product(1, {"m"}), product(1, {"n"}), product(7, {}), product(16, {"m", "n"}),
                            none, none, none, none, product(1, {"m", "m"})));
    EXPECT_EQ(tensor_extent_rules(of.variant({{"SWAP", true}}))[0].extents[1], product(1, {"m"}));
}

TEST(Extents, AreThoseOfTheProblemAlsoWhereItIsNotDeclaredWhole) {
    const Template gather = Template::parse(gather_text(), "gather.cu");
    const Problem problem = gather.variant().problem({{"rows", 9}, {"columns", 13}});
    const std::vector<TensorExtents> extents =
        tensor_extents(gather.variant(), {{"rows", 9}, {"columns", 13}});
    ASSERT_EQ(extents.size(), problem.tensors.size());
    for (std::size_t i = 0; i < extents.size(); ++i) {
        EXPECT_EQ(extents[i].name, problem.tensors[i].name);
        EXPECT_EQ(extents[i].extents, problem.tensors[i].extents);
    }
    const Variant partly = make("//@ size n = 5 multiple 2\n//@ output c [ceil_div(n, 4)]\n",
                                "int n, float alpha, float* c, float* d")
                               .variant();
    EXPECT_FALSE(partly.origin().is_runnable());
    const std::vector<TensorExtents> declared = tensor_extents(partly, {{"n", 10}});
    ASSERT_EQ(declared.size(), 1u);
    EXPECT_THAT(declared[0].extents, ElementsAre(3));
    EXPECT_THAT(variant_error([&] { tensor_extents(partly, {{"n", 9}}); }), HasSubstr("a multiple of 2"));
    EXPECT_THAT(variant_error([&] { tensor_extents(partly, {{"k", 9}}); }), HasSubstr("there is no size k"));
}

TEST(Problem, TensorCounts) {
    Tensor tensor;
    tensor.name = "x";
    tensor.element_bytes = 8;
    EXPECT_EQ(tensor.count(), 1);
    tensor.extents = {std::int64_t{1} << 40, std::int64_t{1} << 40, 0};
    EXPECT_EQ(tensor.count(), 0);
    EXPECT_EQ(tensor.size_bytes(), 0u);
    tensor.extents = {std::int64_t{1} << 60};
    EXPECT_EQ(variant_error([&] { tensor.size_bytes(); }), "x has a size that does not fit 64 bits");
    tensor.extents = {std::int64_t{1} << 60, 8};
    EXPECT_EQ(variant_error([&] { tensor.count(); }), "x has more elements than 64 bits count");
    tensor.extents = {3, -1};
    EXPECT_EQ(variant_error([&] { tensor.count(); }), "an extent of x can't be negative, and is -1");
}

constexpr const char* kMapped = R"(//@ kernel mapped
//@ param  T  type in half, float = half
//@ param  BM int in 16, 64, 512 = 64
//@ param  SWIZZLE int in 0, 32, 48, 64, 128 = 128
//@ param  BK int in 4, 32, 64 = 64
//@ tensormap c_map = c [m, m + 1, 3] box [1, BM, 4]
//@ tensormap a_map = a [m, k] box [BM, BK] swizzle SWIZZLE
//@ size   m = 100
//@ size   k = 200
//@ input  a [m, k]
//@ output c [m, m]
//@ block  128
//@ grid   m
extern "C" __global__ void mapped(int m, int k, const T* a, float* c,
                                  const __grid_constant__ kiln::TensorMap a_map, TensorMap c_map) {}
)";

TEST(TensorMaps, AreMadeAtLaunch) {
    const Template mapped = Template::parse(kMapped, "mapped.cu");
    EXPECT_TRUE(mapped.is_runnable());
    ASSERT_EQ(mapped.tensor_maps().size(), 2u);
    EXPECT_EQ(mapped.tensor_maps()[0].name, "a_map");
    EXPECT_EQ(mapped.tensor_maps()[0].tensor, "a");
    EXPECT_EQ(mapped.tensor_maps()[0].line, 7);
    const Variant variant = mapped.variant({{"T", "float"}, {"BK", 32}});
    ASSERT_EQ(variant.arguments().size(), 4u) << "callers don't pass the maps";
    EXPECT_EQ(tensor_map_count(variant), 2u);

    int m = 10, k = 20;
    const void* address = nullptr;
    void* arguments[] = {&m, &k, &address, &address};
    const std::vector<TensorMapSpec> specs = tensor_map_specs(variant, arguments);
    ASSERT_EQ(specs.size(), 2u);
    EXPECT_EQ(specs[0].name, "a_map");
    EXPECT_EQ(specs[0].tensor, "a");
    EXPECT_EQ(specs[0].pointer_argument, 2u);
    EXPECT_EQ(specs[0].type, "float");
    EXPECT_EQ(specs[0].element_bytes, 4u);
    EXPECT_EQ(specs[0].rank, 2);
    EXPECT_THAT(specs[0].extents, ElementsAre(10, 20, 1, 1, 1));
    EXPECT_THAT(specs[0].box, ElementsAre(64, 32, 1, 1, 1));
    EXPECT_EQ(specs[0].swizzle_bytes, 128);
    EXPECT_EQ(specs[1].name, "c_map");
    EXPECT_EQ(specs[1].pointer_argument, 3u);
    EXPECT_EQ(specs[1].rank, 3);
    EXPECT_THAT(specs[1].extents, ElementsAre(10, 11, 3, 1, 1));
    EXPECT_EQ(specs[1].swizzle_bytes, 0);

    m = 0;
    EXPECT_EQ(tensor_map_specs(variant, arguments)[0].extents[0], 0u);
    m = -1;
    EXPECT_EQ(variant_error([&] { tensor_map_specs(variant, arguments); }),
              "mapped: the extent m of the tensor map a_map of a is -1, but can't be negative; here m = -1");
    m = 2147483647;
    EXPECT_EQ(tensor_map_specs(variant, arguments)[1].extents[1], 2147483648u);
    EXPECT_EQ(tensor_map_count(make("").variant()), 0u);
    EXPECT_TRUE(tensor_map_specs(make("").variant(), nullptr).empty());
}

TEST(TensorMaps, RulesOfTheDriver) {
    const Template mapped = Template::parse(kMapped, "mapped.cu");
    const auto error = [&](const Values& values) { return variant_error([&] { mapped.variant(values); }); };
    EXPECT_THAT(error({{"BM", 512}}),
                AllOf(HasSubstr("a box has 1 to 256 elements in each direction"),
                      HasSubstr("BM >= 1 && BM <= 256 (mapped.cu:6:"), HasSubstr("BM = 16, 64 would do")));
    EXPECT_THAT(error({{"BK", 4}}), AllOf(HasSubstr("the innermost side of a box is a multiple of 16 bytes"),
                                          HasSubstr("BK * sizeof(T) % 16 == 0 (mapped.cu:7:")));
    EXPECT_THAT(error({{"T", "float"}}),
                AllOf(HasSubstr("the innermost side of a box is no longer than its swizzle"),
                      HasSubstr("BK * sizeof(T) <= SWIZZLE")));
    EXPECT_THAT(error({{"SWIZZLE", 48}, {"BK", 4}, {"T", "float"}}),
                HasSubstr("a swizzle is one of 0, 32, 64 or 128 bytes"));
    EXPECT_EQ(tensor_map_count(mapped.variant({{"SWIZZLE", 0}, {"T", "float"}})), 2u);
}

}  // namespace
}  // namespace kiln
