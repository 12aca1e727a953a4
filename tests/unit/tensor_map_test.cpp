// SPDX-License-Identifier: Apache-2.0
//
// The rules for tensors and boxes that TMA moves, at their limits and beyond.
#include "device/tensor_map.h"

#include <gmock/gmock.h>
#include <kiln/error.h>

#include <functional>
#include <string>

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Halves, [5, 1000, 64], a box of [1, 64, 64].
TensorMapLayout sound() {
    TensorMapLayout layout;
    layout.name = "a_map of gemm";
    layout.tensor = "a";
    layout.type = "half";
    layout.base = reinterpret_cast<void*>(std::uintptr_t{0x7000});
    layout.element_bytes = 2;
    layout.rank = 3;
    layout.extents = {64, 1000, 5};
    layout.stride_bytes = {2, 128, 128000};
    layout.box = {64, 64, 1};
    layout.swizzle_bytes = 128;
    return layout;
}

std::string refused(const std::function<void(TensorMapLayout&)>& change) {
    TensorMapLayout layout = sound();
    change(layout);
    try {
        check_tensor_map(layout);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(TensorMap, TakesWhatTmaTakes) {
    EXPECT_EQ(refused([](TensorMapLayout&) {}), "accepted");
    EXPECT_EQ(refused([](TensorMapLayout& map) { map.rank = 1; }), "accepted");
    EXPECT_EQ(refused([](TensorMapLayout& map) { map.box = {64, 256, 256}; }), "accepted");
    EXPECT_EQ(refused([](TensorMapLayout& map) { map.extents[1] = std::uint64_t{1} << 32; }), "accepted");
    EXPECT_EQ(refused([](TensorMapLayout& map) { map.stride_bytes[2] = (std::uint64_t{1} << 40) - 16; }),
              "accepted");
    EXPECT_EQ(refused([](TensorMapLayout& map) {
                  map.box[0] = 256;
                  map.swizzle_bytes = 0;
              }),
              "accepted");
}

TEST(TensorMap, RejectsTheRestWithValueAndLimit) {
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.rank = 0; }), HasSubstr("0 extents"));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.rank = 6; }), HasSubstr("6 extents"));
    EXPECT_THAT(
        refused([](TensorMapLayout& map) { map.base = reinterpret_cast<void*>(std::uintptr_t{0x7008}); }),
        AllOf(HasSubstr("a_map of gemm"), HasSubstr("0x7008"), HasSubstr("multiple of 16 bytes")));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.extents[2] = 0; }), HasSubstr("extent 1 is 0"));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.extents[0] = (std::uint64_t{1} << 32) + 1; }),
                AllOf(HasSubstr("extent 3 is 4294967297"), HasSubstr("2^32")));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.box[1] = 257; }),
                AllOf(HasSubstr("257 of extent 2"), HasSubstr("1 to 256")));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.box[2] = 0; }), HasSubstr("0 of extent 1"));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.stride_bytes[2] = std::uint64_t{1} << 40; }),
                HasSubstr("fewer than 2^40"));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.stride_bytes[2] = 128008; }),
                AllOf(HasSubstr("extent 1 is 128008 bytes"), HasSubstr("multiple of 16")));
    EXPECT_THAT(refused([](TensorMapLayout& map) {
                    map.extents[0] = 1001;
                    map.stride_bytes[1] = 2002;
                }),
                AllOf(HasSubstr("a row has 1001 elements of half, 2002 bytes"),
                      HasSubstr("that extent must be a multiple of 8")));
    EXPECT_THAT(
        refused([](TensorMapLayout& map) { map.box[0] = 4; }),
        AllOf(HasSubstr("a row of its box is 8 bytes (4 elements of half)"), HasSubstr("multiple of 16")));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.box[0] = 128; }),
                AllOf(HasSubstr("256 bytes"), HasSubstr("a swizzle of 128 bytes")));
    EXPECT_THAT(refused([](TensorMapLayout& map) { map.swizzle_bytes = 48; }), HasSubstr("a swizzle of 48"));
}

}  // namespace
}  // namespace kiln
