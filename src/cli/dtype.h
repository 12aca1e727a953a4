// SPDX-License-Identifier: Apache-2.0
//
// The types of A and B: their names on the command line and in a kernel's declaration, their sizes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace kiln::cli {

enum class Dtype { f16, bf16, f32 };

/// "f16", "bf16" or "f32".
constexpr std::string_view name(Dtype dtype) {
    return dtype == Dtype::f16 ? "f16" : dtype == Dtype::bf16 ? "bf16" : "f32";
}

/// "half", "bfloat16" or "float", as templates write it.
constexpr std::string_view type_name(Dtype dtype) {
    return dtype == Dtype::f16 ? "half" : dtype == Dtype::bf16 ? "bfloat16" : "float";
}

/// The inverse of type_name(); nullopt for any other type.
constexpr std::optional<Dtype> dtype_of(std::string_view type) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32})
        if (type == type_name(dtype)) return dtype;
    return std::nullopt;
}

constexpr std::size_t size_bytes(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }

}  // namespace kiln::cli
