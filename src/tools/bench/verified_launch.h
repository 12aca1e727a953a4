// SPDX-License-Identifier: Apache-2.0
//
// One kernel on one problem, verified before and after it is timed. Also verifies another library's result for the
// same inputs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "run/problem_launch.h"
#include "run/result_check.h"

namespace kiln::bench {

/// The seed of inputs.
inline constexpr std::uint64_t kInputSeed = 20261122;

class VerifiedLaunch {
  public:
    /// Builds the kernel, allocates and fills. adjust: may change the problem's inputs first. Throws what
    /// Service::build throws.
    /// shared: tensors for several kernels; must outlive it.
    VerifiedLaunch(Benchmark& bench, const Variant& variant, const Sizes& sizes,
                   const std::function<void(Problem&)>& adjust = {}, SharedTensors* shared = nullptr);

    const Problem& problem() const { return launch_->problem(); }
    const Variant& variant() const { return launch_->variant(); }
    /// Throws UsageError when the template has none of this name.
    GuardedTensor& tensor(std::string_view name) const { return launch_->tensor(name); }
    void launch() const { launch_->launch(); }

    /// Launches once and checks all outputs; to be called before any other launch. Returns a sentence for
    /// each error.
    std::vector<std::string> verify();
    /// To be called after the timed launches, when nothing runs. Checks that the outputs have the bits of the
    /// verified launch, or are right; and checks another launch on inputs that make each contribution visible
    /// (Data::contributions), which remain.
    std::vector<std::string> verify_again();
    /// Poisons all outputs. Nothing may run meanwhile.
    void poison() { launch_->refill_results(); }
    /// Checks all outputs without a launch. Nothing may run meanwhile.
    std::vector<std::string> check();
    /// Poisoned memory like that of an output, for another library's result.
    GuardedTensor like(std::string_view output) const { return launch_->like(output); }
    /// The same check of such a result, made from the same inputs. tolerance: CheckRequest::tolerance
    std::vector<std::string> verify(const GuardedTensor& result, const std::string& whose,
                                    double tolerance = 0);
    /// Frees the data that only verification needs.
    void done_verifying() { check_.reset(); }

  private:
    std::vector<std::string> check(std::size_t sample);
    std::vector<std::string> check(const GuardedTensor& result, const std::string& whose, std::size_t sample,
                                   double tolerance = 0);

    Benchmark& bench_;
    std::optional<ProblemLaunch> launch_;
    std::optional<ResultCheck> check_;               ///< made when it is needed
    bool has_patterns_ = false;                      ///< for Data::contributions
    std::map<std::string, std::uint64_t> verified_;  ///< of the outputs of the verified launch
};

}  // namespace kiln::bench
