// SPDX-License-Identifier: Apache-2.0
//
// Runs work that launches host kernels in a child process, so that a kernel that faults, exits or never ends does
// not end the program. The child is a fork(): it has everything that was built before, and returns its result or
// its exception through a pipe (run/wire.h). Everything must be built before; changes to memory are lost.
#pragma once

#include <kiln/service.h>

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

#include "run/wire.h"

namespace kiln {

/// Whether kernels of this service are launched in a child process: its backend is the host, its options request
/// it, KILN_HOST_IN_PROCESS does not prevent it, and this process is not such a child.
bool isolates(const Service& service);

/// Reports a phase of the work to the parent. Without a child it is called directly. What work receives is never empty. What
/// begins with kRemark is no phase: it is passed on, and the phase stays.
constexpr char kRemark = '\n';
using ReportPhase = std::function<void(std::string_view)>;

/// Does the work in a child and returns its bytes. kernel: for messages. on_phase: receives the phases that the work
/// reports; may be empty. Throws what the work threw, as an Error of the same class; DeviceError when the child ended
/// otherwise or exceeded the service's time limit, with kernel, block, thread and line as far as known.
std::string in_child(const Service& service, const std::string& kernel, const ReportPhase& on_phase,
                     const std::function<std::string(const ReportPhase&)>& work);

/// The same for a result of plain data; without isolation just calls work.
template <class Work>
auto isolated(const Service& service, const std::string& kernel, const ReportPhase& on_phase, Work&& work) {
    using Result = std::invoke_result_t<Work, const ReportPhase&>;
    if (!isolates(service)) return work(on_phase ? on_phase : [](std::string_view) {});
    return wire::read<Result>(in_child(service, kernel, on_phase,
                                       [&](const ReportPhase& tell) { return wire::written(work(tell)); }));
}

}  // namespace kiln
