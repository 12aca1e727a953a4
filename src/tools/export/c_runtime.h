// SPDX-License-Identifier: Apache-2.0
//
// The part of exported code that is the same in every file: opening the driver, contexts and their modules, choosing a
// kernel, launching it. Declared before it: the counts KILN_ARGUMENTS, KILN_SIZES, KILN_KERNELS, KILN_MAPS and
// KILN_ENTRIES.
#pragma once

#include <string_view>

namespace kiln {

extern const std::string_view kCTypes;        ///< structures; comes first
extern const std::string_view kCPlanHelpers;  ///< what the plans of kernels call
extern const std::string_view kCMapHelpers;   ///< the same, of kernels with tensor maps
extern const std::string_view kCDriver;       ///< opening a library
extern const std::string_view kCCuda;         ///< the CUDA driver
extern const std::string_view kCHip;          ///< the HIP runtime
extern const std::string_view kCContexts;     ///< contexts and modules of both
extern const std::string_view kCRun;          ///< choosing and launching

}  // namespace kiln
