// SPDX-License-Identifier: Apache-2.0
//
// Memory, launches and checks are those of running templates (src/run).
#include "bench/verified_launch.h"

#include <kiln/error.h>

#include <algorithm>

#include "format/format.h"
#include "run/inputs.h"

namespace kiln::bench {
namespace {

constexpr std::size_t kSample = 4096, kQuickSample = 1024;  // elements of an output that are checked

/// As many elements as the reference computes in seconds, if each takes as many operations as one of the kernel's.
std::size_t affordable(const Problem& problem, std::size_t sample) {
    constexpr double kOperations = 6e7, kLeast = 256;
    double results = 0;
    for (const Tensor& tensor : problem.tensors)
        if (is_result(tensor)) results += static_cast<double>(tensor.count());
    const double each = static_cast<double>(problem.flops) / std::max(results, 1.0);
    return std::min(sample, static_cast<std::size_t>(std::max(kLeast, kOperations / std::max(each, 1.0))));
}

std::string told(const OutputCheck& check, const std::string& whose) {
    std::string text =
        formatted("{}'s {} is wrong in {} of {} elements", whose, check.tensor, check.wrong, check.checked);
    if (check.unwritten != 0) text += formatted(", and {} were never written", check.unwritten);
    if (check.first_wrong) {
        text += "; the first is [";
        for (const std::int64_t index : check.first_wrong->index)
            text += formatted("{}{}", text.ends_with('[') ? "" : ", ", index);
        text += formatted("]: {:f} where {:f} is expected, within {:f}", check.first_wrong->found,
                          check.first_wrong->expected, check.first_wrong->bound);
    }
    return text;
}

}  // namespace

VerifiedLaunch::VerifiedLaunch(Benchmark& bench, const Variant& variant, const Sizes& sizes,
                               const std::function<void(Problem&)>& adjust, SharedTensors* shared)
    : bench_(bench) {
    const AnyKernel kernel = bench.service().build(variant);
    Problem problem = variant.problem(sizes);
    if (adjust) adjust(problem);
    bench.add_version("compiler", kernel.info().compiler);
    has_patterns_ = set_patterns(bench.references(), variant, problem, false);
    const Device& device = bench.service().device();
    std::uint64_t needed = 0;
    for (const Tensor& tensor : problem.tensors)
        needed += tensor.size_bytes() + GuardedTensor::kMostAddedBytes;
    if (bench.on_gpu() && needed > device.free_bytes())
        throw UsageError(formatted("the problem needs {} MiB of device memory, and {} MiB are free.",
                                   needed >> 20, device.free_bytes() >> 20));
    if (shared != nullptr)
        launch_.emplace(bench.service(), kernel, std::move(problem), *shared);
    else
        launch_.emplace(bench.service(), kernel, std::move(problem),
                        TensorContents{Data::random, kInputSeed});
}

std::vector<std::string> VerifiedLaunch::verify(const GuardedTensor& result, const std::string& whose,
                                                double tolerance) {
    std::vector<std::string> wrong;
    for (const Overrun& place : result.overruns()) wrong.push_back(whose + " wrote " + place.text());
    for (std::string& sentence : check(result, whose, bench_.quick() ? kQuickSample : kSample, tolerance))
        wrong.push_back(std::move(sentence));
    return wrong;
}

std::vector<std::string> VerifiedLaunch::check(const GuardedTensor& result, const std::string& whose,
                                               std::size_t sample, double tolerance) {
    if (!check_) check_.emplace(bench_.references(), variant(), problem(), false);
    CheckRequest request{Check::sample, false, random_word(kInputSeed, 1), affordable(problem(), sample),
                         tolerance};
    const OutputCheck found = check_->output(*launch_, result, request);
    return found.wrong != 0 || found.unwritten != 0 ? std::vector{told(found, whose)}
                                                    : std::vector<std::string>{};
}

std::vector<std::string> VerifiedLaunch::verify() {
    launch_->launch_and_wait();
    std::vector<std::string> wrong = check();
    if (wrong.empty())
        for (const auto& [tensor, count] : launch_->unwritten())
            wrong.push_back(formatted("{} elements of Kiln's {} were never written", count, tensor));
    if (wrong.empty()) verified_ = launch_->fingerprints();
    return wrong;
}

std::vector<std::string> VerifiedLaunch::verify_again() {
    std::vector<std::string> wrong;
    const auto add = [&](const std::vector<std::string>& sentences, const std::string& when) {
        for (const std::string& sentence : sentences) wrong.push_back(sentence + when);
    };
    // Refills tensors to which earlier launches have added.
    const bool adds_up = launch_->has_inout();
    if (adds_up) {
        launch_->refill_results();
        launch_->launch_and_wait();
    }
    if (adds_up || launch_->fingerprints() != verified_)
        add(check(kQuickSample), ", after the timed launches");
    done_verifying();
    if (!has_patterns_ || !wrong.empty()) return wrong;
    launch_->refill(Data::contributions);
    launch_->launch_and_wait();
    add(check(kQuickSample), ", on inputs that make each contribution visible");
    done_verifying();
    return wrong;
}

std::vector<std::string> VerifiedLaunch::check() { return check(bench_.quick() ? kQuickSample : kSample); }

std::vector<std::string> VerifiedLaunch::check(std::size_t sample) {
    std::vector<std::string> wrong;
    const SideEffects found = launch_->side_effects(false);
    for (const Overrun& place : found.overrun) wrong.push_back("Kiln wrote " + place.text());
    for (const std::string& tensor : found.not_zeroed)
        wrong.push_back("Kiln left its scratch " + tensor + " not zeroed");
    for (const auto& memory : launch_->tensors())
        if (is_result(memory->tensor()))
            for (std::string& sentence : check(*memory, "Kiln", sample)) wrong.push_back(std::move(sentence));
    return wrong;
}

}  // namespace kiln::bench
