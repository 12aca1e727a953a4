// SPDX-License-Identifier: Apache-2.0
//
// What a TMA instruction knows of a tensor in device memory and of the box of it that one copy moves, and
// the rules for both. Encoding it is the drivers' part: cuda_tensor_map for CUDA, host_abi.h's plain
// structure for the host. HIP has nothing of the kind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln {

constexpr std::size_t kTensorMapBytes = 128;
constexpr std::size_t kTensorMapAlignment = 128;  // CUDA 12 asked for 64
constexpr int kMostTensorMapDimensions = 5;

/// A tensor and a box of it; innermost dimension first. What a copy reads outside the tensor is zero.
struct TensorMapLayout {
    std::string name;    ///< of the map, for messages: "a_map of gemm_wgmma"
    std::string tensor;  ///< of the tensor: "a"
    /// Of an element: half, bfloat16, float, double, bool, and the integers of 1 to 8 bytes. TMA moves the 1-
    /// and 2-byte integers as unsigned ones, which changes no bit.
    std::string type;
    void* base = nullptr;
    std::size_t element_bytes = 0;
    int rank = 0;  ///< 1 to 5
    std::array<std::uint64_t, kMostTensorMapDimensions> extents{};
    std::array<std::uint64_t, kMostTensorMapDimensions> stride_bytes{};  ///< [0] is element_bytes
    std::array<std::uint32_t, kMostTensorMapDimensions> box{};
    unsigned swizzle_bytes = 0;  ///< 0, 32, 64 or 128
};

/// Throws UsageError for what no TMA instruction can do, with the value and what is allowed: a base or a
/// stride that is no multiple of 16 bytes, an extent, stride or box out of range, a box row that is no
/// multiple of 16 bytes or wider than the swizzle. The host holds to the same rules, so that a template which
/// runs there is not rejected elsewhere. (CUDA driver API, cuTensorMapEncodeTiled.)
void check_tensor_map(const TensorMapLayout& layout);

}  // namespace kiln
