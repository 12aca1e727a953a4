// SPDX-License-Identifier: Apache-2.0
//
// The time that has passed since a moment.
#pragma once

#include <chrono>

namespace kiln {

/// Counts on the steady clock from when it was made.
class Stopwatch {
  public:
    double elapsed_ms() const { return elapsed<std::milli>(); }
    double elapsed_us() const { return elapsed<std::micro>(); }

  private:
    template <class Unit>
    double elapsed() const {
        return std::chrono::duration<double, Unit>(std::chrono::steady_clock::now() - start_).count();
    }

    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace kiln
