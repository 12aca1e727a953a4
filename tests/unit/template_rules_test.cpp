// SPDX-License-Identifier: Apache-2.0
//
// Values and rules: what is rejected, in which words, and what is proposed instead.
#include "template_support.h"

namespace kiln {
namespace {

using test::cuda_target;
using test::make;
using test::variant_error;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTile = R"(//@ param BM int in 16, 32, 64, 128 = 64
//@ param TM int in 1, 2, 3, 4 = 4
//@ param PAD int in 0, 1, 2, 4, 8 = 2
//@ param VEC int in 1, 2, 4 = 2
//@ param FAST bool = false
//@ param T type in half, float = half
//@ require BM % TM == 0 "BM must be a multiple of TM"
//@ require (BM + PAD) % VEC == 0 && PAD <= 8 "the pitch must be a multiple of VEC"
)";

TEST(ParameterParse, WhatPeopleType) {
    const Template tile = make(kTile);
    const Parameter& bm = *tile.parameter("BM");
    EXPECT_EQ(bm.parse("128"), Value(128));
    EXPECT_EQ(variant_error([&] { bm.parse("48"); }),
              "BM = 48 is not one of 16, 32, 64, 128; the nearest is 32 or 64");
    EXPECT_EQ(variant_error([&] { bm.parse("0"); }),
              "BM = 0 is not one of 16, 32, 64, 128; the nearest is 16");
    EXPECT_EQ(variant_error([&] { bm.parse("-1"); }),
              "BM = -1 is not one of 16, 32, 64, 128; the nearest is 16");
    EXPECT_THAT(variant_error([&] { bm.parse("sixty"); }), HasSubstr("BM = sixty is not an integer"));
    EXPECT_THAT(variant_error([&] { bm.parse("sixty"); }),
                HasSubstr("one of 16, 32, 64, 128 (64 by default)"));
    EXPECT_THAT(variant_error([&] { bm.parse("1e9"); }),
                AllOf(HasSubstr("BM = 1e9"), HasSubstr("nearest is 128")));
    EXPECT_THAT(variant_error([&] { bm.parse(""); }), HasSubstr("is not an integer"));
    EXPECT_THAT(variant_error([&] { bm.parse("64 "); }), HasSubstr("is not an integer"));
    EXPECT_THAT(variant_error([&] { bm.parse("nan"); }), HasSubstr("is not an integer"));
    EXPECT_THAT(variant_error([&] { bm.parse("99999999999999999999"); }),
                AllOf(HasSubstr("does not fit 64 bits"), HasSubstr("128 is nearest")));
    EXPECT_THAT(variant_error([&] { bm.parse("-99999999999999999999"); }), HasSubstr("16 is nearest"));

    const Parameter& fast = *tile.parameter("FAST");
    EXPECT_EQ(fast.parse("true"), Value(true));
    EXPECT_EQ(fast.parse("0"), Value(false));
    EXPECT_THAT(variant_error([&] { fast.parse("maybe"); }),
                HasSubstr("FAST = maybe is neither true nor false"));

    const Parameter& type = *tile.parameter("T");
    for (const char* alias : {"half", "f16", "fp16", "FP16", "float16"})
        EXPECT_EQ(type.parse(alias), Value("half"));
    for (const char* alias : {"float", "f32", "fp32"}) EXPECT_EQ(type.parse(alias), Value("float"));
    EXPECT_THAT(variant_error([&] { type.parse("bf16"); }), HasSubstr("T = bf16 is not one of half, float"));
    EXPECT_THAT(variant_error([&] { type.parse("flaot"); }), HasSubstr("no known type"));

    const Template range = make("//@ param W int in 2..9 = 3\n");
    EXPECT_EQ(range.parameter("W")->parse("9"), Value(9));
    EXPECT_EQ(variant_error([&] { range.parameter("W")->parse("10"); }),
              "W = 10 is not in 2..9; the nearest is 9");
    EXPECT_EQ(variant_error([&] { range.parameter("W")->parse("-5"); }),
              "W = -5 is not in 2..9; the nearest is 2");
}

TEST(ParameterParse, TypesAreCalledAsTheListCallsThem) {
    const Template of = make(
        "//@ param T type in char, int16_t, uint16_t, int, unsigned, int64_t, uint64_t = int\n"
        "//@ param S type in int32_t, int = int32_t\n"
        "//@ param OUT type in int32_t, float = T\n");
    const Parameter& type = *of.parameter("T");
    for (const char* name : {"int", "int32", "i32", "int32_t"}) EXPECT_EQ(type.parse(name), Value("int"));
    for (const char* name : {"uint32", "u32", "uint32_t"}) EXPECT_EQ(type.parse(name), Value("unsigned"));
    EXPECT_EQ(type.parse("int8"), Value("char"));
    for (const char* name : {"int16", "short"}) EXPECT_EQ(type.parse(name), Value("int16_t"));
    EXPECT_EQ(type.parse("uint16"), Value("uint16_t"));
    EXPECT_EQ(type.parse("int64"), Value("int64_t"));
    EXPECT_EQ(type.parse("uint64"), Value("uint64_t"));
    EXPECT_THAT(variant_error([&] { type.parse("uint8"); }),
                HasSubstr("T = uint8 is not one of char, int16_t"));

    EXPECT_EQ(of.variant({{"T", "int32_t"}}), of.variant({{"T", "int"}}));
    EXPECT_EQ(of.variant().value("OUT"), Value("int32_t")) << "T is int";
    const Parameter& both = *of.parameter("S");
    EXPECT_EQ(both.parse("int"), Value("int"));
    EXPECT_EQ(both.parse("int32"), Value("int32_t"));
}

TEST(Rules, ValuesGivenInCode) {
    const Template tile = make(kTile);
    EXPECT_EQ(tile.variant({{"T", "f32"}}).value("T"), Value("float"));
    EXPECT_EQ(tile.variant({{"BM", 128}}).value("BM").as_int(), 128);
    EXPECT_THAT(
        variant_error([&] {
            tile.variant({{"BN", 128}});
        }),
        AllOf(HasSubstr("k has no parameter BN"), HasSubstr("did you mean BM?"), HasSubstr("BM, TM, PAD")));
    EXPECT_THAT(variant_error([&] { tile.variant({{"BM", 48}}); }), HasSubstr("k: BM = 48 is not one of"));
    // From JSON or another program a number may come as text.
    EXPECT_EQ(tile.variant({{"BM", "64"}}), tile.variant({{"BM", 64}}));
    EXPECT_THAT(variant_error([&] { tile.variant({{"BM", "64x"}}); }), HasSubstr("is not an integer"));
    EXPECT_THAT(variant_error([&] { tile.variant({{"BM", "65"}}); }), HasSubstr("nearest"));
    EXPECT_THAT(variant_error([&] { tile.variant({{"FAST", 1}}); }), HasSubstr("is not true or false"));
    EXPECT_THROW(tile.variant().value("NO"), UsageError);
}

TEST(Rules, AViolationNamesEverything) {
    const Template tile = make(kTile);
    EXPECT_EQ(variant_error([&] {
                  tile.variant({{"TM", 3}});
              }),
              "k: BM must be a multiple of TM. The rule BM % TM == 0 (dir/k.cu:8:13) does not hold: BM = 64, "
              "TM = 3, "
              "BM % TM = 1. TM = 1, 2, 4 would do.");
    EXPECT_EQ(
        variant_error([&] {
            tile.variant({{"PAD", 1}});
        }),
        "k: the pitch must be a multiple of VEC. The rule (BM + PAD) % VEC == 0 && PAD <= 8 (dir/k.cu:9:13) "
        "does "
        "not hold: BM = 64, PAD = 1, VEC = 2, (BM + PAD) % VEC = 1. PAD = 0, 2, 4, 8, or VEC = 1 would do.");
    try {
        tile.variant({{"TM", 3}});
    } catch (const VariantError& error) {
        EXPECT_EQ(error.rule(), "BM % TM == 0");
    }
}

TEST(Rules, SuggestionsMeetAllRules) {
    // A = 3 would satisfy the first rule but not the second.
    const Template parsed = make(
        "//@ param A int in 1, 2, 3, 4 = 1\n//@ param B int in 1, 2 = 1\n"
        "//@ require A >= 2\n//@ require A != 3\n//@ require A * B <= 4\n");
    EXPECT_THAT(variant_error([&] {
                    parsed.variant({{"A", 1}, {"B", 2}});
                }),
                HasSubstr(": A = 1. A = 2 would do."));
    EXPECT_THAT(variant_error([&] { parsed.variant({{"A", 1}}); }), HasSubstr(" A = 2, 4 would do."));
}

TEST(Rules, NearestLegalChoiceWhenOneChangeIsNotEnough) {
    const Template parsed = make(
        "//@ param A int in 1, 2, 3, 4 = 1\n//@ param B int in 1, 2, 3, 4 = 1\n//@ param C bool = true\n"
        "//@ require A * B == 6 \"six\"\n//@ require C || A == 4\n");
    EXPECT_THAT(variant_error([&] { parsed.variant(); }),
                HasSubstr("The nearest legal choice is A = 2, B = 3."));
    const Template hopeless = make("//@ param A int in 1, 2 = 1\n//@ require A > 2\n");
    EXPECT_THAT(variant_error([&] { hopeless.variant(); }), testing::EndsWith("does not hold: A = 1."));
}

TEST(Rules, SuggestionsOfRangesAreBounded) {
    const Template parsed = make("//@ param A int in 0..4000000000000000000 = 5\n//@ require A % 7 == 0\n");
    const std::string message = variant_error([&] { parsed.variant({{"A", 1000000}}); });
    EXPECT_THAT(
        message,
        HasSubstr(
            "A = 999978, 999985, 999992, 999999, 1000006, 1000013, 1000020, 1000027 (the nearest of them)"));
    EXPECT_THAT(variant_error([&] { parsed.variant(); }), HasSubstr("A = 0, 7, 14"));
}

TEST(Rules, FailuresOfArithmetic) {
    const Template parsed = make("//@ param A int in 0, 1 = 0\n//@ require 8 / A > 2 \"x\"\n");
    EXPECT_THAT(variant_error([&] { parsed.variant(); }),
                AllOf(HasSubstr("can't be computed, since 8 / A divides by zero: A = 0"),
                      HasSubstr("A = 1 would do")));
    const Template big = make("//@ param A int in 1, 9223372036854775807 = 1\n//@ require A * 2 > 0\n");
    EXPECT_THAT(variant_error([&] {
                    big.variant({{"A", Value(9223372036854775807LL)}});
                }),
                HasSubstr("A * 2 overflows 64 bits"));
    EXPECT_EQ(big.variants().size(), 1u);
}

TEST(Rules, TypesInMessages) {
    const Template parsed =
        make("//@ param T type in half, bfloat16, float = float\n//@ require T != float\n");
    EXPECT_THAT(variant_error([&] { parsed.variant(); }),
                HasSubstr("does not hold: T = float. T = half, bfloat16 would do."));
}

TEST(Rules, DeviceRulesNeedATarget) {
    const Template parsed = make(
        "//@ param B int in 1, 2, 4 = 4\n//@ require B * device.warp_size <= 64 \"too wide\"\n//@ require B "
        "!= 2\n");
    EXPECT_NO_THROW(parsed.variant());
    EXPECT_EQ(parsed.variants().size(), 2u);
    const Template bound = parsed.for_target(cuda_target());
    EXPECT_EQ(bound.target()->arch, "sm_80");
    EXPECT_EQ(bound.variants().size(), 1u);
    EXPECT_THAT(variant_error([&] { bound.variant(); }),
                AllOf(HasSubstr("B = 4, device.warp_size = 32, B * device.warp_size = 128"),
                      HasSubstr("B = 1 would do")));
}

TEST(ImplicitRules, ThreadsOfABlock) {
    const Template parsed = make("//@ param X int in 0, 32, 64 = 64\n//@ param Y int in 8, 16, 32 = 32\n",
                                 "int n", "//@ block X, Y\n//@ grid n\n");
    EXPECT_NO_THROW(parsed.variant());
    EXPECT_THAT(variant_error([&] {
                    parsed.variant({{"X", 0}});
                }),
                AllOf(HasSubstr("at least one thread"), HasSubstr("X >= 1 (dir/k.cu:4:11)"),
                      HasSubstr("X = 32, 64 would do")));
    EXPECT_THAT(
        variant_error([&] { parsed.for_target(cuda_target()).variant(); }),
        AllOf(HasSubstr("threads <= device.threads_per_block"), HasSubstr("threads = 2048"),
              HasSubstr("device.threads_per_block = 1024"), HasSubstr("X = 32, or Y = 8, 16 would do.")));
    const Template huge =
        make("//@ param X int in 1, 5000000000 = 5000000000\n", "int n", "//@ block X\n//@ grid n\n");
    EXPECT_THAT(variant_error([&] { huge.variant(); }), HasSubstr("must fit 32 bits"));
}

TEST(ImplicitRules, BlocksHave64ThreadsInZ) {
    const std::string lines = "//@ param Z int in 64, 128 = 128\n";
    const Template parsed = make(lines, "int n", "//@ block 1, 2, Z\n//@ grid n\n");
    EXPECT_NO_THROW(parsed.variant({{"Z", 64}}));
    EXPECT_THAT(
        variant_error([&] { parsed.variant(); }),
        AllOf(HasSubstr("at most 64 threads in z"), HasSubstr("Z = 128"), HasSubstr("Z = 64 would do")));
    EXPECT_NO_THROW(make(lines + "//@ backend hip\n", "int n", "//@ block 1, 2, Z\n//@ grid n\n").variant());
}

TEST(ImplicitRules, SharedMemory) {
    const Template parsed = make(
        "//@ param BM int in 16, 32, 64, 128 = 128\n//@ param STAGES int in 1..4 = 4\n"
        "//@ shared BM * 256 * STAGES\n//@ shared static BM * 16\n");
    EXPECT_NO_THROW(parsed.variant());
    const Template bound = parsed.for_target(cuda_target());
    EXPECT_EQ(bound.variant({{"BM", 64}}).dynamic_shared_bytes(), 65536u);
    Target small = cuda_target();
    small.limits.shared_bytes_per_block_optin = 100000;
    EXPECT_THAT(
        variant_error([&] { parsed.for_target(small).variant(); }),
        AllOf(HasSubstr("shared_bytes = 133120"), HasSubstr("device.shared_bytes_per_block_optin = 100000"),
              HasSubstr("BM = 16, 32, 64, or STAGES = 1, 2 would do.")));
    small.limits.shared_bytes_per_block = 1024;
    EXPECT_THAT(variant_error([&] {
                    parsed.for_target(small).variant({{"STAGES", 1}});
                }),
                AllOf(HasSubstr("declared static"), HasSubstr("BM * 16 <= device.shared_bytes_per_block"),
                      HasSubstr("BM * 16 = 2048"), HasSubstr("BM = 16, 32, 64 would do.")));
    const Template negative = make("//@ param A int in 1, -1 = -1\n//@ shared A\n");
    EXPECT_THAT(variant_error([&] { negative.variant(); }), HasSubstr("can't be negative"));
}

TEST(ImplicitRules, BackendAndArchitecture) {
    const Template cuda_only = make("//@ backend cuda\n");
    EXPECT_NO_THROW(cuda_only.for_target(cuda_target()).variant());
    const Target host{Backend::host, "x86-64-v3", {}};
    EXPECT_THAT(variant_error([&] { cuda_only.for_target(host).variant(); }),
                AllOf(HasSubstr("written for cuda only"), HasSubstr("backend is host")));
    EXPECT_TRUE(cuda_only.for_target(host).variants().empty());
    const Template hopper = make("//@ arch sm_90a, sm_100a\n");
    EXPECT_NO_THROW(hopper.for_target(cuda_target("sm_90a")).variant());
    EXPECT_THAT(variant_error([&] { hopper.for_target(cuda_target("sm_90")).variant(); }),
                AllOf(HasSubstr("only sm_90a and sm_100a have"), HasSubstr("the target is sm_90"),
                      HasSubstr("choose sm_90a")));
    EXPECT_THAT(variant_error([&] { hopper.for_target(cuda_target("sm_80")).variant(); }),
                Not(HasSubstr("choose")));
}

}  // namespace
}  // namespace kiln
