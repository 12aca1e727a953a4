// SPDX-License-Identifier: Apache-2.0
//
// The actions of jit-gemm.
#include "cli/jit_gemm.h"

#include <kiln/kiln.h>

#include "cli/emit.h"
#include "cli/gemm.h"
#include "cli/gemm_choice.h"
#include "cli/gemm_report.h"
#include "cli/json.h"
#include "cli/kiln_analyze.h"
#include "cli/kiln_completion.h"
#include "cli/lists.h"
#include "cli/options.h"
#include "cli/parameter_options.h"
#include "cli/program.h"
#include "cli/service_setup.h"
#include "cli/text_format.h"
#include "format/format.h"

namespace kiln::cli {
namespace {

std::string list_kernels(const Options& options) {
    std::vector<KernelEntry> entries;
    for (const Template& found : options.templates->all()) {
        if (found.is_reference()) continue;
        KernelEntry entry{found.name(), found.summary(), "", false, false};
        for (const Parameter& parameter : found.parameters())
            entry.parameters +=
                (entry.parameters.empty() ? "" : " ") + parameter.name + "=" + parameter.default_value.text();
        const GemmForm form = gemm_form(found);
        entry.is_gemm = form != GemmForm::none;
        entry.is_declared = form == GemmForm::declared;
        entries.push_back(std::move(entry));
    }
    return options.json ? kernels_json(entries) : kernels_text(entries);
}

std::string list_devices(const Options& options) {
    std::vector<BackendEntry> entries;
    for (const Backend backend : {Backend::cuda, Backend::hip, Backend::host}) {
        BackendEntry entry;
        entry.backend = backend;
        entry.devices = Device::list(backend, &entry.reason);
        entries.push_back(std::move(entry));
    }
    return options.json ? devices_json(entries) : devices_text(entries);
}

void analyze(Service& service, const Variant& variant, const Options& options, const Terminal& terminal) {
    AnalyzeOptions asked;
    asked.sizes = gemm_sizes(options);
    const Analysis analysis = [&] {
        const Progress progress(terminal, "analysing");
        return Analyzer(service).analyze(variant, asked);
    }();
    terminal.print(options.json ? dumped(to_json(analysis, variant, service.target()))
                                : to_text(analysis, variant, service.target(), terminal));
}

constexpr std::size_t kExplained = 5;

std::string explained(const std::vector<ConsideredVariant>& list, bool json) {
    Json considered = Json::array();
    std::string text;
    for (const ConsideredVariant& one : list) {
        considered.push_back({{"template", one.variant.template_name()},
                              {"values", values_json(one.variant.values())},
                              {"origin", name(one.origin)},
                              {"ms", one.ms},
                              {"reason", one.reason}});
        text += formatted("{:>10.2f} us  {}\n               by {}: {}\n", one.ms * 1000, one.variant.text(),
                          one.origin == ChoiceOrigin::model     ? "the model"
                          : one.origin == ChoiceOrigin::nearest ? "near wisdom"
                                                                : "wisdom",
                          one.reason);
    }
    if (json) return dumped({{"considered", considered}});
    return "The first variant is chosen; the others follow by time. Times are estimates unless they were "
           "measured for this shape.\n" +
           text;
}

int multiply(const Options& options, const Terminal& terminal, const Interrupts& interrupts) {
    Warnings warnings(terminal);
    ServiceOptions setup = service_options(options, warnings, interrupts.token());
    setup.compile_only = options.compile_only || options.explain_choice || options.emit.has_value();
    const std::string note = options.analyze ? choose_target(setup, options, options.kernel) : std::string();
    Service service(std::move(setup));
    check_cache_directory(service, options);
    warnings.release();
    if (note.empty())
        say_why_host(service, options, terminal);
    else
        terminal.note(note);
    if (options.tune) tune_gemm(service, options, terminal, interrupts);
    if (interrupts.signal() != 0) return 128 + interrupts.signal();
    if (options.explain_choice) {
        terminal.print(explained(considered_gemms(service, options, terminal, kExplained), options.json));
        return kPassed;
    }
    const auto [variant, choice] = choose_gemm(service, options, terminal);
    if (options.analyze) {
        analyze(service, variant, options, terminal);
        return kPassed;
    }

    if (options.emit) {
        const std::string content = emitted(service, variant, *options.emit);
        write_emitted(content, options, terminal);
        if (options.json)
            terminal.print(text_json(std::string(name(*options.emit)), options.output.string()));
        return kPassed;
    }
    RunReport report = run_gemm(service, variant, options, terminal);
    report.choice = choice;
    terminal.print(options.json ? gemm_json(report) : to_text(report, terminal));
    return told(report.result, terminal);
}

int act(const ProgramContext& context) {
    const Terminal& terminal = context.terminal;
    if (context.arguments.size() == 2 && context.arguments[0] == kComplete) {
        for (const std::string& candidate : completions(context.arguments[1]))
            terminal.print(candidate + "\n");
        return kPassed;
    }
    const Options options = parse_options(context.arguments);
    const bool json = context.json = options.json;
    switch (options.action) {
        case Action::help:
            terminal.print(json ? text_json("help", options.help) : options.help);
            break;
        case Action::version: {
            const std::string text(version());
            terminal.print(json ? text_json("version", text) : "kiln " + text + "\n");
            break;
        }
        case Action::list_kernels:
            terminal.print(list_kernels(options));
            break;
        case Action::list_devices:
            terminal.print(list_devices(options));
            break;
        case Action::multiply:
            return multiply(options, terminal, context.interrupts);
    }
    return kPassed;
}

}  // namespace

int jit_gemm(const std::vector<std::string>& arguments) { return run_program("jit-gemm", arguments, act); }

}  // namespace kiln::cli
