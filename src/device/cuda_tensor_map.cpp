// SPDX-License-Identifier: Apache-2.0
//
// Tensor maps by the CUDA driver.
#include <kiln/error.h>

#include <string_view>
#include <utility>

#include "device/cuda_vendor.h"
#include "device/tensor_map.h"
#include "format/format.h"

namespace kiln::cuda {
namespace {

// Types that TMA only moves go by their width; those it could add or clamp keep their meaning.
TensorMapType type_of(const TensorMapLayout& layout) {
    const std::pair<std::string_view, TensorMapType> named[] = {
        {"half", kTensorMapFloat16},   {"bfloat16", kTensorMapBfloat16}, {"float", kTensorMapFloat32},
        {"double", kTensorMapFloat64}, {"int", kTensorMapInt32},         {"long long", kTensorMapInt64}};
    for (const auto& [name, type] : named) {
        if (name == layout.type) return type;
    }
    switch (layout.element_bytes) {
        case 1:
            return kTensorMapUint8;
        case 2:
            return kTensorMapUint16;
        case 4:
            return kTensorMapUint32;
        case 8:
            return kTensorMapUint64;
        default:
            throw UsageError(
                formatted("The tensor map {} can't be made from tensor {}: TMA moves elements of 1, 2, 4 or "
                          "8 bytes, and {} has {}.",
                          layout.name, layout.tensor, layout.type, layout.element_bytes));
    }
}

TensorMapSwizzle swizzle_of(unsigned bytes) {
    return bytes == 128  ? kTensorMapSwizzle128
           : bytes == 64 ? kTensorMapSwizzle64
           : bytes == 32 ? kTensorMapSwizzle32
                         : kTensorMapSwizzleNone;
}

}  // namespace

void Vendor::encode_tensor_map(const Context& context, const TensorMapLayout& layout, void* map) {
    check_tensor_map(layout);
    const Api& api = context.api();
    if (api.tensor_map_encode == nullptr) {
        throw DeviceError("the tensor map " + layout.name + " needs a driver of CUDA 12.0 or newer; " +
                              context.info().name + " has " + api.version,
                          Call::tensor_map_encode);
    }
    const auto scope = context.make_current();
    // The cache fetches whole pieces. Where rows do not begin with one that costs time: 5% of a product with rows
    // of 10,000 bytes on an H200.
    constexpr std::uint64_t kPiece = 256;
    const std::uint32_t every_element[kMostTensorMapDimensions] = {1, 1, 1, 1, 1};
    const bool whole_pieces = layout.extents[0] * layout.element_bytes % kPiece == 0;
    const Result result =
        api.tensor_map_encode(map, type_of(layout), static_cast<unsigned>(layout.rank), layout.base,
                              layout.extents.data(), layout.stride_bytes.data() + 1, layout.box.data(),
                              every_element, kTensorMapInterleaveNone, swizzle_of(layout.swizzle_bytes),
                              whole_pieces ? kTensorMapL2Bytes256 : kTensorMapL2Bytes128, kTensorMapFillZero);
    if (result == kSuccess) return;
    std::string what = "making the tensor map " + layout.name + " " + context.place() +
                       ", whose architecture is " + context.info().arch +
                       " (TMA begins with sm_90); tensor " + layout.tensor + " of " + layout.type +
                       ", innermost first:";
    for (int i = 0; i < layout.rank; ++i) what += formatted(" {} of {}", layout.box[i], layout.extents[i]);
    api.fail(result, Call::tensor_map_encode, what);
}

}  // namespace kiln::cuda
