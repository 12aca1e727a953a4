// SPDX-License-Identifier: Apache-2.0
//
// Where NVRTC is, and what belongs to it. Nothing is opened.
#pragma once

#include <filesystem>
#include <vector>

#include "compile/library_search.h"
#include "compile/loaded_objects.h"

namespace kiln {

/// KILN_NVRTC, the wheel next to the package for Python, toolkits, the system.
LibrarySearch nvrtc_search();

/// The builtins of this library. They hold headers and code for the GPU; what they need of the C++ library makes no
/// difference. Those next to the library are opened before any others of that name could be (NvrtcApi::open).
void add_nvrtc_builtins(const std::filesystem::path& library, CompilerObjects& objects);

/// CUDA's headers and CCCL's: of the toolkit or the wheels that NVRTC belongs to, then of those that the environment names, then of
/// /usr/local/cuda.
std::vector<std::filesystem::path> cuda_include_directories();

}  // namespace kiln
