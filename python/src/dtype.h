// SPDX-License-Identifier: Apache-2.0
//
// Types of elements: what arrays, kernels and messages call them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dlpack.h"

namespace kiln::python {

/// "float16", "bfloat16", "int32".
std::string text(DlDataType type);
/// Of a C++ type as templates' declarations have it ("half", "unsigned int"); nullopt: a struct, say.
std::optional<DlDataType> dtype_of(const std::string& normalised);
/// Of a format of the buffer protocol: "f", "<l"; nullopt: it is none of one number.
std::optional<DlDataType> dtype_of_format(std::string_view format, std::int64_t item_bytes);
/// Of a typestr of array interfaces: "<f4", "|b1".
std::optional<DlDataType> dtype_of_typestr(std::string_view typestr);

}  // namespace kiln::python
