// SPDX-License-Identifier: Apache-2.0
//
// Files with a line for each variant that was timed for a drawn problem: what `kiln bench --timed-variants` adds to, and
// `kiln calibrate` reads. Fields are separated by tabs: family, values that say what is computed, sizes, variant, whether
// it was chosen, the estimate and the time in microseconds.
#pragma once

#include <kiln/calibration.h>
#include <kiln/tools/bench.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace kiln::cli {

/// Without an unfinished last line, which a run leaves that is killed. Throws UsageError naming file and line.
std::vector<MeasuredTime> load_timed_variants(const std::filesystem::path& file);
MeasuredTime measured(const BenchTimedVariant& timed);
/// Of the problems to draw next: others than those of so many times, and than those that `before` was fitted to.
std::uint64_t next_seed(std::size_t times, const Calibration& before);

/// Adds lines to a file, which may be a device or a FIFO.
class TimedVariantFile {
  public:
    /// Cuts off an unfinished last line. option: for messages. Throws UsageError if the file can't be written to, or
    /// holds other lines.
    TimedVariantFile(std::string option, const std::filesystem::path& file);

    /// Those that the file had; none of a device or a FIFO.
    const std::vector<MeasuredTime>& earlier() const { return earlier_; }
    /// The line is in the file when it returns.
    void add(const BenchTimedVariant& timed);
    /// After the last one. Throws UsageError if one could not be written.
    void close();

  private:
    std::string name_;
    std::vector<MeasuredTime> earlier_;
    std::ofstream lines_;
};

}  // namespace kiln::cli
