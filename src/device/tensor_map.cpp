// SPDX-License-Identifier: Apache-2.0
//
// The rules that TMA has for tensors and boxes, in words.
#include "device/tensor_map.h"

#include <kiln/error.h>

#include <numeric>
#include <sstream>

#include "format/format.h"

namespace kiln {
namespace {

constexpr std::uint64_t kGranule = 16;
constexpr std::uint64_t kMostExtent = std::uint64_t{1} << 32;
constexpr std::uint64_t kMostStride = std::uint64_t{1} << 40;
constexpr std::uint32_t kMostBox = 256;

}  // namespace

void check_tensor_map(const TensorMapLayout& layout) {
    const auto refuse = [&](const std::string& what) {
        throw UsageError("The tensor map " + layout.name + " can't be made from tensor " + layout.tensor +
                         ": " + what + ".");
    };
    // As people write it: outermost first.
    const auto dimension = [&](int i) { return formatted("extent {}", layout.rank - i); };
    if (layout.rank < 1 || layout.rank > kMostTensorMapDimensions)
        refuse(formatted("it has {} extents, and a map takes 1 to 5", layout.rank));
    if (reinterpret_cast<std::uintptr_t>(layout.base) % kGranule != 0) {
        std::ostringstream address;
        address << layout.base;
        refuse("it starts at " + address.str() + ", and TMA needs an address that is a multiple of 16 bytes");
    }
    for (int i = 0; i < layout.rank; ++i) {
        if (layout.extents[i] == 0 || layout.extents[i] > kMostExtent)
            refuse(formatted("{} is {}, and TMA takes 1 to 2^32", dimension(i), layout.extents[i]));
        if (layout.box[i] == 0 || layout.box[i] > kMostBox)
            refuse(formatted("its box takes {} of {}, and TMA moves 1 to 256 at once", layout.box[i],
                             dimension(i)));
    }
    // The first of them that fails explains the others, which are its multiples.
    for (int i = 1; i < layout.rank; ++i) {
        const std::uint64_t stride = layout.stride_bytes[i];
        if (stride >= kMostStride)
            refuse(
                formatted("one step in {} is {} bytes, and TMA needs fewer than 2^40", dimension(i), stride));
        if (stride % kGranule == 0) continue;
        const std::string bytes = formatted("{} bytes", stride);
        if (i > 1 || stride != layout.extents[0] * layout.element_bytes)
            refuse("one step in " + dimension(i) + " is " + bytes + ", and TMA needs a multiple of 16");
        refuse(formatted(
            "a row has {} elements of {}, {}, and TMA needs rows of a multiple of 16 bytes: that extent must "
            "be a multiple of {}; a kernel without tensor maps takes any",
            layout.extents[0], layout.type, bytes, kGranule / std::gcd(kGranule, layout.element_bytes)));
    }
    const std::uint64_t row_bytes = layout.box[0] * layout.element_bytes;
    const std::string row =
        formatted("a row of its box is {} bytes ({} elements of {})", row_bytes, layout.box[0], layout.type);
    if (row_bytes % kGranule != 0) refuse(row + ", and TMA needs a multiple of 16");
    if (layout.swizzle_bytes != 0 && layout.swizzle_bytes != 32 && layout.swizzle_bytes != 64 &&
        layout.swizzle_bytes != 128)
        refuse(formatted("a swizzle of {} bytes was asked for; there is 0, 32, 64 and 128",
                         layout.swizzle_bytes));
    if (layout.swizzle_bytes != 0 && row_bytes > layout.swizzle_bytes)
        refuse(formatted("{}, and a swizzle of {} bytes takes that many at most", row, layout.swizzle_bytes));
}

}  // namespace kiln
