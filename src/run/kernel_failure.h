// SPDX-License-Identifier: Apache-2.0
//
// In words, how a kernel of the host backend ended its process.
#pragma once

#include <string>

#include "base/kernel_watch.h"

namespace kiln {

/// How the process ended, as waitpid() told.
struct ProcessEnd {
    bool is_known = false;
    int exit_status = -1;
    int signal = 0;
};

/// What the child wrote down is read in its parent, which has the same kernels open. kernel: what was run.
std::string kernel_failure_text(const KernelWatch& watch, const ProcessEnd& end, const std::string& kernel);
/// The same of one that was killed at its limit.
std::string kernel_timeout_text(const KernelWatch& watch, double limit_seconds, const std::string& kernel);

/// Whether the calls of a report lead to a kernel's code: while an observer is told, they do not.
bool leads_to_kernel(const KernelReport& report);

}  // namespace kiln
