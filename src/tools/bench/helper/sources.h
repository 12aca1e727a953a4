// SPDX-License-Identifier: Apache-2.0
//
// The programs that comparators need, as text, from the files next to this one.
#pragma once

#include <string_view>

namespace kiln::bench {

extern const std::string_view kCubSum;        ///< cub_sum.cu
extern const std::string_view kCubHistogram;  ///< cub_histogram.cu
extern const std::string_view kTorchBench;    ///< torch_bench.py

}  // namespace kiln::bench
