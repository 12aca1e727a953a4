// SPDX-License-Identifier: Apache-2.0
//
// Capture: what is known of a graph that is being captured in this thread: which modules it must keep. The
// capturing itself is the drivers' part.
#pragma once

#include <memory>
#include <vector>

#include "device/driver.h"

namespace kiln {

/// In force in the thread that made it, until it is destroyed. One at a time.
class Capture {
  public:
    Capture() { current_ = this; }
    ~Capture() { current_ = nullptr; }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

    /// This thread's; nullptr: nothing is being captured. About a nanosecond.
    static Capture* current() { return current_; }

    void keep(std::shared_ptr<const Module> module) {
        if (kept_.empty() || kept_.back() != module) kept_.push_back(std::move(module));
    }
    std::vector<std::shared_ptr<const Module>> take() { return std::move(kept_); }

  private:
    static inline constinit thread_local Capture* current_ = nullptr;
    std::vector<std::shared_ptr<const Module>> kept_;
};

}  // namespace kiln
