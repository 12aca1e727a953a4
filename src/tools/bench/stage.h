// SPDX-License-Identifier: Apache-2.0
//
// One kernel on one problem in device memory, verified; and verifying what another library makes of the same
// inputs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/workbench.h"
#include "run/guarded_tensor.h"
#include "run/launch_arguments.h"
#include "run/reference.h"

namespace kiln::bench {

class Stage {
  public:
    /// Builds the kernel, allocates and fills. adjust: may change what tensors hold before that. Throws what
    /// Service::build does.
    Stage(Workbench& bench, const Variant& variant, const Sizes& sizes,
          const std::function<void(Problem&)>& adjust = {});
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    const Problem& problem() const { return problem_; }
    const Variant& variant() const { return kernel_.variant(); }
    /// Throws UsageError when the template has none of this name.
    GuardedTensor& tensor(std::string_view name);
    void launch() const { kernel_.launch(bench_.stream(), arguments_->pointers()); }

    /// Launches once and checks all outputs; to be called before any other launch. What is wrong, a sentence each.
    std::vector<std::string> verify();
    /// To be called when the timed launches are done and nothing runs: the outputs have the bits of the verified
    /// launch, or are right by themselves; and so are those of one more launch, on inputs that make each
    /// contribution visible (Data::contributions), which stay.
    std::vector<std::string> verify_again();
    /// Poisons all outputs. Nothing may run meanwhile.
    void poison();
    /// Checks all outputs as they are, when nothing runs.
    std::vector<std::string> check();
    /// Poisoned memory like that of an output, for another library's result.
    GuardedTensor like(std::string_view output) const;
    /// The same check of such a result, made from the same inputs.
    std::vector<std::string> verify(const GuardedTensor& result, const std::string& whose);
    /// Frees what only verifying needs.
    void done_verifying();

  private:
    const HostTensors& host_inputs();
    /// As the memory is; of each output so many elements.
    std::vector<std::string> check(const GuardedTensor& result, const std::string& whose, std::size_t sample);
    std::vector<std::string> check(std::size_t sample);
    std::map<std::string, std::uint64_t> fingerprints() const;

    Workbench& bench_;
    AnyKernel kernel_;
    Problem problem_;
    std::vector<GuardedTensor> tensors_;
    std::unique_ptr<LaunchArguments> arguments_;
    std::map<std::string, Reference, std::less<>> references_;
    HostTensors host_inputs_;
    bool has_patterns_;  ///< for Data::contributions
    std::map<std::string, std::uint64_t> verified_;  ///< of the outputs of the verified launch
};

}  // namespace kiln::bench
