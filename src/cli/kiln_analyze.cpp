// SPDX-License-Identifier: Apache-2.0
//
// kiln analyze: one variant after the other.
#include "cli/kiln_analyze.h"

#include <kiln/device.h>
#include <kiln/error.h>

#include <algorithm>

#include "cli/kiln_command.h"

namespace kiln::cli {
namespace {

/// The GPU that a service would open; nullopt: there is none.
std::optional<DeviceInfo> first_gpu(const CommonOptions& options) {
    for (const Backend backend : {Backend::cuda, Backend::hip}) {
        if (options.backend && options.backend != backend) continue;
        const std::vector<DeviceInfo> devices = Device::list(backend);
        const auto ordinal = static_cast<std::size_t>(std::max(options.device, 0));
        if (ordinal < devices.size()) return devices[ordinal];
    }
    return std::nullopt;
}

}  // namespace

AnalyzeOptions analyze_options(const Call& call) {
    AnalyzeOptions options;
    options.sizes = given_sizes(call);
    options.test_sizes = call.flag("test-sizes");
    options.record = !call.flag("no-record");
    if (call.has("chip")) options.chip = call.value("chip");
    return options;
}

std::string choose_target(ServiceOptions& setup, const CommonOptions& options,
                          const std::string& template_name) {
    const std::optional<DeviceInfo> gpu = first_gpu(options);
    setup.compile_only = !gpu || (!options.arch.empty() && options.arch != gpu->arch);
    if (gpu || !options.arch.empty() || options.backend == Backend::host) return {};
    const Template of =
        options.templates.value_or(TemplateSet(options.template_directories)).find(template_name);
    constexpr std::pair<Backend, const char*> kChoices[] = {{Backend::cuda, "sm_90a"},
                                                            {Backend::hip, "gfx90a"}};
    for (const auto& [backend, arch] : kChoices) {
        if ((options.backend && options.backend != backend) || !of.runs_on(backend, arch)) continue;
        setup.backend = backend;
        setup.arch = arch;
        return "no GPU is here; analysing for " + setup.arch + " (--arch names another)";
    }
    return {};
}

int analyze(const Call& call) {
    Warnings warnings(call.terminal);
    ServiceOptions setup = compile_options(call, warnings);
    const std::string note = choose_target(setup, call.options, call.words[0]);
    const auto service = open_service(call, warnings, std::move(setup));
    if (!note.empty()) call.terminal.note(note);
    const std::vector<Variant> variants =
        chosen_variants(service->find(call.words[0]), std::span(call.words).subspan(1));
    const AnalyzeOptions options = analyze_options(call);
    Analyzer analyzer(*service);
    Json list = Json::array();
    std::string text;
    for (const Variant& variant : variants) {
        const Analysis analysis = [&] {
            const Progress progress(call.terminal, "analysing " + variant.text());
            return analyzer.analyze(variant, options);
        }();
        if (call.options.json)
            list.push_back(to_json(analysis, variant, service->target()));
        else
            text += (text.empty() ? "" : "\n") + to_text(analysis, variant, service->target(), call.terminal);
    }
    call.print({{"analyses", list}}, text);
    return kPassed;
}

}  // namespace kiln::cli
