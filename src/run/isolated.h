// SPDX-License-Identifier: Apache-2.0
//
// Work that launches kernels of the host backend, done in a child process, so that a kernel which faults, exits or
// never ends costs its own run and not the program. The child is a fork(): it has everything that was built and
// prepared before, and hands back its result, or the exception that it ended with, through a pipe
// (run/wire.h). Everything must be built before; what the work changes in memory is lost.
#pragma once

#include <kiln/service.h>

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "run/wire.h"

namespace kiln {

/// Whether work that launches kernels of this service is to be done in a child: it is the host's, asked for by its
/// options, KILN_HOST_IN_PROCESS does not forbid it, and this process is no such child.
bool isolates(const Service& service);

/// Told to the parent from within such work, in its order; in a process of its own it is called directly.
using ReportPhase = std::function<void(std::string_view)>;

/// Does the work in a child and returns its bytes. kernel: what is run, for messages. on_phase may be empty; what the
/// work is given instead of it tells it. Throws what the work threw, an Error of the same class; DeviceError when the
/// child ended otherwise, or ran longer than the service's limit: it says what is known of the kernel, block, thread
/// and line.
std::string in_child(const Service& service, const std::string& kernel, const ReportPhase& on_phase,
                     const std::function<std::string(const ReportPhase&)>& work);

/// The same for a result of plain data; without isolation just calls work.
template <class Work>
auto isolated(const Service& service, const std::string& kernel, const ReportPhase& on_phase, Work&& work) {
    using Result = std::invoke_result_t<Work, const ReportPhase&>;
    if (!isolates(service)) return work(on_phase);
    return wire::read<Result>(in_child(service, kernel, on_phase,
                                       [&](const ReportPhase& tell) { return wire::written(work(tell)); }));
}

}  // namespace kiln
