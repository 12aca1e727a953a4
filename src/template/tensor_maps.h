// SPDX-License-Identifier: Apache-2.0
//
// Evaluates the `tensormap` lines of a template for one launch. The maps themselves are made by the device
// layer; callers of a kernel never see these arguments.
#pragma once

#include <kiln/template.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

constexpr std::size_t kMostTensorMapExtents = 5;
constexpr std::size_t kTensorMapAddressBytes =
    16;  // what TMA wants the address of a tensor to be a multiple of

/// One kiln::TensorMap argument: a row-major tensor without gaps, and the box of it that one instruction
/// moves. Extents count elements, outermost first; those from `rank` on are 1.
struct TensorMapSpec {
    std::string name;                  ///< of the argument, for messages
    std::string tensor;                ///< of the pointer argument
    std::size_t pointer_argument = 0;  ///< which of the launch arguments holds the tensor's address
    std::string type;                  ///< of an element, normalised: "half"
    std::size_t element_bytes = 0;
    int rank = 0;  ///< 1 to 5; 0: the variant has no such map, and its kernel reads none
    std::array<std::uint64_t, kMostTensorMapExtents> extents{1, 1, 1, 1, 1};
    std::array<std::uint32_t, kMostTensorMapExtents> box{1, 1, 1, 1, 1};
    int swizzle_bytes = 0;  ///< 0, 32, 64 or 128
};

/// Whether launches use programmatic dependent launch: the template's `dependent` line, for these values.
bool may_overlap(const Variant& variant);

/// How many of its kernel's arguments are tensor maps: they follow the others.
std::size_t tensor_map_count(const Variant& variant);

/// Of each argument of the kernel before the tensor maps: its place in Variant::arguments(); nullopt: a pointer that this
/// variant does not have, and that is null.
const std::vector<std::optional<std::size_t>>& argument_places(const Variant& variant);

/// The maps for these launch arguments (those of Variant::arguments(), like Variant::grid takes them), in
/// the kernel's order. Throws VariantError for an extent that is not positive or can't be computed.
std::vector<TensorMapSpec> tensor_map_specs(const Variant& variant, void* const* arguments);

}  // namespace kiln
