// SPDX-License-Identifier: Apache-2.0
//
// kiln analyze: one variant after the other.
#include "cli/kiln_analyze.h"

#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/tools/resources.h>

#include <algorithm>

#include "cli/kiln_command.h"
#include "cli/text_format.h"
#include "format/format.h"

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

/// A kernel behind the first one, which the analysis is of.
struct MoreKernel {
    VariantKernel kernel;
    Resources resources;
};

std::vector<MoreKernel> more_kernels(Service& service, const Variant& variant) {
    const std::vector<VariantKernel> kernels = variant.kernels();
    std::vector<MoreKernel> more;
    if (kernels.size() < 2) return more;
    const Compiled compiled = service.compile(variant);
    for (std::size_t i = 1; i < kernels.size() && i <= compiled.binary.more_entries.size(); ++i) {
        Binary one = compiled.binary;
        one.entry = compiled.binary.more_entries[i - 1];
        more.push_back({kernels[i], resources_of(one)});
    }
    return more;
}

Json more_kernel_json(const MoreKernel& more) {
    const Resources& resources = more.resources;
    return {{"name", more.kernel.name},
            {"registers", or_null(resources.registers)},
            {"spill_bytes", or_null(resources.spill_bytes)},
            {"stack_bytes", or_null(resources.stack_bytes)},
            {"static_shared_bytes", resources.static_shared_bytes.value_or(more.kernel.static_shared_bytes)},
            {"dynamic_shared_bytes", more.kernel.dynamic_shared_bytes}};
}

std::string more_kernel_text(const MoreKernel& more) {
    const Resources& resources = more.resources;
    const std::uint64_t shared = resources.static_shared_bytes.value_or(more.kernel.static_shared_bytes) +
                                 more.kernel.dynamic_shared_bytes;
    std::string text = formatted("{}: {} shared bytes per block", more.kernel.name, shared);
    if (resources.registers) text += formatted(", {} registers per thread", *resources.registers);
    if (resources.spill_bytes && *resources.spill_bytes != 0)
        text += formatted(", {} bytes spilled", *resources.spill_bytes);
    if (const auto total = resources.instructions.find("total"); total != resources.instructions.end())
        text += formatted(", {} instructions", total->second);
    return text;
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
        return "no GPU was found; analysing for " + setup.arch + " (--arch names another)";
    }
    return {};
}

int analyze(const Call& call) {
    Warnings warnings(call.terminal);
    ServiceOptions setup = compile_options(call, warnings);
    const std::string note = choose_target(setup, call.options, call.words[0]);
    const auto service = open_service(call, warnings, std::move(setup));
    call.terminal.note(note);
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
        const std::vector<MoreKernel> more = more_kernels(*service, variant);
        if (call.options.json) {
            Json json = to_json(analysis, variant, service->target());
            json["more_kernels"] = Json::array();
            for (const MoreKernel& one : more) json["more_kernels"].push_back(more_kernel_json(one));
            list.push_back(std::move(json));
            continue;
        }
        text += (text.empty() ? "" : "\n") + to_text(analysis, variant, service->target(), call.terminal);
        for (const MoreKernel& one : more) text += line("next", more_kernel_text(one));
    }
    call.print({{"analyses", list}}, text);
    return kPassed;
}

}  // namespace kiln::cli
