// SPDX-License-Identifier: Apache-2.0
//
// Advice on the roofline: what bounds the time from below, and units that are idle.
#include <algorithm>
#include <string>

#include "base/arch_facts.h"
#include "format/format.h"
#include "inspect/advice.h"
#include "inspect/text_format.h"

namespace kiln {
namespace {

using Weight = Advice::Weight;

bool is_half_type(const std::string& type) { return type == "half" || type == "bfloat16"; }

/// The kernel multiplies operands of a type that tensor cores support.
bool has_half_operands(const Problem& problem) {
    return std::ranges::count_if(problem.tensors, [](const Tensor& tensor) {
               return tensor.role == TensorRole::input && is_half_type(tensor.type) &&
                      tensor.extents.size() >= 2;
           }) >= 2;
}

}  // namespace

void advise_on_roofline(const AdviceContext& context, std::vector<Advice>& out) {
    const Analysis& analysis = context.analysis;
    if (analysis.chip == nullptr || !(analysis.chip->memory_gbps > 0)) return;
    const double bytes = analysis.traffic.bytes_at_least;
    const std::string memory =
        formatted("{:.3g} GB take {} at {:.0f} GB/s", bytes / 1e9,
                  time_of(bytes / analysis.chip->memory_gbps / 1e6), analysis.chip->memory_gbps);
    if (analysis.problem.flops == 0 && bytes > 0)
        out.push_back({Weight::hint,
                       "memory alone: " + memory + "; a line '//@ flops' adds what arithmetic takes",
                       {}});
    if (analysis.roofline && analysis.roofline->memory_bound)
        out.push_back({Weight::hint, "memory bounds it: " + memory, {}});
    if (!analysis.roofline) return;
    const Roofline& roof = *analysis.roofline;
    const std::string unit(name(roof.unit));
    if (!roof.memory_bound)
        out.push_back(
            {Weight::hint,
             formatted(
                 "arithmetic bounds it: {:.4g} GFLOP take {} at {:.4g} TFLOP/s of {}; memory would take {}",
                 static_cast<double>(analysis.problem.flops) / 1e9, time_of(roof.floor_ms),
                 analysis.chip->tflops(roof.unit).value_or(0), unit, time_of(roof.memory_ms)),
             {}});

    const auto matrix = analysis.chip->tflops(Unit::matrix_f16);
    const auto used = analysis.chip->tflops(roof.unit);
    if (roof.unit == Unit::matrix_f16 || roof.memory_bound || !matrix || !used || *matrix <= *used ||
        !has_half_operands(analysis.problem))
        return;
    const double floor_ms = std::max(roof.memory_ms, roof.compute_ms * *used / *matrix);
    out.push_back({Weight::hint,
                   formatted("the {} cores are not used: their peak is {:.3g} times as high ({:.4g} "
                             "TFLOP/s), and the lower bound would be {}",
                             backend_of_arch(analysis.arch) == Backend::hip ? "matrix" : "tensor",
                             *matrix / *used, *matrix, time_of(floor_ms)),
                   {}});
}

}  // namespace kiln
