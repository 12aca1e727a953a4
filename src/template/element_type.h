// SPDX-License-Identifier: Apache-2.0
//
// The type names that front matter knows: what a type parameter may be, what sizeof() may name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

struct ElementType {
    std::string_view name;        ///< in front matter and in values: "half"
    std::string_view spelling;    ///< in C++: "kiln::half"
    std::string_view normalised;  ///< as kiln/kernel.h names it: "half"
    int bytes;
};

std::span<const ElementType> element_types();
std::vector<std::string> element_type_names();

/// The index into element_types() of this very name.
std::optional<int> find_element_type(std::string_view name);

/// The same for what people type: case ignored, f16, fp16, bf16, f32, fp32, f64, fp64, i32, int32 and so on understood.
std::optional<int> find_element_type_or_alias(std::string_view name);

/// The type of this normal form; nullptr when there is none.
const ElementType* find_normalised_type(std::string_view normalised);

}  // namespace kiln
