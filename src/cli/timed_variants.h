// SPDX-License-Identifier: Apache-2.0
//
// Files with a line for each variant that was timed for a drawn problem: what `kiln bench --timed-variants` adds to, and
// `kiln calibrate` reads. Fields are separated by tabs: family, values that say what is computed, sizes, variant, whether
// it was chosen, the estimate and the time in microseconds.
#pragma once

#include <kiln/calibration.h>
#include <kiln/tools/bench.h>

#include <filesystem>
#include <string>
#include <vector>

namespace kiln::cli {

/// With the newline.
std::string timed_line(const BenchTimedVariant& timed);
/// None if there is no such file. Throws UsageError naming file and line.
std::vector<MeasuredTime> load_timed_variants(const std::filesystem::path& file);
MeasuredTime measured(const BenchTimedVariant& timed);

}  // namespace kiln::cli
