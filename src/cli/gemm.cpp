// SPDX-License-Identifier: Apache-2.0
//
// The run itself is done by Runner, as for any template.
#include "cli/gemm.h"

#include <kiln/error.h>
#include <kiln/run.h>
#include <kiln/tools/resources.h>

#include <algorithm>

#include "cli/gemm_report.h"
#include "cli/option_values.h"
#include "cli/parameter_options.h"

namespace kiln::cli {
namespace {

constexpr int kExtent = 1024;
constexpr int kHostExtent = 512;

std::string signature_text(const Variant& variant) {
    std::vector<std::string> arguments;
    for (const KernelArgument& argument : variant.arguments())
        arguments.push_back(argument.type + " " + argument.name);
    return "(" + enumerate(arguments, ", ") + ")";
}

/// It declares every argument, sizes m, n and k, and a result c.
bool is_declared_gemm(const Template& of) {
    const auto has_size = [&](const char* name) {
        return std::ranges::find(of.sizes(), name, &SizeArgument::name) != of.sizes().end();
    };
    return of.is_runnable() && has_size("m") && has_size("n") && has_size("k") &&
           std::ranges::any_of(of.tensors(), [](const TensorArgument& tensor) {
               return tensor.name == "c" &&
                      (tensor.role == TensorRole::output || tensor.role == TensorRole::inout);
           });
}

RunOptions run_options(const Service& service, const Variant& variant, const Options& options) {
    RunOptions result;
    result.gemm = gemm_form(variant) == GemmForm::plain;
    result.sizes = options.sizes;
    for (const auto& [size, value] : {std::pair("m", options.m), {"n", options.n}, {"k", options.k}})
        if (value) result.sizes[size] = *value;
    const bool has_own_sizes = !result.gemm && options.kernel_given;
    if (!has_own_sizes) result.sizes = gemm_sizes(options, service.backend());
    result.test_sizes = has_own_sizes && service.backend() == Backend::host;
    result.seed = options.seed;
    result.check = options.check;
    // All of C is checked if that is as cheap.
    if (result.gemm && options.check == Check::sample) result.check = Check::freivalds;
    result.iterations = options.iterations;
    result.warm_up = options.warm_up;
    result.cold_l2 = options.cold_l2;
    return result;
}

/// Nothing is run.
RunResult compiled(Service& service, const Variant& variant, const RunOptions& run,
                   const Terminal& terminal) {
    const Progress progress(terminal, "compiling");
    RunResult result;
    result.problem = run.gemm ? *gemm_problem(variant, run.sizes, run.test_sizes)
                              : variant.problem(run.sizes, run.test_sizes);
    const Compiled compiled = service.compile(variant);
    result.origin = compiled.origin;
    result.build.key = compiled.key;
    result.build.build_ms = compiled.elapsed_ms;
    const Resources resources = resources_of(compiled.binary);
    result.build.registers = resources.registers;
    result.build.static_shared_bytes = resources.static_shared_bytes.value_or(variant.static_shared_bytes());
    result.build.dynamic_shared_bytes = variant.dynamic_shared_bytes();
    return result;
}

}  // namespace

GemmForm gemm_form(const Variant& variant) {
    try {
        if (gemm_problem(variant, {}, true)) return GemmForm::plain;
    } catch (const VariantError&) {
        // Its defaults are no problem.
    }
    return is_declared_gemm(variant.origin()) ? GemmForm::declared : GemmForm::none;
}

GemmForm gemm_form(const Template& of) {
    try {
        return gemm_form(of.variant());
    } catch (const VariantError&) {
        return is_declared_gemm(of) ? GemmForm::declared : GemmForm::none;
    }
}

Variant choose_variant(const Service& service, const Options& options) {
    const Template chosen = service.find(options.kernel);
    Values values = options.values;
    values.insert(options.problem.begin(), options.problem.end());
    const Parameter* const type = chosen.parameter(kTypeParameter);
    if (options.dtype && type != nullptr && type->kind == ParameterKind::type)
        values.insert_or_assign(kTypeParameter, std::string(type_name(*options.dtype)));
    Variant variant = chosen.variant(values);
    const GemmForm form = gemm_form(variant);
    if (form == GemmForm::none)
        throw UsageError(
            "jit-gemm runs kernels of the signature (int m, int n, int k, const T* a, const T* b, float* "
            "c) with T kiln::half, kiln::bfloat16 or float, and templates that declare their problem, with "
            "sizes "
            "m, n and k and an output c; " +
            options.kernel + " has " + signature_text(variant) +
            ". --list-kernels shows which kernels it can run.");
    if (form == GemmForm::plain && !options.sizes.empty())
        throw UsageError("--size " + options.sizes.begin()->first + ": " + options.kernel +
                         " has the sizes m, n and k alone, which --m, --n and --k give.");
    const std::string given(options.dtype ? name(*options.dtype) : "");
    const std::string found = operand_type(variant);
    if (options.dtype && given != found)
        throw UsageError("--dtype " + given + ": " + options.kernel +
                         " has no type parameter T and is always " + found + "; leave --dtype out.");
    return variant;
}

Sizes gemm_sizes(const Options& options, Backend backend) {
    const int otherwise = backend == Backend::host ? kHostExtent : kExtent;
    Sizes sizes = options.sizes;
    sizes["m"] = options.m.value_or(otherwise);
    sizes["n"] = options.n.value_or(otherwise);
    sizes["k"] = options.k.value_or(otherwise);
    return sizes;
}

RunReport run_gemm(Service& service, const Variant& variant, const Options& options,
                   const Terminal& terminal) {
    RunReport report{
        variant, service.backend(), {}, service.target().arch, run_options(service, variant, options)};
    if (options.compile_only) {
        report.result = compiled(service, variant, report.options, terminal);
        return report;
    }
    report.device = service.device().info().name;
    const StdoutToStderr aside;
    std::optional<Progress> progress;
    RunOptions run = report.options;
    run.on_phase = [&](std::string_view phase) { progress.emplace(terminal, std::string(phase)); };
    report.result = Runner(service).run(variant, run);
    return report;
}

}  // namespace kiln::cli
