// SPDX-License-Identifier: Apache-2.0
//
// decode_mma with sequences of all lengths at once, none among them: heads that begin and end anywhere in a warp's part,
// lie in one warp's part, in one block's, or in those of many blocks.
#include "library.h"
#include "omitting_launch.h"

namespace kiln {
namespace {

struct Item {
    const char* name;
    Values values;
    Sizes sizes;
};

void PrintTo(const Item& item, std::ostream* out) { *out << item.name; }

class DecodeLengths : public testing::TestWithParam<Item> {};

TEST_P(DecodeLengths, MayBeAnyAndZero) {
    const Item& item = GetParam();
    test::HostLibrary library;
    Service& service = library.service();
    const Variant variant = service.find("decode_mma").variant(item.values);
    test::OmittingLaunch launch(service, service, variant, item.sizes, true, 1, [](Problem& problem) {
        for (Tensor& tensor : problem.tensors)
            if (tensor.name == "lengths") tensor.low = 0;
    });
    EXPECT_EQ(launch.wrong({}), 0u);
}

const Values kFewWarps = {{"WARPS", 2}, {"BLOCKS_PER_SM", 4}, {"GQA_GROUP", 8}};
const Values kManyWarps = {{"WARPS", 8}, {"BLOCKS_PER_SM", 1}, {"HEAD_DIM", 64}, {"T", "bfloat16"}};
INSTANTIATE_TEST_SUITE_P(
    OnHost, DecodeLengths,
    testing::Values(
        Item{"NoTokens", {}, {{"batch", 1}, {"kv_heads", 1}, {"max_length", 1}}},
        Item{"FewTokens", {}, {{"batch", 150}, {"kv_heads", 3}, {"max_length", 3}}},
        Item{"MoreSequencesThanThreads", kFewWarps, {{"batch", 333}, {"kv_heads", 1}, {"max_length", 2}}},
        Item{"AFewTiles", kManyWarps, {{"batch", 40}, {"kv_heads", 3}, {"max_length", 70}}},
        Item{"ManyTiles", kFewWarps, {{"batch", 5}, {"kv_heads", 2}, {"max_length", 999}}},
        Item{"OneHead", kFewWarps, {{"batch", 1}, {"kv_heads", 1}, {"max_length", 3000}}},
        Item{"OneHeadOfManyWarps", kManyWarps, {{"batch", 1}, {"kv_heads", 1}, {"max_length", 2999}}}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace kiln
