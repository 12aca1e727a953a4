// SPDX-License-Identifier: Apache-2.0
//
// Inputs are computed again in host memory, as they were before the launch.
#include "run/result_check.h"

#include <algorithm>

#include "run/element.h"
#include "run/gemm_check.h"
#include "run/hidden_contributions.h"

namespace kiln {
namespace {

constexpr double kMostFullProducts = 2147483648.0;  // the largest GEMM that is fully checked by default

/// Whether no element is anything but an integer, and those of the output are told apart by a double.
bool is_made_of_integers(const Problem& problem, const Tensor& output) {
    const auto is_integer = [](const Tensor& tensor) {
        return with_element(tensor.type, [](auto of) { return !is_float<decltype(of)>; });
    };
    return is_integer(output) && output.element_bytes < sizeof(double) &&
           std::ranges::all_of(problem.tensors, [&](const Tensor& tensor) {
               return tensor.role == TensorRole::output || tensor.role == TensorRole::scratch ||
                      is_integer(tensor);
           });
}

}  // namespace

ResultCheck::ResultCheck(ReferenceService& references, const Variant& variant, const Problem& problem,
                         bool gemm)
    : gemm_(gemm) {
    if (gemm) copied_ = {problem.tensors[0].name, problem.tensors[1].name};
    for (const Tensor& tensor : problem.tensors) {
        if (gemm || !is_result(tensor) || tensor.reference.empty()) continue;
        const Reference& reference =
            references_.try_emplace(tensor.name, references.get(), variant, problem, tensor).first->second;
        copied_.insert(reference.inputs().begin(), reference.inputs().end());
    }
}

void ResultCheck::build() {
    for (auto& [output, reference] : references_) reference.build();
}

OutputCheck ResultCheck::gemm_output(const ProblemLaunch& launch, const GuardedTensor& result,
                                     CheckRequest& request) const {
    const auto operand = [&](const Tensor& tensor) {
        return GemmOperand(tensor.type, tensor.extents[0], tensor.extents[1],
                           inputs_.find(tensor.name)->second.data());
    };
    const Tensor &a = launch.problem().tensors[0], &b = launch.problem().tensors[1];
    const std::int64_t n = b.extents[1];
    if (!request.how)
        request.how = static_cast<double>(a.count()) * static_cast<double>(n) <= kMostFullProducts
                          ? Check::full
                          : Check::freivalds;
    const auto rows = [&](std::int64_t first, std::span<float> out) {
        result.read(first * n, std::as_writable_bytes(out));
    };
    const GemmCheck check(operand(a), operand(b));
    // With integers, Freivalds' test is exact: any missing contribution to a row is found.
    const bool whole = *request.how == Check::full && launch.data() != Data::contributions;
    OutputCheck found = whole ? check.full(rows)
                              : check.sampled(rows, std::min(request.sample, GemmCheck::kSample),
                                              request.seed, *request.how != Check::sample);
    found.tensor = result.tensor().name;
    return found;
}

OutputCheck ResultCheck::output(const ProblemLaunch& launch, const GuardedTensor& result,
                                CheckRequest& request) {
    if (inputs_.empty() && !copied_.empty()) {
        for (const auto& memory : launch.tensors())
            if (copied_.contains(memory->tensor().name))
                inputs_.emplace(memory->tensor().name, memory->initial());
        for (auto& [output, reference] : references_) reference.bind(inputs_);
    }
    request.exact = result.tensor().exact && (launch.data() == Data::integers ||
                                              is_made_of_integers(launch.problem(), result.tensor()));
    const auto reference = references_.find(result.tensor().name);
    OutputCheck found =
        gemm_ ? gemm_output(launch, result, request)
              : check_output(result, reference == references_.end() ? nullptr : &reference->second, request);
    found.data = launch.data();
    return found;
}

std::vector<OutputCheck> ResultCheck::outputs(const ProblemLaunch& launch, const CheckRequest& request,
                                              Check& done) {
    std::vector<OutputCheck> checks;
    done = Check::full;
    for (const auto& memory : launch.tensors()) {
        if (!is_result(memory->tensor())) continue;
        CheckRequest each = request;
        checks.push_back(output(launch, *memory, each));
        const auto reference = references_.find(memory->tensor().name);
        if (launch.data() == Data::contributions && reference != references_.end())
            checks.back().contributions = hidden_contributions(reference->second, launch.problem(),
                                                               memory->tensor(), inputs_, request.seed);
        if (each.how && *each.how != Check::full) done = *each.how;
    }
    return checks;
}

bool set_patterns(ReferenceService& references, const Variant& variant, Problem& problem, bool gemm) {
    if (!gemm) return set_patterns(references.get(), variant, problem);
    return std::ranges::any_of(problem.tensors,
                               [](const Tensor& tensor) { return tensor.pattern != Pattern::none; });
}

}  // namespace kiln
