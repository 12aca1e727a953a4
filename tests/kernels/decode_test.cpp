// SPDX-License-Identifier: Apache-2.0
//
// decode_mma with sequences of all lengths at once, none among them: heads that begin and end anywhere in a warp's part,
// lie in one warp's part, in one block's, or in those of many blocks; with several new tokens, of which short sequences have
// fewer.
#include <gmock/gmock.h>

#include <tuple>

#include "library.h"
#include "omitting_launch.h"

namespace kiln {
namespace {

struct Lengths {
    const char* name;
    Values values;
    Sizes sizes;
    int least = 0;  // tokens of a sequence
};

void PrintTo(const Lengths& item, std::ostream* out) { *out << item.name; }

class DecodeLengths : public testing::TestWithParam<Lengths> {};

TEST_P(DecodeLengths, MayBeAnyAndZero) {
    const Lengths& item = GetParam();
    test::HostLibrary library;
    Service& service = library.service();
    const Variant variant = service.find("decode_mma").variant(item.values);
    test::OmittingLaunch launch(service, service, variant, item.sizes, true, 1, [&item](Problem& problem) {
        for (Tensor& tensor : problem.tensors)
            if (tensor.name == "lengths") tensor.low = item.least;
    });
    EXPECT_EQ(launch.wrong({}), 0u);
}

const Values kFewWarps = {{"WARPS", 2}, {"BLOCKS_PER_SM", 4}, {"GQA_GROUP", 8}};
const Values kManyWarps = {{"WARPS", 8}, {"BLOCKS_PER_SM", 1}, {"HEAD_DIM", 64}, {"T", "bfloat16"}};
Values with(Values values, int new_tokens, int group) {
    values.insert_or_assign("NEW_TOKENS", new_tokens);
    values.insert_or_assign("GQA_GROUP", group);
    return values;
}

TEST(DecodeNewTokens, AreAsManyAsFitInRegisters) {
    test::HostLibrary library;
    const Template of = library.service().find("decode_mma");
    for (const auto& [head, group, most] : {std::tuple{128, 8, 3}, {128, 2, 12}, {64, 8, 6}, {64, 1, 16}}) {
        Values values = {{"HEAD_DIM", head}, {"GQA_GROUP", group}, {"NEW_TOKENS", most}};
        EXPECT_NO_THROW(static_cast<void>(of.variant(values)));
        if (most == 16) continue;
        values.insert_or_assign("NEW_TOKENS", most + 1);
        try {
            static_cast<void>(of.variant(values));
            ADD_FAILURE() << "head " << head << ", " << most + 1 << " new tokens";
        } catch (const VariantError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("at most 24 queries of 128 elements or 48 of 64"));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    OnHost, DecodeLengths,
    testing::Values(
        Lengths{"NoTokens", {}, {{"batch", 1}, {"kv_heads", 1}, {"max_length", 1}}},
        Lengths{"FewTokens", {}, {{"batch", 150}, {"kv_heads", 3}, {"max_length", 3}}},
        Lengths{"MoreSequencesThanThreads", kFewWarps, {{"batch", 333}, {"kv_heads", 1}, {"max_length", 2}}},
        Lengths{"AFewTiles", kManyWarps, {{"batch", 40}, {"kv_heads", 3}, {"max_length", 70}}},
        Lengths{"ManyTiles", kFewWarps, {{"batch", 5}, {"kv_heads", 2}, {"max_length", 999}}},
        Lengths{"OneHead", kFewWarps, {{"batch", 1}, {"kv_heads", 1}, {"max_length", 3000}}},
        Lengths{"OneHeadOfManyWarps", kManyWarps, {{"batch", 1}, {"kv_heads", 1}, {"max_length", 2999}}},
        Lengths{"TwoNewTokens", with({}, 2, 4), {{"batch", 40}, {"kv_heads", 3}, {"max_length", 70}}},
        Lengths{
            "ThreeNewTokens", with(kFewWarps, 3, 4), {{"batch", 1}, {"kv_heads", 1}, {"max_length", 3000}}},
        Lengths{
            "NewTokensAlone", with(kManyWarps, 16, 1), {{"batch", 50}, {"kv_heads", 2}, {"max_length", 20}}},
        Lengths{"SixteenRows", with({}, 4, 4), {{"batch", 5}, {"kv_heads", 2}, {"max_length", 999}}},
        Lengths{"RowsInTwoTiles", with({}, 9, 2), {{"batch", 9}, {"kv_heads", 2}, {"max_length", 333}}},
        Lengths{"RowsOfTwoTiles", with({}, 3, 8), {{"batch", 3}, {"kv_heads", 2}, {"max_length", 777}}},
        Lengths{"RowsOfThreeTiles",
                with({{"HEAD_DIM", 64}, {"PAGE_SIZE", 128}, {"T", "bfloat16"}}, 6, 8),
                {{"batch", 7}, {"kv_heads", 1}, {"max_length", 501}}},
        // All have as many tiles, which the kernel takes for granted until it has read the lengths.
        Lengths{"EqualLengths", kFewWarps, {{"batch", 5}, {"kv_heads", 2}, {"max_length", 999}}, 999},
        Lengths{
            "EqualTiles", with(kManyWarps, 3, 2), {{"batch", 3}, {"kv_heads", 3}, {"max_length", 999}}, 993}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace kiln
