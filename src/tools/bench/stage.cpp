// SPDX-License-Identifier: Apache-2.0
//
// Memory and checks are those of running templates (src/run).
#include "bench/stage.h"

#include <kiln/error.h>

#include <algorithm>

#include "run/check.h"
#include "run/inputs.h"

namespace kiln::bench {
namespace {

constexpr std::uint64_t kSeed = 20261122;
constexpr std::size_t kSample = 4096, kQuickSample = 1024;  // elements of an output that are checked

bool is_result(const Tensor& tensor) {
    return tensor.role == TensorRole::output || tensor.role == TensorRole::inout;
}

std::string told(const OutputCheck& check, const std::string& whose) {
    std::string text = whose + "'s " + check.tensor + " is wrong in " + std::to_string(check.wrong) + " of " +
                       std::to_string(check.checked) + " elements";
    if (check.unwritten != 0) text += ", and " + std::to_string(check.unwritten) + " were never written";
    if (check.first_wrong) {
        text += "; the first is [";
        for (const std::int64_t index : check.first_wrong->index)
            text += (text.ends_with('[') ? "" : ", ") + std::to_string(index);
        text += "]: " + std::to_string(check.first_wrong->found) + " where " +
                std::to_string(check.first_wrong->expected) + " is expected, within " +
                std::to_string(check.first_wrong->bound);
    }
    return text;
}

}  // namespace

Stage::Stage(Workbench& bench, const Variant& variant, const Sizes& sizes,
             const std::function<void(Problem&)>& adjust)
    : bench_(bench), kernel_(bench.service().build(variant)), problem_(variant.problem(sizes)) {
    if (adjust) adjust(problem_);
    bench.add_version("compiler", kernel_.info().compiler);
    has_patterns_ = set_patterns(bench.host(), variant, problem_);
    const Device& device = bench.service().device();
    std::uint64_t needed = 0;
    for (const Tensor& tensor : problem_.tensors) needed += tensor.size_bytes() + 2 * GuardedTensor::kGuardBytes;
    if (bench.on_gpu() && needed > device.free_bytes())
        throw UsageError("the problem needs " + std::to_string(needed >> 20) + " MiB of device memory, and " +
                         std::to_string(device.free_bytes() >> 20) + " MiB are free.");
    tensors_.reserve(problem_.tensors.size());
    for (const Tensor& tensor : problem_.tensors) tensors_.emplace_back(device, tensor, Data::random, kSeed);
    arguments_ = std::make_unique<LaunchArguments>(variant, problem_, tensors_);
}

GuardedTensor& Stage::tensor(std::string_view name) {
    const auto found =
        std::ranges::find_if(tensors_, [&](const GuardedTensor& one) { return one.tensor().name == name; });
    if (found == tensors_.end())
        throw UsageError(variant().template_name() + " has no tensor " + std::string(name));
    return *found;
}

const HostTensors& Stage::host_inputs() {
    if (!references_.empty()) return host_inputs_;
    for (const Tensor& tensor : problem_.tensors) {
        if (!is_result(tensor) || tensor.reference.empty()) continue;
        const auto found =
            references_.try_emplace(tensor.name, bench_.host(), variant(), problem_, tensor).first;
        for (const std::string& input : found->second.inputs())
            if (!host_inputs_.contains(input)) host_inputs_.emplace(input, this->tensor(input).initial());
    }
    for (auto& [output, reference] : references_) reference.bind(host_inputs_);
    return host_inputs_;
}

std::vector<std::string> Stage::verify(const GuardedTensor& result, const std::string& whose) {
    return check(result, whose, bench_.quick() ? kQuickSample : kSample);
}

std::vector<std::string> Stage::check(const GuardedTensor& result, const std::string& whose,
                                      std::size_t sample) {
    host_inputs();
    std::vector<std::string> wrong;
    for (const Overrun& place : result.overruns()) wrong.push_back(whose + " wrote " + place.text());
    const auto reference = references_.find(result.tensor().name);
    CheckRequest request{Check::sample, false, random_word(kSeed, 1), sample};
    const OutputCheck check =
        check_output(result, reference == references_.end() ? nullptr : &reference->second, request);
    if (check.wrong != 0 || check.unwritten != 0) wrong.push_back(told(check, whose));
    return wrong;
}

std::vector<std::string> Stage::verify() {
    launch();
    bench_.stream().synchronize();
    std::vector<std::string> wrong = check();
    if (wrong.empty()) verified_ = fingerprints();
    return wrong;
}

std::map<std::string, std::uint64_t> Stage::fingerprints() const {
    std::map<std::string, std::uint64_t> prints;
    for (const GuardedTensor& memory : tensors_)
        if (memory.tensor().role == TensorRole::output)
            prints.emplace(memory.tensor().name, memory.fingerprint());
    return prints;
}

std::vector<std::string> Stage::verify_again() {
    std::vector<std::string> wrong;
    const auto add = [&](std::vector<std::string> sentences, const std::string& when) {
        for (const std::string& sentence : sentences) wrong.push_back(sentence + when);
    };
    // What the launches before have added to is made anew.
    const bool adds_up = std::ranges::any_of(
        problem_.tensors, [](const Tensor& tensor) { return tensor.role == TensorRole::inout; });
    if (adds_up) {
        for (GuardedTensor& memory : tensors_)
            if (is_result(memory.tensor())) memory.refill();
        launch();
        bench_.stream().synchronize();
    }
    if (adds_up || fingerprints() != verified_) add(check(kQuickSample), ", after the timed launches");
    done_verifying();
    if (!has_patterns_ || !wrong.empty()) return wrong;
    for (GuardedTensor& memory : tensors_) memory.refill(Data::contributions);
    launch();
    bench_.stream().synchronize();
    add(check(kQuickSample), ", on inputs in which each contribution is large enough to be seen");
    done_verifying();
    return wrong;
}

void Stage::poison() {
    for (GuardedTensor& memory : tensors_)
        if (is_result(memory.tensor())) memory.refill();
}

std::vector<std::string> Stage::check() { return check(bench_.quick() ? kQuickSample : kSample); }

std::vector<std::string> Stage::check(std::size_t sample) {
    std::vector<std::string> wrong;
    for (const GuardedTensor& memory : tensors_) {
        const Tensor& tensor = memory.tensor();
        if (is_result(tensor)) {
            for (std::string& sentence : check(memory, "Kiln", sample)) wrong.push_back(std::move(sentence));
            continue;
        }
        for (const Overrun& place : memory.overruns()) wrong.push_back("Kiln wrote " + place.text());
        if (tensor.role == TensorRole::scratch && tensor.fill == Fill::zero && !memory.is_zero())
            wrong.push_back("Kiln left its scratch " + tensor.name + " not zeroed");
    }
    return wrong;
}

GuardedTensor Stage::like(std::string_view output) const {
    const auto found =
        std::ranges::find_if(problem_.tensors, [&](const Tensor& one) { return one.name == output; });
    if (found == problem_.tensors.end())
        throw UsageError(variant().template_name() + " has no output " + std::string(output));
    return {bench_.service().device(), *found, Data::random, kSeed};
}

void Stage::done_verifying() {
    references_.clear();
    host_inputs_.clear();
}

}  // namespace kiln::bench
