// SPDX-License-Identifier: Apache-2.0
//
// From jit-gemm's options to a run and back to its report.
#include "cli/gemm_declared.h"

#include <kiln/error.h>
#include <kiln/run.h>

#include <algorithm>
#include <optional>

#include "cli/run_report.h"
#include "cli/words.h"

namespace kiln::cli {
namespace {

RunOptions run_options(const Service& service, const Options& options) {
    RunOptions result;
    result.sizes = options.sizes;
    for (const auto& [size, value] : {std::pair("m", options.m), {"n", options.n}, {"k", options.k}})
        if (value) result.sizes[size] = *value;
    result.test_sizes = service.backend() == Backend::host;
    result.seed = options.seed;
    if (options.verify) result.check = static_cast<Check>(*options.verify);
    result.iterations = options.iterations;
    result.warm_up = options.warm_up;
    result.cold_l2 = options.cold_l2;
    return result;
}

Checked checked(const RunResult& result) {
    Checked checked;
    std::vector<std::string> compared;
    for (const OutputCheck& output : result.outputs_checked) {
        checked.max_abs_error = std::max(checked.max_abs_error, output.max_abs_error);
        checked.max_error_over_bound = std::max(checked.max_error_over_bound, output.worst);
        compared.push_back((output.checked == output.elements ? "all " : "") +
                           std::to_string(output.checked) + " elements of " + output.tensor);
    }
    checked.how = enumerate(compared, " and ");
    for (const OutputCheck& output : result.contributions_checked) {
        checked.max_abs_error = std::max(checked.max_abs_error, output.wrong > 0 ? output.max_abs_error : 0);
        checked.max_error_over_bound =
            std::max(checked.max_error_over_bound, output.wrong > 0 ? output.worst : 0);
        checked.exact = output.checked > 0 && output.max_abs_error == 0;
    }
    for (const std::string& failure : result.failures())
        checked.failure += (checked.failure.empty() ? "wrong result: " : " ") + failure;
    return checked;
}

}  // namespace

bool is_declared_product(const Template& of) {
    const auto& sizes = of.sizes();
    const auto has_size = [&](const char* name) {
        return std::any_of(sizes.begin(), sizes.end(),
                           [&](const SizeArgument& size) { return size.name == name; });
    };
    const auto& tensors = of.tensors();
    return of.is_runnable() && has_size("m") && has_size("n") && has_size("k") &&
           std::any_of(tensors.begin(), tensors.end(), [](const TensorArgument& tensor) {
               return tensor.name == "c" &&
                      (tensor.role == TensorRole::output || tensor.role == TensorRole::inout);
           });
}

std::string operand_type(const Variant& variant) {
    for (const KernelArgument& argument : variant.arguments()) {
        if (argument.name != "a") continue;
        std::string type = argument.type.substr(0, argument.type.find('*'));
        if (type.starts_with("const ")) type.erase(0, 6);
        const auto dtype = dtype_of(type);
        return dtype ? std::string(name(*dtype)) : type;
    }
    return {};
}

void describe_declared(const Service& service, const Variant& variant, const Options& options,
                       Report& report) {
    const RunOptions run = run_options(service, options);
    const Problem problem = variant.problem(run.sizes, run.test_sizes);
    const auto extent = [&](const char* size) { return static_cast<int>(problem.sizes.at(size)); };
    report.dtype = operand_type(variant);
    report.shape = {extent("m"), extent("n"), extent("k")};
    report.problem = sizes_text(variant, problem, run, service.backend()) + ": " + tensors_text(problem);
    report.flops = static_cast<double>(problem.flops);
    report.flops_formula = "as declared";
    report.bytes = static_cast<double>(problem.bytes);
    report.bytes_formula = "as declared";
}

void run_declared(Service& service, const Variant& variant, const Options& options, const Terminal& terminal,
                  Report& report) {
    RunOptions run = run_options(service, options);
    std::optional<Progress> progress;
    run.on_phase = [&](std::string_view phase) { progress.emplace(terminal, std::string(phase)); };
    const RunResult result = Runner(service).run(variant, run);
    report.cache = result.origin;
    report.key = result.build.key.digest;
    report.build_ms = result.build.build_ms;
    report.load_ms = result.build.load_ms;
    report.shared_bytes = result.build.shared_bytes();
    report.registers = result.build.registers;
    report.blocks_per_sm = result.build.blocks_per_multiprocessor;
    report.time = result.time;
    report.verified = static_cast<Verify>(result.check);
    if (result.check != Check::none || !result.pass()) report.checked = checked(result);
}

}  // namespace kiln::cli
