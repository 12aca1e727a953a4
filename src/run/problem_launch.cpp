// SPDX-License-Identifier: Apache-2.0
//
// Tensors are created in the order of the arguments. A child process that runs host kernels knows their names, so that
// a fault can be reported with the nearest tensor.
#include "run/problem_launch.h"

#include <kiln/error.h>

#include <algorithm>

#include "base/kernel_watch.h"
#include "base/stopwatch.h"

namespace kiln {

ProblemLaunch::ProblemLaunch(const Service& service, AnyKernel kernel, Problem problem,
                             const TensorContents& contents)
    : service_(service),
      kernel_(std::move(kernel)),
      problem_(std::move(problem)),
      data_(contents.data),
      tensors_([&] {
          GuardedTensors made;
          for (const Tensor& tensor : problem_.tensors)
              made.push_back(std::make_shared<GuardedTensor>(service.device(), tensor, contents.data,
                                                             contents.seed, contents.skew));
          return made;
      }()),
      arguments_(variant(), problem_, tensors_) {
    watch();
}

ProblemLaunch::ProblemLaunch(const Service& service, AnyKernel kernel, Problem problem, SharedTensors& shared,
                             Data data)
    : service_(service),
      kernel_(std::move(kernel)),
      problem_(std::move(problem)),
      data_(data),
      tensors_(shared.of(problem_, data)),
      arguments_(variant(), problem_, tensors_) {
    watch();
}

void ProblemLaunch::watch() const {
    forget_watched_memories();
    for (const auto& memory : tensors_)
        watch_memory(memory->tensor().name.c_str(), memory->data(), memory->tensor().size_bytes(),
                     memory->tensor().element_bytes);
}

GuardedTensor& ProblemLaunch::tensor(std::string_view name) const {
    for (const auto& memory : tensors_)
        if (memory->tensor().name == name) return *memory;
    throw UsageError(variant().template_name() + " has no tensor " + std::string(name));
}

bool ProblemLaunch::has_inout() const {
    return std::ranges::any_of(problem_.tensors,
                               [](const Tensor& tensor) { return tensor.role == TensorRole::inout; });
}

double ProblemLaunch::launch_and_wait() const {
    const Stopwatch watch;
    launch();
    service_.stream().synchronize();
    return watch.elapsed_ms();
}

void ProblemLaunch::refill(Data data) {
    data_ = data;
    for (const auto& memory : tensors_) memory->refill(data);
}

void ProblemLaunch::refill_results() {
    for (const auto& memory : tensors_)
        if (memory->tensor().role != TensorRole::input) memory->refill();
}

SideEffects ProblemLaunch::side_effects(bool changed_inputs) const {
    SideEffects found;
    for (const auto& memory : tensors_) {
        const Tensor& tensor = memory->tensor();
        for (Overrun& place : memory->overruns()) found.overrun.push_back(std::move(place));
        if (changed_inputs && tensor.role == TensorRole::input && !memory->is_unchanged())
            found.changed.push_back(tensor.name);
        if (tensor.role == TensorRole::scratch && tensor.fill == Fill::zero && !memory->is_zero())
            found.not_zeroed.push_back(tensor.name);
    }
    return found;
}

bool ProblemLaunch::may_be_unwritten() const {
    return std::ranges::any_of(tensors_, [](const auto& memory) {
        return memory->tensor().role == TensorRole::output && memory->poisoned().first > 0;
    });
}

// An unwritten element changes from one poison to the other, so that there are fewer of the one and more of the other.
SecondLaunch ProblemLaunch::launch_again(const ReportPhase& tell) {
    struct Before {
        GuardedTensor& memory;
        std::uint64_t fingerprint;
        GuardedTensor::Poisoned poisoned;
    };
    std::vector<Before> before;
    for (const auto& memory : tensors_)
        if (is_result(memory->tensor()))
            before.push_back({*memory, memory->fingerprint(), memory->poisoned()});
    tell("filling");
    for (const Before& one : before) one.memory.refill(GuardedTensor::Poison::other);
    tell("running");
    launch_and_wait();
    tell("checking");
    SecondLaunch found;
    for (const auto& [memory, fingerprint, poisoned] : before) {
        if (memory.fingerprint() == fingerprint) continue;
        const std::string& name = memory.tensor().name;
        const GuardedTensor::Poisoned now = memory.poisoned();
        if (now.first < poisoned.first && now.other > poisoned.other)
            found.unwritten[name] = std::min(poisoned.first - now.first, now.other - poisoned.other);
        else
            found.unstable.push_back(name);
    }
    return found;
}

std::map<std::string, std::uint64_t> ProblemLaunch::unwritten(const ReportPhase& tell) {
    return may_be_unwritten() ? launch_again(tell).unwritten : std::map<std::string, std::uint64_t>{};
}

std::map<std::string, std::uint64_t> ProblemLaunch::fingerprints() const {
    std::map<std::string, std::uint64_t> prints;
    for (const auto& memory : tensors_)
        if (memory->tensor().role == TensorRole::output)
            prints.emplace(memory->tensor().name, memory->fingerprint());
    return prints;
}

GuardedTensor ProblemLaunch::like(std::string_view output) const {
    return {service_.device(), tensor(output).tensor(), Data::random, 1};
}

}  // namespace kiln
