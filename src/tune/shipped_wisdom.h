// SPDX-License-Identifier: Apache-2.0
//
// The files of cache/wisdom, compiled into the library by cmake/embed_wisdom.cmake.
#pragma once

#include <span>
#include <string_view>

namespace kiln {

struct ShippedWisdom {
    std::string_view name;  ///< "nvidia_h200.txt"
    std::string_view text;
};

/// Ordered by name; may be empty.
std::span<const ShippedWisdom> shipped_wisdom();

}  // namespace kiln
