// SPDX-License-Identifier: Apache-2.0
//
// One kernel on one problem: the problem's tensors in device memory, with guards, and launches on them. Runner, the
// tuner and the benchmarks launch through this class.
#pragma once

#include <kiln/device.h>
#include <kiln/kernel.h>
#include <kiln/run.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "run/guarded_tensor.h"
#include "run/isolated.h"
#include "run/launch_arguments.h"
#include "run/shared_tensors.h"

namespace kiln {

struct TensorContents {
    Data data = Data::random;
    std::uint64_t seed = 1;
    int skew = 0;  ///< RunOptions::skew
};

/// The side effects of a launch.
struct SideEffects {
    std::vector<Overrun> overrun;
    std::vector<std::string> changed;     ///< inputs
    std::vector<std::string> not_zeroed;  ///< scratch that must be left zeroed
};

inline bool is_result(const Tensor& tensor) {
    return tensor.role == TensorRole::output || tensor.role == TensorRole::inout;
}

/// What outputs and inouts hold after a launch, to compare it with others: by name.
struct Content {
    std::uint64_t fingerprint = 0;
    GuardedTensor::Poisoned poisoned;
};
using Results = std::map<std::string, Content>;

/// How the results of a launch differ from those of the first one.
struct Differences {
    std::map<std::string, std::uint64_t> unwritten;  ///< elements of outputs, where there are any
    std::vector<std::string> other_bits;             ///< all other outputs and inouts that are not the same
};

/// What tensors hold before a launch: this poison in outputs, the same in scratch or what the launch before left there. And whether
/// its threads run in another order (OtherThreadOrder).
struct Start {
    Poison poison = Poison::high;
    bool poison_scratch = false;
    int other_order = 0;  ///< of threads, by its number (OtherThreadOrder); 0: the usual one
};

/// Not thread-safe. Launches are in the service's stream.
class ProblemLaunch {
  public:
    /// Allocates and fills. The service must outlive it.
    ProblemLaunch(const Service& service, AnyKernel kernel, Problem problem,
                  const TensorContents& contents = {});
    /// With tensors that are shared with other kernels.
    ProblemLaunch(const Service& service, AnyKernel kernel, Problem problem, SharedTensors& shared,
                  Data data = Data::random);
    ProblemLaunch(const ProblemLaunch&) = delete;
    ProblemLaunch& operator=(const ProblemLaunch&) = delete;

    const AnyKernel& kernel() const { return kernel_; }
    const Variant& variant() const { return kernel_.variant(); }
    const Problem& problem() const { return problem_; }
    Data data() const { return data_; }
    const GuardedTensors& tensors() const { return tensors_; }  ///< in the order of the arguments
    /// Throws UsageError when there is none of this name.
    GuardedTensor& tensor(std::string_view name) const;
    bool has_inout() const;

    /// Of the kernel that has the fewest, but for those that are left out.
    std::uint64_t fewest_blocks() const;
    /// Whether the grid is empty, so that there is nothing to launch.
    bool is_empty() const { return variant().grid(arguments_.pointers()).count() == 0; }
    void launch() const { kernel_.launch(service_.stream(), arguments_.pointers()); }
    /// Returns its time, measured on the host.
    double launch_and_wait() const;

    /// Refills all tensors, with other data. Nothing may run meanwhile.
    void refill(Data data);
    /// Refills all tensors except the inputs.
    void refill_results();
    /// changed_inputs: inputs are read back and compared, too.
    SideEffects side_effects(bool changed_inputs) const;
    /// Whether an element of an output may be unwritten though it is right: its poison may be a result as well, and
    /// it has that value.
    bool may_be_unwritten() const;
    /// Whether there is scratch that holds poison before the first launch.
    bool has_poisoned_scratch() const;
    /// Fills outputs, inouts and, if asked for, poisoned scratch. Nothing may run meanwhile.
    void refill(const Start& start);
    Results results() const;
    Differences differences(const Results& before) const;
    /// Launches once more. Nothing may run meanwhile. before: the results of the first launch. tell: receives its phases, from
    /// "filling" on.
    Differences launch_again(const Results& before, const Start& start, const ReportPhase& tell);
    /// On what the results of these names depend that no launch may depend on: launches with one tensor after the other
    /// poisoned so, all others as before the first launch. Results whose bits differ anyway are not listed.
    std::vector<Dependence> dependences(const Results& before, const std::vector<std::string>& names,
                                        Poison poison, const ReportPhase& tell);
    /// Elements of outputs that only a second launch shows to be unwritten, by name; it is made where there may be any.
    std::map<std::string, std::uint64_t> unwritten(const ReportPhase& tell = [](std::string_view) {});
    /// Hashes of the outputs, by name.
    std::map<std::string, std::uint64_t> fingerprints() const;
    /// Further poisoned memory of the type and shape of an output.
    GuardedTensor like(std::string_view output) const;

  private:
    void watch() const;

    const Service& service_;
    const AnyKernel kernel_;
    const Problem problem_;
    Data data_;
    GuardedTensors tensors_;
    LaunchArguments arguments_;
};

}  // namespace kiln
