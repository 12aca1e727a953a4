// SPDX-License-Identifier: Apache-2.0
//
// Messages about a kernel of the host backend that ended its process, or reached its time limit.
#pragma once

#include <string>
#include <string_view>

#include "base/kernel_watch.h"

namespace kiln {

/// How the process ended, by waitpid().
struct ProcessEnd {
    bool is_known = false;
    int exit_status = -1;
    int signal = 0;
};

/// For the parent, which has the same kernels loaded and reads what the child recorded. kernel: its name.
std::string kernel_failure_text(const KernelWatch& watch, const ProcessEnd& end, const std::string& kernel);
/// The same for a child that was killed at its time limit. phase: the last that it reported, as "filling"; may be empty.
std::string kernel_timeout_text(const KernelWatch& watch, double limit_seconds, const std::string& kernel,
                                std::string_view phase);

/// Whether a report's call stack contains a kernel's code. It does not while an observer is called.
bool leads_to_kernel(const KernelReport& report);

}  // namespace kiln
