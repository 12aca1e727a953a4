// SPDX-License-Identifier: Apache-2.0
//
// The greatest error of all outputs is reported.
#include "cli/gemm_report.h"

#include <algorithm>

#include "cli/dtype.h"
#include "cli/gemm.h"

namespace kiln::cli {
namespace {

Json shape_json(const RunReport& report) {
    const Problem& problem = report.result.problem;
    // Of A, [m, k], and of B, [k, n], whatever the arguments of the sizes are called.
    if (report.options.gemm)
        return {{"m", problem.tensors[0].extents[0]},
                {"n", problem.tensors[1].extents[1]},
                {"k", problem.tensors[0].extents[1]}};
    Json shape;
    for (const char* const name : {"m", "n", "k"}) shape[name] = problem.sizes.at(name);
    return shape;
}

}  // namespace

std::string operand_type(const Variant& variant) {
    const bool is_gemm = gemm_form(variant) == GemmForm::plain;
    for (std::size_t i = 0; i < variant.arguments().size(); ++i) {
        const KernelArgument& argument = variant.arguments()[i];
        if (is_gemm ? i != 3 : argument.name != "a") continue;
        std::string type = argument.type.substr(0, argument.type.find('*'));
        if (type.starts_with("const ")) type.erase(0, 6);
        const auto dtype = dtype_of(type);
        return dtype ? std::string(name(*dtype)) : type;
    }
    return {};
}

std::string gemm_json(const RunReport& report) {
    const RunResult& result = report.result;
    Json json = to_json(report);
    json["kernel"] = report.variant.template_name();
    json["variant"] = values_json(report.variant.values());
    json["dtype"] = operand_type(report.variant);
    json["shape"] = shape_json(report);
    json["cache"] = name(result.origin);
    json["verified"] = name(result.check == Check::freivalds ? Check::sample : result.check);
    double error = 0, worst = 0;
    for (const OutputCheck& output : result.outputs_checked) {
        error = std::max(error, output.max_abs_error);
        worst = std::max(worst, output.worst);
    }
    for (const OutputCheck& output : result.contributions_checked) {
        if (output.wrong == 0 && output.wrong_rows.value_or(0) == 0) continue;
        error = std::max(error, output.max_abs_error);
        worst = std::max(worst, output.worst);
    }
    const bool compared = result.check != Check::none;
    json["max_abs_error"] = compared ? Json(error) : Json();
    json["max_error_over_bound"] = compared ? Json(worst) : Json();
    return dumped(json);
}

}  // namespace kiln::cli
