// SPDX-License-Identifier: Apache-2.0
//
// Calls the library's Chooser and tuner with jit-gemm's options.
#include "cli/gemm_choice.h"

#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/tune.h>

#include <algorithm>

#include "cli/gemm.h"
#include "cli/parameter_options.h"
#include "cli/progress_bar.h"
#include "cli/service_setup.h"
#include "cli/tune_report.h"

namespace kiln::cli {
namespace {

/// The type of A and B, for templates whose defaults differ, that both are stored row by row, and what else is asked for.
Values fixed_values(const Template& anchor, const Options& options) {
    Values values;
    if (!options.kernel_given) values = {{"TRANS_A", false}, {"TRANS_B", false}};
    for (const auto& [name, value] : options.problem) values.insert_or_assign(name, value);
    const Parameter* const type = anchor.parameter(kTypeParameter);
    if (type == nullptr || type->kind != ParameterKind::type) return values;
    values.emplace(kTypeParameter,
                   options.dtype ? Value(std::string(type_name(*options.dtype))) : type->default_value);
    return values;
}

std::vector<Template> contenders(const Service& service, const Chooser& chooser, const Options& options) {
    const Template anchor = service.find(options.kernel);
    if (options.kernel_given || service.backend() == Backend::host) return {anchor};
    std::vector<Template> templates = chooser.candidates(anchor, fixed_values(anchor, options));
    std::erase_if(templates, [](const Template& of) { return gemm_form(of) == GemmForm::none; });
    return templates;
}

/// What can't be used of the user's is noted.
Wisdom wisdom_of(const Options& options, const Terminal& terminal) {
    if (!options.wisdom.empty()) return Wisdom::load(options.wisdom);
    std::string problem;
    Wisdom wisdom = Wisdom::usual(&problem);
    terminal.note(problem);
    return wisdom;
}

}  // namespace

GemmChoice choose_gemm(const Service& service, const Options& options, const Terminal& terminal) {
    if (!options.values.empty()) return {choose_variant(service, options), std::nullopt};
    const Template anchor = service.find(options.kernel);
    // Errors of the kernel or the type are reported before anything is chosen.
    if (options.kernel_given || service.backend() == Backend::host)
        static_cast<void>(choose_variant(service, options));
    if (!anchor.is_runnable()) return {choose_variant(service, options), std::nullopt};
    const Chooser chooser(service, wisdom_of(options, terminal));
    const std::vector<Template> templates = contenders(service, chooser, options);
    try {
        Choice choice =
            chooser.choose(templates, fixed_values(anchor, options), gemm_sizes(options, service.backend()));
        for (const std::string& reason : choice.unusable) terminal.note(reason);
        terminal.note(chooser.calibration_problem());
        Variant variant = choice.variant;
        return {std::move(variant), std::move(choice)};
    } catch (const VariantError&) {
        // Errors of all templates are reported in the terms of the command line when the problem is made.
        return {choose_variant(service, options), std::nullopt};
    }
}

std::vector<ConsideredVariant> considered_gemms(const Service& service, const Options& options,
                                                const Terminal& terminal, std::size_t most) {
    const Template anchor = service.find(options.kernel);
    const Chooser chooser(service, wisdom_of(options, terminal));
    std::vector<ConsideredVariant> considered =
        chooser.considered(contenders(service, chooser, options), fixed_values(anchor, options),
                           gemm_sizes(options, service.backend()), most);
    terminal.note(chooser.calibration_problem());
    return considered;
}

void tune_gemm(Service& service, const Options& options, const Terminal& terminal,
               const Interrupts& interrupts) {
    const Template anchor = service.find(options.kernel);
    const std::filesystem::path file = options.wisdom.empty() ? Wisdom::user_file() : options.wisdom;
    if (file.empty())
        throw UsageError(
            "--tune has no file for its results: neither HOME nor KILN_WISDOM is set; add --wisdom "
            "FILE.");
    Wisdom::store(file, Wisdom());
    if (output_target(file).is_stream)
        throw UsageError("--tune reads the wisdom that it adds to, and " + file.string() +
                         " is not a file that can be read back; name one by --wisdom FILE.");
    const Chooser chooser(service, Wisdom());
    TuneOptions tuning;
    tuning.fixed = fixed_values(anchor, options);
    tuning.shapes = {gemm_sizes(options, service.backend())};
    if (options.budget_seconds) tuning.budget_seconds = *options.budget_seconds;
    tuning.stop = interrupts.token();
    tuning.seed = options.seed;
    ProgressBar bar(terminal, "tune");
    tuning.on_progress = [&](const TuneProgress& progress) {
        bar.update(progress.done, progress.total, progress.failed, progress.seconds_left);
    };
    const Interrupts::Patience patience(interrupts, kTuningEnds);
    const TuneReport report = tune(service, contenders(service, chooser, options), tuning);
    Wisdom::store(file, report.wisdom);
    if (report.wisdom.empty() && !report.stopped)
        terminal.note("--tune found nothing: " + nothing_text(report.shapes.front()));
}

}  // namespace kiln::cli
