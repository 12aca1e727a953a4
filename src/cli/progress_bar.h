// SPDX-License-Identifier: Apache-2.0
//
// Progress, rate and time left of work: a bar on a terminal, a line from time to time elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>

#include "cli/terminal.h"

namespace kiln::cli {

struct ProgressState {
    std::uint64_t done = 0;
    std::uint64_t total = 0;  ///< 0: not known
    std::uint64_t failed = 0;
    double per_second = 0;                                          ///< lately; 0: not known yet
    double most_seconds = std::numeric_limits<double>::infinity();  ///< seconds left
};

/// "12/64  19%  3.2/s  about 16 s left  1 failed"
std::string progress_text(const ProgressState& state);
/// "[#####-----------]", or nothing if `columns` are too few.
std::string bar_text(const ProgressState& state, int columns);

/// For one thread. The terminal must outlive it.
class ProgressBar {
  public:
    /// what: "warm"
    ProgressBar(const Terminal& terminal, std::string what) : terminal_(terminal), what_(std::move(what)) {}
    ~ProgressBar() { terminal_.status({}); }
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    /// Cheap; to be called often.
    void update(std::uint64_t done, std::uint64_t total, std::uint64_t failed = 0,
                double most_seconds = std::numeric_limits<double>::infinity());

  private:
    using Clock = std::chrono::steady_clock;
    struct Sample {
        Clock::time_point time;
        std::uint64_t done;
    };

    double rate(Clock::time_point now, std::uint64_t done);

    const Terminal& terminal_;
    std::string what_;
    std::deque<Sample> samples_;
    Clock::time_point told_ = Clock::now();
    std::uint64_t told_tenth_ = 0;
};

}  // namespace kiln::cli
