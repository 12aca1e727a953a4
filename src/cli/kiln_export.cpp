// SPDX-License-Identifier: Apache-2.0
//
// kiln export: the variants of manifests as C sources, a header and a source for each template.
#include <kiln/error.h>
#include <kiln/files.h>
#include <kiln/tools/export.h>

#include <deque>
#include <filesystem>
#include <future>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/kiln_command.h"
#include "cli/manifest_plan.h"
#include "cli/option_values.h"
#include "cli/output_file.h"
#include "cli/progress_bar.h"

namespace kiln::cli {
namespace {

constexpr std::size_t kCompilesAtOnce = 256;

Wisdom wisdom_to_bake_in(const Call& call) {
    Wisdom all;
    if (!call.has("wisdom")) {
        std::string problem;
        all = Wisdom::usual(&problem);
        call.terminal.note(problem);
        return all;
    }
    for (const std::string& file : call.given["wisdom"].as<std::vector<std::string>>())
        all.merge(Wisdom::load(file));
    return all;
}

/// All variants of the plan with their binaries, by template.
std::map<std::string, std::vector<ExportedVariant>> built(const Call& call, ManifestPlan& plan) {
    std::map<std::string, std::vector<ExportedVariant>> by_template;
    ProgressBar bar(call.terminal, "export");
    std::uint64_t done = 0;
    for (const auto& group : plan.groups()) {
        std::deque<std::future<Compiled>> window;
        std::size_t next = 0;
        for (const Variant& variant : group->variants) {
            while (next < group->variants.size() && window.size() < kCompilesAtOnce)
                window.push_back(group->service->compile_async(group->variants[next++]));
            by_template[variant.template_name()].push_back({variant, window.front().get().binary});
            window.pop_front();
            bar.update(++done, plan.total());
        }
    }
    return by_template;
}

}  // namespace

int export_sources(const Call& call) {
    if (!call.has("output"))
        throw UsageError("kiln export writes several files: name a directory for them with --output DIR.");
    if (call.value("output") == "-")
        throw UsageError(
            "--output - is standard output, and kiln export writes several files: name a directory for them; "
            "./- is one called so.");
    Warnings warnings(call.terminal);
    const ServiceOptions options = compile_options(call, warnings);
    ManifestPlan plan(call, warnings, options, false);
    for (const std::string& name : call.words) plan.add(read_manifest(name));
    if (plan.groups().empty()) throw UsageError("the manifest names no variant.");
    for (const auto& group : plan.groups())
        if (group->service->backend() == Backend::host)
            throw UsageError(
                "kernels of the host can't be exported; add targets such as @cuda:sm_90a @hip:gfx90a to "
                "the lines of the manifest, or name one with --arch.");
    const Wisdom wisdom = wisdom_to_bake_in(call);
    const std::filesystem::path directory = call.value("output");
    std::vector<ExportedFile> files;
    std::map<std::string, std::string> owners;  // of functions: kiln_a_load may be the kernel of a_load
    for (const auto& [name, variants] : built(call, plan)) {
        for (ExportedFile& file : export_c(*plan.groups().front()->service, variants, wisdom)) {
            for (const std::string& function : file.functions)
                if (const auto [owner, is_new] = owners.emplace(function, name); !is_new)
                    throw UsageError(owner->second + " and " + name +
                                     " can't be exported into one program: both would define " + function +
                                     "; give one of the templates another name.");
            files.push_back(std::move(file));
        }
    }
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    Json names = Json::array();
    std::string text;
    std::vector<std::pair<std::filesystem::path, std::string_view>> outputs;
    outputs.reserve(files.size());
    for (const ExportedFile& file : files) {
        const std::filesystem::path name = directory / file.name;
        Output("--output", name.string())
            .check_replaces("exported source", {"ade by `kiln export`"});  // "Made", "made"
        outputs.emplace_back(name, file.text);
    }
    write_outputs(outputs);
    for (const ExportedFile& file : files) {
        names.push_back((directory / file.name).string());
        text += (directory / file.name).string() + " (" + bytes_text(double(file.text.size())) + ")\n";
    }
    call.print({{"files", names}, {"variants", plan.total()}}, text);
    return kPassed;
}

}  // namespace kiln::cli
