// SPDX-License-Identifier: Apache-2.0
//
// The built-in templates and the prelude, compiled into the library from kernels_src/ by
// cmake/embed.cmake, so that they are found wherever the library is.
#pragma once

#include <span>
#include <string_view>

namespace kiln {

struct EmbeddedFile {
    std::string_view name;  ///< relative to kernels_src: "gemm_tiled.cu", "kiln/device.h"
    std::string_view text;
};

/// All files, ordered by name.
std::span<const EmbeddedFile> embedded_files();

}  // namespace kiln
