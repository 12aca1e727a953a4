// SPDX-License-Identifier: Apache-2.0
//
// FloatEnvironment: gives the thread's rounding, flags and treatment of denormal numbers back at its end.
#pragma once

#include <cfenv>

namespace kiln {

class FloatEnvironment {
  public:
    FloatEnvironment() { std::fegetenv(&before_); }
    FloatEnvironment(const FloatEnvironment&) = delete;
    FloatEnvironment& operator=(const FloatEnvironment&) = delete;
    ~FloatEnvironment() { std::fesetenv(&before_); }

  private:
    std::fenv_t before_{};
};

}  // namespace kiln
