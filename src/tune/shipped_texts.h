// SPDX-License-Identifier: Apache-2.0
//
// The files of cache/wisdom and cache/calibration, compiled into the library by cmake/embed_texts.cmake.
#pragma once

#include <span>
#include <string_view>

namespace kiln {

struct ShippedText {
    std::string_view name;  ///< "nvidia_h200.txt"
    std::string_view text;
};

/// Ordered by name; may be empty.
std::span<const ShippedText> shipped_wisdom();
std::span<const ShippedText> shipped_calibrations();

}  // namespace kiln
