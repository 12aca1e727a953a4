// SPDX-License-Identifier: Apache-2.0
//
// Tensors are created in the order of the arguments. A child process that runs host kernels knows their names, so that
// a fault can be reported with the nearest tensor.
#include "run/problem_launch.h"

#include <kiln/error.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/kernel_watch.h"
#include "base/stopwatch.h"
#include "run/thread_order.h"

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

std::uint64_t ProblemLaunch::fewest_blocks() const {
    std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
    for (const Dim3& grid : variant().grids(arguments_.pointers()))
        if (const std::uint64_t count = grid.count(); count != 0) fewest = std::min(fewest, count);
    return fewest;
}

bool ProblemLaunch::has_poisoned_scratch() const {
    return std::ranges::any_of(tensors_, [](const auto& memory) {
        return memory->tensor().role == TensorRole::scratch && memory->is_poisoned();
    });
}

void ProblemLaunch::refill(const Start& start) {
    for (const auto& memory : tensors_)
        if (is_result(memory->tensor()) || (start.poison_scratch && memory->is_poisoned()))
            memory->refill(start.poison);
}

Results ProblemLaunch::results() const {
    Results results;
    for (const auto& memory : tensors_)
        if (is_result(memory->tensor()))
            results[memory->tensor().name] = {memory->fingerprint(), memory->poisoned()};
    return results;
}

// An unwritten element changes from one poison to another, so that there are fewer of the first and more of the other.
Differences ProblemLaunch::differences(const Results& before) const {
    Differences found;
    for (const auto& [name, now] : results()) {
        const auto& [fingerprint, was] = before.at(name);
        if (now.fingerprint == fingerprint) continue;
        const std::uint64_t poisoned = now.poisoned.high + now.poisoned.low, were = was.high + was.low;
        if (now.poisoned.first < was.first && poisoned > were)
            found.unwritten[name] = std::min(was.first - now.poisoned.first, poisoned - were);
        else
            found.other_bits.push_back(name);
    }
    return found;
}

Differences ProblemLaunch::launch_again(const Results& before, const Start& start, const ReportPhase& tell) {
    tell("filling");
    refill(start);
    tell("running");
    std::optional<OtherThreadOrder> order;
    if (start.other_order != 0) order.emplace(service_, start.other_order);
    launch_and_wait();
    tell("checking");
    return differences(before);
}

std::vector<Dependence> ProblemLaunch::dependences(const Results& before,
                                                   const std::vector<std::string>& names, Poison poison,
                                                   const ReportPhase& tell) {
    std::vector<Dependence> found;
    // What differs after a launch with this tensor poisoned, or with none.
    const auto differing = [&](GuardedTensor* poisoned) {
        tell("filling");
        refill_results();
        if (poisoned != nullptr) poisoned->refill(poison);
        tell("running");
        launch_and_wait();
        tell("checking");
        std::vector<std::string> all = differences(before).other_bits;
        std::erase_if(all,
                      [&](const std::string& name) { return std::ranges::find(names, name) == names.end(); });
        return all;
    };
    const std::vector<std::string> anyway = differing(nullptr);
    for (const auto& memory : tensors_)
        if (memory->is_poisoned())
            for (const std::string& name : differing(memory.get()))
                if (std::ranges::find(anyway, name) == anyway.end())
                    found.push_back({name, memory->tensor().name});
    return found;
}

std::map<std::string, std::uint64_t> ProblemLaunch::unwritten(const ReportPhase& tell) {
    if (!may_be_unwritten()) return {};
    return launch_again(results(), {Poison::high}, tell).unwritten;
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
