// SPDX-License-Identifier: Apache-2.0
//
// Launches candidates of one problem on the same tensors, checks and times them.
#pragma once

#include <kiln/run.h>
#include <kiln/service.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/expected_sample.h"
#include "run/isolated.h"
#include "run/launch_timer.h"
#include "run/problem_launch.h"
#include "run/shared_tensors.h"

namespace kiln {

/// Not thread-safe.
class CandidateRunner {
  public:
    /// host: the service that builds references.
    CandidateRunner(Service& service, Service& host, bool cold_l2, std::uint64_t seed);

    /// Launches the kernel on fresh outputs: once with random inputs and, if the device has memory for them, once with
    /// inputs that make each contribution visible. Returns what is wrong with the results, in a sentence; empty:
    /// nothing. Throws what building and launching throw.
    std::string check(const AnyKernel& kernel, const Problem& problem);
    /// One launch.
    double time_ms(const AnyKernel& kernel, const Problem& problem);
    /// Up to `most` launches, and none after one that took longer than `enough_ms`. If the service isolates, in a
    /// child process, after one launch that is not timed, since it touches the child's memory for the first time.
    std::vector<double> times_ms(const AnyKernel& kernel, const Problem& problem, std::size_t most,
                                 double enough_ms);
    /// Allocates and fills the memory that a launch needs. To be called before a fork, so that all children share it. No time
    /// limit holds for it: one fill serves all candidates, so how long it takes is no fault of any, and it ends.
    void prepare(const Problem& problem) { tensors_.of(problem); }
    /// SharedTensors::drop_scratch
    void drop_scratch() { tensors_.drop_scratch(); }
    /// Frees the memory.
    void clear();
    /// Device memory of the tensors.
    std::uint64_t held_bytes() const { return tensors_.held_bytes(); }

  private:
    const ExpectedSample& expected(const ProblemLaunch& launch, const Tensor& output);
    std::optional<Problem> with_patterns(const Variant& variant, const Problem& problem);
    void prepare_expected(const AnyKernel& kernel, const Problem& problem, Data data);
    std::string problem_of(const AnyKernel& kernel, const Problem& problem, Data data,
                           const ReportPhase& tell);

    Service& service_;
    Service& host_;
    const std::uint64_t seed_;
    SharedTensors tensors_;
    std::map<std::string, std::unique_ptr<ExpectedSample>> expected_;  ///< by template, data and tensors
    LaunchTimer timer_;
};

}  // namespace kiln
