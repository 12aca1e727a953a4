// SPDX-License-Identifier: Apache-2.0
//
// Everything that a child process uses is prepared before the fork.
#include "tune/candidate_runner.h"

#include <algorithm>

#include "format/format.h"
#include "run/inputs.h"
#include "run/isolated.h"

namespace kiln {

CandidateRunner::CandidateRunner(Service& service, Service& host, bool cold_l2, std::uint64_t seed)
    : service_(service), host_(host), seed_(seed), tensors_(service, seed), timer_(service, cold_l2) {}

void CandidateRunner::clear() {
    tensors_.clear();
    expected_.clear();
}

double CandidateRunner::time_ms(const AnyKernel& kernel, const Problem& problem) {
    const ProblemLaunch launch(service_, kernel, problem, tensors_);
    return timer_.time_ms([&] { launch.launch(); });
}

std::vector<double> CandidateRunner::times_ms(const AnyKernel& kernel, const Problem& problem,
                                              std::size_t most, double enough_ms) {
    prepare(problem);
    const bool apart = isolates(service_);
    return isolated(service_, kernel.variant().template_name(), {}, [&](const ReportPhase&) {
        if (apart) static_cast<void>(time_ms(kernel, problem));
        std::vector<double> times;
        do times.push_back(time_ms(kernel, problem));
        while (times.size() < most && times.back() <= enough_ms && !service_.options().stop.stop_requested());
        return times;
    });
}

const ExpectedSample& CandidateRunner::expected(const ProblemLaunch& launch, const Tensor& output) {
    std::string name = formatted("{} {}", launch.variant().template_name(), static_cast<int>(launch.data()));
    for (const Tensor& one : launch.problem().tensors)
        if (one.role == TensorRole::input || one.role == TensorRole::inout || one.name == output.name)
            name += " " + identity_of(one, launch.data());
    std::unique_ptr<ExpectedSample>& place = expected_[name];
    if (place) return *place;
    auto made = std::make_unique<ExpectedSample>(output, random_word(seed_, 1));
    Reference reference(host_, launch.variant(), launch.problem(), output);
    HostTensors inputs;
    for (const std::string& input : reference.inputs())
        inputs.try_emplace(input, launch.tensor(input).initial());
    reference.bind(inputs);
    made->set(isolated(service_, reference.name(), {},
                       [&](const ReportPhase&) { return made->compute(reference); }));
    place = std::move(made);
    return *place;
}

/// The same problem with inputs that make each contribution visible; nullopt: no reference declares them, or the
/// device has no memory for a second set of inputs.
std::optional<Problem> CandidateRunner::with_patterns(const Variant& variant, const Problem& problem) {
    Problem with = problem;
    if (!set_patterns(host_, variant, with)) return std::nullopt;
    // The same amount stays free, for the scratch memory of other variants.
    if (tensors_.missing_bytes(with, Data::contributions) > service_.device().free_bytes() / 2)
        return std::nullopt;
    return with;
}

void CandidateRunner::prepare_expected(const AnyKernel& kernel, const Problem& problem, Data data) {
    const ProblemLaunch launch(service_, kernel, problem, tensors_, data);
    for (const Tensor& one : problem.tensors)
        if (is_result(one) && !one.reference.empty()) static_cast<void>(expected(launch, one));
}

std::string CandidateRunner::check(const AnyKernel& kernel, const Problem& problem) {
    const std::optional<Problem> patterned = with_patterns(kernel.variant(), problem);
    if (isolates(service_)) {
        prepare_expected(kernel, problem, Data::random);
        if (patterned) prepare_expected(kernel, *patterned, Data::contributions);
    }
    return isolated(service_, kernel.variant().template_name(), {}, [&](const ReportPhase& tell) {
        std::string wrong = problem_of(kernel, problem, Data::random, tell);
        if (!wrong.empty() || !patterned) return wrong;
        wrong = problem_of(kernel, *patterned, Data::contributions, tell);
        return wrong.empty() ? wrong : wrong + ", with inputs that make each contribution visible";
    });
}

std::string CandidateRunner::problem_of(const AnyKernel& kernel, const Problem& problem, Data data,
                                        const ReportPhase& tell) {
    tell("filling");
    // Created here, since the guards of a child cover its own launches.
    ProblemLaunch launch(service_, kernel, problem, tensors_, data);
    launch.refill_results();
    tell("running");
    launch.launch_and_wait();
    tell("checking");
    for (std::size_t i = 0; i < launch.tensors().size(); ++i) {
        const auto& memory = launch.tensors()[i];
        // Its own, since the memory may have been made for another template, which has another reference.
        const Tensor& one = launch.problem().tensors[i];
        if (one.role != TensorRole::input)
            if (const std::vector<Overrun> places = memory->overruns(); !places.empty())
                return "the kernel wrote " + places.front().text();
        if (!is_result(one) || one.reference.empty()) continue;
        const ExpectedSample& sample = expected(launch, one);
        if (const std::uint64_t wrong = sample.wrong(*memory); wrong > 0)
            return formatted("{} of {} elements of {} are wrong", wrong, sample.count(), one.name);
    }
    for (const auto& [tensor, count] : launch.unwritten(tell))
        return formatted("{} elements of {} were never written", count, tensor);
    return {};
}

}  // namespace kiln
